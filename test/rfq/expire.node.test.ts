/** The trigger that ends what is due, as src/rfq/expire.ts states it. */
import { expect, it } from "vitest";
import { expiryTrigger } from "../../src/rfq/expire.ts";
import { printTrigger } from "../support/node/print-sql.ts";

const HEADER = `-- Ends what is due before the operations of a commit group, as src/rfq/expire.ts explains.
--
-- Generated from that file. Do not edit: change the file, and write this one again with
--   npm run test -- --project node test/rfq/expire.node.test.ts -u
CREATE TRIGGER expiry_commands_expire BEFORE INSERT ON expiry_commands BEGIN
`;

it("is the trigger of the migration", async () => {
  const trigger = printTrigger(HEADER, expiryTrigger());
  await expect(trigger).toMatchFileSnapshot("../../migrations/0004_expire.sql");
});
