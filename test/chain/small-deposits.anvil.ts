/** Deposits below the minimum on a chain: reorgs, rescans, lost rows, credit, payment. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { Deposit } from "../../src/custody/schemas.ts";
import { listDeposits } from "../../src/custody/payment-records.ts";
import { recheckFloors } from "../../src/custody/watcher/small-deposits.ts";
import { recheckOldBlocks, rescanFrom } from "../../src/custody/watcher/rescan.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { trackedHoldings, withSmallDeposits } from "../../src/reconcile/tracked-holdings.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { sql } from "../../src/platform/sql.ts";
import { tamper } from "../support/ledger.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { expectPaidOnce } from "./support/drive.ts";
import { listen, openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

const FLOOR = { chain: { min_deposit: 1_000 } };

const statuses = async (userId: string) =>
  (await listDeposits(env.DB, userId, { limit: 50 })).items.map(({ status }) => status);

const available = async (userId: string) => (await readBalance(env.DB, userId, USDC)).available;

/** The chain's USDC and the user's events in the reconciliation. */
async function holdings({ chain, settings }: Stage, userId: string) {
  const { surplus, differences } = await reconcile(env.DB, {
    macKeys: settings,
    chains: [chain.chain],
    holdingsAt: trackedHoldings(env.DB, settings),
  });
  const ofChain = ({ account }: { account: string }) =>
    account === `external:${chain.chain}/external/usdc`;
  return {
    surplus: (await withSmallDeposits(env.DB, surplus)).filter(ofChain),
    differences: differences.filter((one) => ofChain(one) || one.account === accountStream(userId)),
  };
}

it("records a small deposit once, only when confirmed, and pays it out once credited", async () => {
  const stage = await openStage(FLOOR);
  const user = await stage.user();
  const subscriber = await listen(user);
  await stage.watch();
  await stage.mintUsdc(user.address, 400n);
  await stage.mine();
  await stage.watch();
  await stage.reorg(1);
  await stage.replay();
  await stage.mine();
  await stage.watch();
  expect(await statuses(user.userId)).toEqual([]);
  await stage.confirm();
  expect(await statuses(user.userId)).toEqual(["below_minimum"]);
  const { data: small } = await subscriber.until("deposit.below_minimum");
  expect(small).toEqual(Deposit.strict().parse(small));
  expect(small).toMatchObject({ amount: "0x190", status: "below_minimum", credited_at: null });

  for (let block: number | null = 0; block !== null;)
    block = await rescanFrom(stage.watcher, block);
  expect(await statuses(user.userId)).toEqual(["below_minimum"]);

  await stage.mintUsdc(user.address, 600n);
  await stage.confirm();
  await stage.watch();
  expect(await statuses(user.userId)).toEqual(["credited", "credited"]);
  expect(await available(user.userId)).toBe(1_000n);
  const events = await stage.events(user.userId);
  expect(events).toEqual(["deposit.below_minimum", "deposit.credited", "deposit.credited"]);
  expect((await holdings(stage, user.userId)).differences).toEqual([]);

  await expectPaidOnce(stage, await stage.withdraw(user.userId, USDC, 1_000n, someone()));
});

itDeeper("shows swept small deposits as part of the surplus until they are credited", async () => {
  const stage = await openStage(FLOOR);
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 2_000n);
  await stage.confirm();
  await stage.mintUsdc(user.address, 300n);
  await stage.confirm();
  await expectPaidOnce(stage, await stage.withdraw(user.userId, USDC, 2_000n, someone()));
  const account = `external:${stage.chain.chain}/external/usdc`;
  expect(await holdings(stage, user.userId)).toEqual({
    surplus: [{ account, amount: "300", below_minimum: "300" }],
    differences: [],
  });

  const chain = { ...stage.chain, min_deposit: 300 };
  const lowered = { ...stage.watcher, chain, settings: { ...stage.settings, CHAINS: [chain] } };
  while (await recheckFloors(lowered));
  await stage.mine();
  await watchChain(lowered);
  expect(await available(user.userId)).toBe(300n);
  expect(await holdings(stage, user.userId)).toEqual({ surplus: [], differences: [] });
  await expectPaidOnce(stage, await stage.withdraw(user.userId, USDC, 300n, someone()));
});

it("the recheck a day later records a small deposit that was missed, with an alert", async () => {
  const stage = await openStage({ chain: { min_deposit: 1_000, scan_range: 2 } });
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 400n);
  await stage.confirm();
  for (let round = 0; round < 4; round++) await stage.watch();
  await tamper(
    "small_deposits_delete",
    sql`DELETE FROM small_deposits WHERE chain = ${stage.chain.chain}`,
  );
  expect(await statuses(user.userId)).toEqual([]);

  await stage.rpc("evm_increaseTime", [86_401]);
  await stage.mine(8);
  for (let round = 0; round < 6; round++) await stage.watch();
  while (await recheckOldBlocks(stage.watcher));
  expect(await statuses(user.userId)).toEqual(["below_minimum"]);
  expect(await stage.alerts()).toEqual(["deposit_missed"]);
});
