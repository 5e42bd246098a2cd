import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { openStage, someone } from "./support/stage.ts";

it("detects a deposit, credits it once confirmed, and pays it out", async () => {
  const stage = await openStage();
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 1_000_000n);
  await stage.mine();
  await stage.watch();
  expect(await stage.deposits(user.userId)).toMatchObject([
    { status: "confirming", amount: "1000000" },
  ]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 0n,
    pending: 0n,
  });
  await stage.mine();
  await stage.watch();
  await stage.watch();
  expect(await stage.deposits(user.userId)).toMatchObject([
    { status: "credited", amount: "1000000" },
  ]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 1_000_000n,
    pending: 0n,
  });

  const to = someone();
  const withdrawal = await stage.withdraw(user.userId, USDC, 400_000n, to);
  const payer = await stage.payer();
  expect(await payer.round()).toEqual({ status: "busy" }); // sweep
  await stage.mine();
  await stage.watch();
  expect(await payer.round()).toEqual({ status: "busy" }); // pay
  expect(await stage.withdrawal(withdrawal.id)).toMatchObject({ status: "submitted" });
  await stage.mine();
  await stage.confirm();
  expect(await stage.usdcOf(to)).toBe(400_000n);
  expect(await stage.withdrawal(withdrawal.id)).toMatchObject({
    status: "settled",
    failure_code: null,
  });
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 600_000n,
    pending: 0n,
  });
  await payer.round();
  expect(await payer.round()).toEqual({ status: "idle" });
  expect(await stage.alerts()).toEqual([]);
  expect(await stage.events(user.userId)).toEqual([
    "deposit.detected",
    "deposit.credited",
    "withdrawal.queued",
    "withdrawal.submitted",
    "withdrawal.settled",
  ]);
});
