/** Withdrawals above the vault's largest payment: rejected when asked for, parked when queued. */
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { Address } from "viem";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { paymentLimit } from "../../src/chain/payment-limit.ts";
import { USDC } from "../../src/assets/asset.ts";
import { alertLateWithdrawals } from "../../src/custody/payer/alert-late.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { newKey } from "../support/users.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

/** Half of the 24-hour limit is what one transaction, so also one payment, can pay. */
const setLimit = (stage: Stage, token: Address, kind: number, amount: bigint) =>
  stage.vaultCall({ abi: vaultAbi, functionName: "setLimit", args: [token, kind, 0n, amount] });

describe("POST /custody/withdraw", () => {
  /** Posts withdrawals of a funded user with the stage's chain behind `url`. */
  async function client(stage: Stage, url: string) {
    const user = await funded(stage);
    const chain = { ...stage.chain, rpc_urls: [url] };
    const settings = {
      CHAINS: JSON.stringify([chain]),
      VENUES: JSON.stringify(stage.settings.VENUES),
    };
    const api = apiOf(await newKey(user), settings);
    let next = 0;
    const withdraw = (amount: bigint, fields: Record<string, unknown> = {}) =>
      api.post("/custody/withdraw", {
        client_withdrawal_id: `limit-${next++}`,
        amount: `${amount}`,
        to_address: someone(),
        ...fields,
      });
    return { api, withdraw };
  }

  it("rejects more than the vault pays at once, with the chain's maximum", async () => {
    const stage = await openStage();
    await setLimit(stage, stage.usdc, 0, 500n);
    await setLimit(stage, stage.tokens, 2, 40n);
    await stage.mine();
    const { api, withdraw } = await client(stage, stage.chain.rpc_urls[0] ?? "");
    const rejected = { status: 409, json: { code: "withdrawal_amount_limit", maximum: "0xfa" } };
    expect(await withdraw(251n)).toMatchObject(rejected);
    expect((await withdraw(250n)).status).toBe(202);
    expect(await withdraw(21n, { venue_id: "venue_one", asset_id: "0x1" })).toMatchObject({
      json: { code: "withdrawal_amount_limit", maximum: "0x14" },
    });
    const { json } = await api.get("/config");
    expect(json["chains"]).toMatchObject([{ min_withdrawal: "0x1", max_withdrawal: "0xfa" }]);
  });

  itDeeper("asks the chain once a minute", async () => {
    const stage = await openStage();
    await setLimit(stage, stage.usdc, 0, 500n);
    await stage.mine();
    let calls = 0;
    const url = await stage.faultyEndpoint((method, result) => {
      if (method === "eth_call") calls++;
      return result;
    });
    const { withdraw } = await client(stage, url);
    for (let n = 0; n < 3; n++) expect((await withdraw(10n)).status).toBe(202);
    expect(calls).toBe(1);
    await setLimit(stage, stage.usdc, 0, 10n);
    await stage.mine();
    const limit = () => paymentLimit(stage.settings, stage.chain, USDC);
    expect(await limit()).toBe(250n);
    const later = Date.now() + 60_001;
    const clock = vi.spyOn(Date, "now").mockReturnValue(later);
    expect(await limit()).toBe(5n);
    clock.mockRestore();
  });

  itDeeper("accepts up to the setting's maximum while the chain does not answer", async () => {
    const stage = await openStage();
    await setLimit(stage, stage.usdc, 0, 500n);
    await stage.mine();
    const url = await stage.faultyEndpoint((method, result) => {
      if (method === "eth_call") throw new Error("busy");
      return result;
    });
    const { withdraw } = await client(stage, url);
    expect((await withdraw(251n)).status).toBe(202);
  });
});

describe("a queued withdrawal above the vault's largest payment", () => {
  const notBefore = async (id: string) =>
    (
      await first<{ days: number }>(
        env.DB,
        sql`SELECT (not_before - updated_at) / 86400000 AS days FROM withdrawals
          WHERE withdrawal_id = ${uuid(id)}`,
      )
    )?.days;
  const alert = (id: string) =>
    first<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts WHERE kind = 'withdrawal_parked' AND subject = ${id}
        AND resolved_at IS NULL`,
    );

  /** Lets the vault skip the withdrawal until the payer looks at its limit. */
  async function skipOften(stage: Stage, id: string) {
    const payer = await stage.payer();
    for (let skips = 0; skips < 7; skips++) {
      await payer.round();
      await stage.confirm();
      await stage.watch();
      await payer.round();
      await all(
        env.DB,
        sql`UPDATE withdrawals SET not_before = NULL WHERE withdrawal_id = ${uuid(id)}
          AND not_before < updated_at + 86400000`,
      );
    }
    return payer;
  }

  it("is parked with an alert, and paid once the limit is raised and it is retried", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    await setLimit(stage, stage.usdc, 0, 500n);
    await stage.mine();
    const payer = await skipOften(stage, id);
    expect(await notBefore(id)).toBe(30);
    expect((await alert(id))?.detail).toContain(`withdrawals retry --id ${id}`);
    const sent = () =>
      all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`);
    expect(await sent()).toHaveLength(6);
    await payer.round();
    expect(await sent()).toHaveLength(6);
    await all(env.DB, sql`UPDATE withdrawals SET created_at = 0 WHERE withdrawal_id = ${uuid(id)}`);
    await alertLateWithdrawals(env.DB, stage.settings);
    expect(await stage.alerts()).not.toContain("withdrawal_late");

    await setLimit(stage, stage.usdc, 0, 1_000n);
    await stage.answerAlert("withdrawal_parked", undefined, { subject: id });
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  });

  itDeeper("is not parked while the vault pays nothing of the asset at all", async () => {
    const stage = await openStage();
    const user = await funded(stage);
    const { id } = await stage.withdraw(user.userId, USDC, 300n, someone());
    await setLimit(stage, stage.usdc, 0, 0n);
    await stage.mine();
    await skipOften(stage, id);
    expect(await alert(id)).toBeUndefined();
    await setLimit(stage, stage.usdc, 0, 1_000n);
    expect(await drive(stage, id)).toBe("settled");
  });
});

describe("while a withdrawal waits for the vault's limit", () => {
  const HOUR = 3_600;
  const [ASSET, OTHER] = ["venue_one:0x1", "venue_one:0x2"];
  /** The limit that all ids of a contract share. */
  const TOTAL = 3;

  /** A vault that pays 200 in 24 hours, 100 at once, of which one user has had everything. */
  async function usedUp(limited: string = USDC) {
    const stage = await openStage();
    const [rich, other] = [await funded(stage), await funded(stage)];
    for (const holder of [rich.address, other.address, stage.vault])
      for (const id of [1n, 2n]) await stage.mintTokens(holder, id, 1_000n);
    await stage.confirm();
    await stage.watch();
    if (limited === USDC) await setLimit(stage, stage.usdc, 0, 200n);
    else await setLimit(stage, stage.tokens, TOTAL, 200n);
    await stage.mine();
    for (let n = 0; n < 2; n++) {
      const { id } = await stage.withdraw(rich.userId, limited, 100n, someone());
      expect(await drive(stage, id)).toBe("settled");
    }
    const queue = async (user: typeof rich, amount: bigint, asset: string = USDC) =>
      (await stage.withdraw(user.userId, asset, amount, someone())).id;
    /** Runs rounds `hours` later, and returns which of the withdrawals are settled then. */
    const settledAfter = async (hours: number, ids: readonly string[]) => {
      await stage.client.increaseTime({ seconds: hours * HOUR });
      await stage.mine();
      const payer = await stage.payer();
      for (let round = 0; round < 5; round++) {
        await payer.round();
        await stage.confirm();
      }
      const statuses = await Promise.all(ids.map((id) => stage.withdrawal(id)));
      return statuses.map((row) => row?.status === "settled");
    };
    return { stage, rich, other, queue, settledAfter };
  }

  it("no newer one of its asset passes it, and other assets are paid", async () => {
    const { stage, rich, other, queue, settledAfter } = await usedUp();
    const ids = [await queue(other, 60n), await queue(other, 20n), await queue(rich, 10n, ASSET)];
    expect(await settledAfter(4, ids)).toEqual([false, false, true]);
    expect(await stage.alerts()).toEqual(["limit_reached"]);
    expect(await settledAfter(4, ids)).toEqual([true, false, true]);
    await stage.answerAlert("limit_reached", async () => {
      expect(await settledAfter(4, ids)).toEqual([true, true, true]);
    });
    const skipped = sql`SELECT 1 FROM vault_events
      WHERE chain = ${stage.chain.chain} AND kind = 'Skipped'`;
    expect(await all(env.DB, skipped)).toEqual([]);
    await expectRest(stage);
  });

  itDeeper(
    "no newer one passes it by another id of the contract whose limit is reached",
    async () => {
      const { stage, rich, other, queue, settledAfter } = await usedUp(ASSET);
      const ids = [
        await queue(rich, 30n, OTHER),
        await queue(other, 60n, ASSET),
        await queue(other, 20n, OTHER),
      ];
      expect(await settledAfter(4, ids)).toEqual([false, false, false]);
      expect(await stage.alerts()).toEqual(["limit_reached"]);
      expect(await settledAfter(4, ids)).toEqual([false, true, false]);
      expect(await settledAfter(4, ids)).toEqual([false, true, true]);
      expect(await settledAfter(4, ids)).toEqual([true, true, true]);
      await expectRest(stage);
    },
  );

  itDeeper("a user who has had the largest payment that day comes last", async () => {
    const { rich, other, queue, settledAfter } = await usedUp();
    const ids = [await queue(rich, 60n), await queue(other, 60n)];
    expect(await settledAfter(4, ids)).toEqual([false, false]);
    expect(await settledAfter(4, ids)).toEqual([false, true]);
    expect(await settledAfter(8, ids)).toEqual([true, true]);
  });
});
