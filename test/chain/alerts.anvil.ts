/** Alerts about payments that make no progress. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { parseEther } from "viem";
import { USDC } from "../../src/assets/asset.ts";
import { alertLateWithdrawals } from "../../src/custody/payer/alert-late.ts";
import { clearAlert, raiseAlert } from "../../src/platform/alert.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { answerAlert } from "../support/pager.ts";
import { drive, funded } from "./support/drive.ts";
import { openStage, someone } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

const detailOf = async (kind: string, subject: string): Promise<string | undefined> =>
  (
    await first<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts
        WHERE kind = ${kind} AND subject = ${subject} AND resolved_at IS NULL`,
    )
  )?.detail;

it("too little gas for the next 100 payments raises an alert before payments stop", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { address } = stage.operator;
  await stage.client.setBalance({ address, value: parseEther("0.02") });
  const { id } = await stage.withdraw(user.userId, USDC, 10n, someone());
  expect(await drive(stage, id)).toBe("settled");
  expect(await detailOf("gas_low", stage.chain.chain)).toContain(address);
  await stage.answerAlert("gas_low", async () => {
    await stage.client.setBalance({ address, value: parseEther("1") });
    await (await stage.payer()).round();
  });
});

itDeeper("an empty gas balance raises an alert while a transaction waits", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  await stage.withdraw(user.userId, USDC, 10n, someone());
  const payer = await stage.payer();
  await payer.round();
  await stage.client.setBalance({ address: stage.operator.address, value: 0n });
  expect(await payer.round()).toEqual({ status: "busy" });
  expect(await stage.alerts()).toContain("gas_low");
});

itDeeper("a simulation that no node responded to fails the round, not the payment", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { address } = stage.operator;
  let lost = true;
  const url = await stage.faultyEndpoint(
    (_, result) => result,
    (call) => {
      const [{ from }] = call.params as [{ from?: string }];
      if (lost && call.method === "eth_call" && from === address) throw new Error("lost");
      return call;
    },
  );
  Object.assign(stage.chain, { rpc_urls: [url] });
  const { id } = await stage.withdraw(user.userId, USDC, 10n, someone());
  const payer = await stage.payer();
  await expect(payer.round()).rejects.toThrow("lost");
  expect(await stage.alerts()).toEqual([]);
  lost = false;
  expect(await drive(stage, id)).toBe("settled");
});

it("a withdrawal that is late raises an alert until it has ended", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { id } = await stage.withdraw(user.userId, USDC, 10n, someone());
  const look = async () => {
    await alertLateWithdrawals(env.DB, stage.settings);
    return detailOf("withdrawal_late", stage.chain.chain);
  };
  expect(await look()).toBeUndefined();
  await all(
    env.DB,
    sql`UPDATE withdrawals SET created_at = created_at - 3600001 WHERE withdrawal_id = ${uuid(id)}`,
  );
  const freeze = (at: number | null) =>
    all(env.DB, sql`UPDATE users SET frozen_at = ${at} WHERE user_id = ${uuid(user.userId)}`);
  await freeze(1);
  expect(await look()).toBeUndefined();
  await freeze(null);
  expect(await look()).toContain(id);
  await stage.answerAlert("withdrawal_late", async () => {
    expect(await drive(stage, id)).toBe("settled");
    await look();
  });
});

it("a payer whose rounds fail raises an alert after ten, until one succeeds", async () => {
  const at = sql`0, unhex('00'), 0, unhex('00'), 0, 0, 0`;
  await all(
    env.DB,
    sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
      scanned_hash, head_number, moved_group, moved_at) VALUES ('local', ${at})`,
  );
  // The chain of the test's settings has an endpoint that nobody serves.
  await runInDurableObject(env.PAYER.getByName(uuidv7()), async (payer, { storage }) => {
    await storage.put("chain", "local");
    // The watcher's page says why, so nobody is called twice.
    await raiseAlert(env.DB, "nodes_disagree", "local", "a test");
    for (let round = 0; round < 10; round++) await payer.alarm?.();
    expect(await detailOf("payer_failing", "local")).toBeUndefined();
    await clearAlert(env.DB, "nodes_disagree", "local");
    const alerts = [];
    for (let round = 0; round < 10; round++) {
      await payer.alarm?.();
      alerts.push(await detailOf("payer_failing", "local"));
    }
    expect(alerts.map((detail) => detail !== undefined)).toEqual([
      ...Array.from({ length: 9 }, () => false),
      true,
    ]);
    expect(alerts.at(-1)).toMatch(/20 rounds.*usable RPC endpoint/);
    const end = async () => {
      // A chain that is not read yet has nothing to pay, so its rounds succeed.
      await all(env.DB, sql`DELETE FROM chain_cursors WHERE chain = 'local'`);
      await payer.alarm?.();
    };
    await answerAlert("payer_failing", "local", { end });
    await storage.deleteAlarm();
  });
});

itDeeper(
  "a watcher whose rounds fail raises an alert, which the next instance resolves",
  async () => {
    /** Runs rounds of an instance of its own. Nobody serves the endpoint of its chain. */
    const watch = (rounds: number) =>
      runInDurableObject(env.CHAIN_WATCHER.getByName(uuidv7()), async (watcher, { storage }) => {
        await storage.put("chain", "local");
        for (let round = 0; round < rounds; round++) await watcher.alarm?.();
        await storage.deleteAlarm();
      });
    await watch(9);
    expect(await detailOf("chain_unreachable", "local")).toBeUndefined();
    await watch(10);
    expect(await detailOf("chain_unreachable", "local")).toMatch(/10 rounds.*usable RPC endpoint/);
    const end = async () => {
      // A halted chain needs no endpoint, so its rounds succeed.
      const at = sql`0, unhex('00'), 0, unhex('00'), 0, 0, 0, 1`;
      await all(
        env.DB,
        sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
        scanned_hash, head_number, moved_group, moved_at, halted_at) VALUES ('local', ${at})`,
      );
      await watch(1);
      await all(env.DB, sql`DELETE FROM chain_cursors WHERE chain = 'local'`);
    };
    await answerAlert("chain_unreachable", "local", { end });
  },
);
