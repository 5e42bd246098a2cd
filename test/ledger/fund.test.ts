import { expect, it } from "vitest";
import { balances, newAsset, fund } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

it("credits amounts above 2^53 exactly", async () => {
  const { key } = newAsset();
  const { userId } = await newUser({ [key]: 2n ** 53n + 1n });
  await fund(userId, key, 2n);
  expect(await balances(userId, key)).toEqual([2n ** 53n + 3n, 0n]);
});
