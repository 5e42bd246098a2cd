/** A request has a minimum size, which the operator sets for each venue. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { apiOf } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { command, type NewRequest, operationOf, rejectionOf } from "../support/market.ts";
import { newUser } from "../support/users.ts";

const venues = config(env).VENUES.map((venue) => ({ ...venue, min_request: 1_000 }));
const settings = { ...config(env), VENUES: venues };

async function open(terms: NewRequest) {
  const { key: book } = newAsset();
  const operation = await operationOf(command.openRequest(await newUser(), book, terms), settings);
  const group = await commitOperations(env.DB, book, [operation]);
  if (!group.committed) throw new Error("the group was rolled back", { cause: group.cause });
  return operation.result(group.effects) ?? (await rejectionOf(operation));
}

it.each<NewRequest>([{ amount: 999n }, { amount: 0n, usdcAmount: 999n }])(
  "rejects a request below the venue's minimum, in tokens and in money",
  async (terms) => {
    expect(await open(terms)).toMatchObject({
      ok: false,
      problem: { code: "request_amount_limit", extensions: { minimum: "0x3e8" } },
    });
  },
);

it.each<NewRequest>([{ amount: 1_000n }, { amount: 0n, usdcAmount: 1_000n }])(
  "accepts a request of the venue's minimum",
  async (terms) => {
    expect(await open(terms)).toMatchObject({ ok: true, kind: "request" });
  },
);

it("shows both minimums, which are one token by default", async () => {
  const [{ min_request: _, min_priced_trade: __, ...venue }] = config(env).VENUES as [any];
  const api = apiOf(await newUser(), { VENUES: JSON.stringify([venue]) });
  expect((await api.get("/config")).json["venues"]).toMatchObject([
    { min_request: "0xf4240", min_priced_trade: "0xf4240" },
  ]);
});
