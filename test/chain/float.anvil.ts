/** The float of a venue, on the real Conditional Tokens contract, killed anywhere. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { expect, it } from "vitest";
import { type Address, type Hex, parseEther, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { Client } from "../../packages/client/src/index.ts";
import { floatRound } from "../../scripts/float/round.ts";
import { some } from "../support/depth.ts";
import { anyIpOf, app, BASE } from "../support/http.ts";
import { holding, pairBalances, pairDifferences } from "../support/pairs.ts";
import { newKey } from "../support/users.ts";
import { someone } from "./support/stage.ts";
import {
  depositTokens,
  newCondition,
  openPairs,
  type PairStage,
  payAll,
  report,
  settle,
} from "./support/pairs.ts";

const KEEP = 100n;

/** The script with its account and wallet. While `dice.kills`, some calls are its last. */
async function openFloat(on: PairStage) {
  const dice = { kills: false, rolls: 0 };
  const killed = async <T>(call: () => Promise<T>): Promise<T> => {
    const roll = dice.kills ? ++dice.rolls % 23 : 0;
    if (roll === 5) throw new Error("killed");
    const result = await call();
    // The call took effect, and nobody learns of it.
    if (roll === 17) throw new Error("killed");
    return result;
  };
  const { apiKeyId, secret } = await newKey(on.float);
  const client = new Client({
    baseUrl: BASE,
    credential: { apiKeyId, secret },
    fetch: (input, init) =>
      killed(async () => {
        const context = createExecutionContext();
        const request = new Request(input, init);
        request.headers.set("cf-connecting-ip", anyIpOf({ apiKeyId, secret }));
        // Other bindings, so that nothing is remembered.
        const response = await app.hono.fetch(request, { ...on.bindings }, context);
        await waitOnExecutionContext(context);
        return response;
      }),
  });
  const account = privateKeyToAccount(toHex(crypto.getRandomValues(new Uint8Array(32))));
  const { client: chain } = on.stage;
  await chain.setBalance({ address: account.address, value: parseEther("10") });
  const send = (to: Address, data: Hex) =>
    killed(async () => {
      const serializedTransaction = await account.signTransaction({
        type: "eip1559",
        chainId: 31_337,
        to,
        data,
        nonce: await chain.getTransactionCount({ address: account.address }),
        gas: 1_000_000n,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 1n,
      });
      const hash = await chain.sendRawTransaction({ serializedTransaction });
      await on.stage.mine();
      const { status } = await chain.getTransactionReceipt({ hash });
      if (status !== "success") throw new Error("reverted");
    });
  const wallet = { address: account.address, send };
  const round = () => floatRound({ client, chain, wallet, venue: on.venue_id, keep: KEEP });
  return {
    client,
    dice,
    wallet,
    /** Rounds until it rests, while the service and the chain go on. */
    run: async () => {
      const did: string[] = [];
      for (let made = 0; made < 60; made++) {
        const done = await round().catch((error: unknown) => String(error));
        did.push(done);
        if (done === "rests") return did;
        await on.pay();
      }
      throw new Error(did.join("\n"));
    },
  };
}

it.each(some([true, false]))("brings, issues and redeems tokens (killed: %s)", async (kills) => {
  const on = await openPairs();
  const pair = await newCondition(on);
  const float = await openFloat(on);
  const { address } = await float.client.custody.createDepositAddress({ chain: on.chain.chain });
  await on.stage.mintUsdc(address as Address, 500n);
  await on.confirm();
  float.dice.kills = kills;
  const [maker, holder] = [await on.user(300n), await on.user(0n)];
  const body = { venue_id: on.venue_id, asset_id: pair.yes.asset_id };
  await on.api(maker).post("/custody/split", { ...body, amount: "300" });

  // What was minted can be withdrawn, because the float brings as much.
  await float.run();
  expect(await pairBalances(pair)).toEqual([200, -200, -200]);
  const key = await newKey(maker);
  const withdrawn = await on.api(key).post("/custody/withdraw", {
    ...body,
    amount: "100",
    to_address: someone(),
    client_withdrawal_id: "a",
  });
  expect(withdrawn.json).toMatchObject({ status: "queued" });
  await on.pay();

  // What others have redeemed, the float issues anew.
  await depositTokens(on, pair, holder.address, [
    [pair.yes, 500n],
    [pair.no, 500n],
  ]);
  await on.api(holder).post("/custody/redeem", body);
  expect((await pairBalances(pair))[0]).toBe(0);
  await float.run();
  expect((await pairBalances(pair))[0]).toBeGreaterThanOrEqual(100);

  // Everybody is paid, in part until the float comes back from the venue.
  await report(on, pair, [1n, 0n]);
  await settle(on);
  for (let pass = 0; pass < 6; pass++) {
    await payAll(on);
    await float.run();
  }
  await payAll(on);
  expect(await holding(maker, pair)).toEqual([200n, 0n, 0n]);
  expect(await holding(holder, pair)).toEqual([500n, 0n, 0n]);
  const [usdc, yes] = await holding(on.float, pair);
  expect([usdc! + (yes ?? 0n) >= 497n, await pairDifferences(pair)]).toEqual([true, []]);
});
