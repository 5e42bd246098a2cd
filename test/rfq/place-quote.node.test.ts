/** The trigger that places quotes, as src/rfq/place-quote.ts states it. */
import { expect, it } from "vitest";
import { quoteTrigger } from "../../src/rfq/place-quote.ts";
import { printTrigger } from "../support/node/print-sql.ts";

const HEADER = `-- Places the quotes of a commit group, one command after the other, as src/rfq/place-quote.ts
-- explains.
--
-- Generated from that file. Do not edit: change the file, and write this one again with
--   npm run test -- --project node test/rfq/place-quote.node.test.ts -u
CREATE TRIGGER quote_commands_place BEFORE INSERT ON quote_commands BEGIN
`;

it("is the trigger of the migration", async () => {
  const trigger = printTrigger(HEADER, quoteTrigger());
  await expect(trigger).toMatchFileSnapshot("../../migrations/0003_place_quote.sql");
});
