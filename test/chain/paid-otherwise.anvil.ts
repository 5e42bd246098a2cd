import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { acceptPayment } from "../../src/custody/accept-payment.ts";
import { recordResume, recordWithdrawalCommand } from "../../src/custody/operator-commands.ts";
import { restorePayments } from "../../src/custody/payer/restore-payments.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { drive, expectRest, funded, queuedWithdrawal } from "./support/drive.ts";
import { openStage, someone } from "./support/stage.ts";
import { steal, type Theft } from "./support/theft.ts";
import { settings } from "../support/http.ts";
import { some } from "../support/depth.ts";

const fail = (id: string) =>
  recordWithdrawalCommand(env.DB, { kind: "fail", withdrawalId: id, actor: "operator:test" });

const results = (id: string) =>
  all<{ result: string | null }>(
    env.DB,
    sql`SELECT result FROM chain_commands WHERE withdrawal_id = ${uuid(id)} ORDER BY command_id`,
  );

it.each(some(["before", "after"]))(
  "ends a void of an id that was paid on other terms, ordered %s it is known",
  async (when) => {
    const stage = await openStage({ confirmations: 3 });
    const user = await funded(stage);
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, someone());
    await steal(stage, { id: paymentId, amount: 1n });
    const payer = await stage.payer();
    if (when === "after") {
      await stage.mine(3);
      await stage.watch();
      expect(await stage.alerts()).toContain("payment_terms");
    }
    await fail(id);
    for (let round = 0; round < 8; round++) {
      await payer.round();
      await stage.mine();
      await stage.watch();
    }
    expect(await stage.alerts()).toEqual(expect.arrayContaining(["payer_halted", "payment_terms"]));
    await expectRest(stage);
    if (when === "before") {
      // The operator did not know of the payment, so the funds stay reserved.
      expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
      expect(await results(id)).toEqual([{ result: "already_paid" }]);
      await fail(id);
      await payer.round();
    }
    expect(await stage.withdrawal(id)).toMatchObject({
      status: "failed",
      failure_code: "operator_failed",
    });
    expect((await results(id)).at(-1)).toEqual({ result: "failed" });
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 1_000n,
      pending: 0n,
    });

    // The payment is no withdrawal's now. Once it is in the ledger, the payer pays others again.
    const restore = () => restorePayments(stage.watcher, async () => new Map());
    expect(await restore()).toMatchObject({ unresolved: [{ payment_id: paymentId }] });
    const loss = { kind: "loss", reason: "incident 7", actor: "operator:test" } as const;
    expect(await acceptPayment(env.DB, stage.settings, { paymentId, ...loss })).toMatchObject({
      status: "accepted",
    });
    expect(await restore()).toMatchObject({ unresolved: [], paying: true });
    const other = await stage.withdraw(user.userId, USDC, 20n, someone());
    expect(await drive(stage, other.id)).toBe("settled");
    await expectRest(stage);
  },
);

it.each(some(["outcome tokens for USDC", "another outcome token", "USDC for outcome tokens"]))(
  "never settles a withdrawal that was paid in another token: %s",
  async (mistake) => {
    const stage = await openStage();
    const user = await funded(stage);
    const token = { kind: 1, token: stage.tokens };
    await stage.mintTokens(user.address, 7n, 500n);
    await stage.mintTokens(stage.vault, 7n, 500n);
    await stage.mintTokens(stage.vault, 8n, 500n);
    await stage.confirm();
    await stage.watch();
    const [asset, paidIn] = {
      "outcome tokens for USDC": [USDC, { ...token, tokenId: 7n }] as const,
      "another outcome token": ["venue_one:0x7", { ...token, tokenId: 8n }] as const,
      "USDC for outcome tokens": ["venue_one:0x7", {}] as const,
    }[mistake] as [string, Partial<Theft>];
    const to = someone();
    const { id, paymentId } = await stage.withdraw(user.userId, asset, 300n, to);
    await steal(stage, { id: paymentId, amount: 300n, ...paidIn, to });
    await stage.confirm();
    await stage.watch();

    expect(await stage.paidCount(paymentId)).toBe(1);
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
    expect(await stage.alerts()).toContain("payment_terms");
    expect(await readBalance(env.DB, user.userId, asset)).toMatchObject({ pending: 300n });
    await restorePayments(stage.watcher, async () => new Map());
    const payer = await stage.payer();
    await payer.round();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });

    await fail(id);
    await payer.round();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "failed" });
    expect(await readBalance(env.DB, user.userId, asset)).toMatchObject({ pending: 0n });
    expect(await stage.paidCount(paymentId)).toBe(1);
    await expectRest(stage);
  },
);

it.each(some(["amount", "address"]))(
  "does not pay an id again that was paid with another %s",
  async (what) => {
    const { stage, id, paymentId, to } = await queuedWithdrawal();
    await steal(stage, {
      id: paymentId,
      ...(what === "amount" ? { amount: 1n, to } : { amount: 300n }),
    });
    await stage.confirm();
    await stage.watch();
    const payer = await stage.payer();
    // Nothing else keeps the payer from it, as if the batch had been its own.
    await all(
      env.DB,
      sql`UPDATE payer_leases SET batch_floor = 2, floor_vault = ${blob(stage.vault)}
      WHERE chain = ${stage.chain.chain}`,
    );
    expect(await payer.round()).toEqual({ status: "idle" });
    expect(await stage.withdrawal(id)).toMatchObject({ status: "queued" });
    expect(
      await all(env.DB, sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain}`),
    ).toEqual([]);
  },
);

it.each(some(["loss", "rescue"] as const))(
  "pays again once a foreign payment is accepted as a %s",
  async (kind) => {
    const stage = await openStage();
    const user = await funded(stage);
    const { chain } = stage.chain;
    if (kind === "rescue") await stage.mintUsdc(stage.vault, 40n);
    const foreign = `0x${"5a".repeat(32)}` as const;
    await steal(stage, { id: foreign, amount: 40n });
    await stage.confirm();
    await stage.watch();
    const payer = await stage.payer();
    await payer.round();
    expect(await stage.alerts()).toEqual(
      expect.arrayContaining(["payer_halted", "payment_unknown"]),
    );
    expect(await restorePayments(stage.watcher, async () => new Map())).toMatchObject({
      unresolved: [{ payment_id: foreign }],
      paying: false,
    });
    const accept = (paymentId: string) =>
      acceptPayment(env.DB, stage.settings, {
        paymentId,
        kind,
        reason: "incident 7",
        actor: "operator:test",
      });
    expect(await accept(`0x${"6b".repeat(32)}`)).toEqual({ status: "not_paid" });
    expect(await accept(foreign)).toEqual({ status: "accepted", chain });
    expect(await accept(foreign)).toEqual({ status: "accepted_before", chain });
    expect(
      await all(
        env.DB,
        sql`SELECT t.amount FROM transfers t JOIN accounts f ON f.account_id = t.from_account
        JOIN accepted_payments a ON a.acceptance_id = t.ref
        WHERE f.owner = CAST('losses' AS BLOB) AND a.chain = ${chain}`,
      ),
    ).toEqual(kind === "loss" ? [{ amount: 40 }] : []);

    await recordResume(env.DB, chain, "operator:test");
    const { id } = await stage.withdraw(user.userId, USDC, 100n, someone());
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.alerts()).toEqual([]);
    await expectRest(stage);
    const report = await reconcile(env.DB, {
      macKeys: settings(),
      chains: [chain],
      holdingsAt: trackedHoldings(env.DB, stage.settings),
      full: true,
    });
    expect(report).toMatchObject({ ok: true, complete: true, differences: [] });
  },
);

it("reports each withdrawal that is paid on other terms, while the first alert is open", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const paidOtherwise = async (batch: bigint, nonce: number) => {
    const { id, paymentId } = await stage.withdraw(user.userId, USDC, 100n, someone());
    await steal(stage, { id: paymentId, amount: 100n }, { batch, nonce });
    await stage.confirm();
    await stage.watch();
    return `${stage.chain.chain}:${id}`;
  };
  const subjects = [await paidOtherwise(1n, 0), await paidOtherwise(2n, 1)];
  const rows = await all<{ subject: string }>(
    env.DB,
    sql`SELECT subject FROM alerts WHERE kind = 'payment_terms'
      AND subject LIKE ${`${stage.chain.chain}:%`} ORDER BY alert_id`,
  );
  expect(rows.map(({ subject }) => subject)).toEqual(subjects);
  for (const subject of subjects) await stage.answerAlert("payment_terms", undefined, { subject });
});
