import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { balances, freshToken, fund, makeUser } from "../support/ledger.ts";

it("a funded user has exactly the amount, also above 2^53", async () => {
  const { userId } = await makeUser(env.DB);
  const { key } = freshToken();
  await fund(env.DB, userId, key, 2n ** 53n + 1n);
  await fund(env.DB, userId, key, 2n);
  expect(await balances(env.DB, userId, key)).toEqual([2n ** 53n + 3n, 0n]);
});
