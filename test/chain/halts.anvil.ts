/** Halts of chain and payer: none is lost, and none ends before an operator has reviewed it. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { recordResume } from "../../src/custody/operator-commands.ts";
import { haltPayer } from "../../src/custody/payer/payer-lease.ts";
import { restorePayments } from "../../src/custody/payer/restore-payments.ts";
import { watchChain } from "../../src/custody/watcher/watch-chain.ts";
import { NOW } from "../../src/platform/commit.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { drive, funded } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";
import { itDeeper } from "../support/depth.ts";

type Halt = { at: number | null; reason: string | null };

const payerHalt = ({ chain }: Stage) =>
  first<Halt>(
    env.DB,
    sql`SELECT halted_at AS at, halt_reason AS reason FROM payer_leases
      WHERE chain = ${chain.chain}`,
  );

const chainHalt = ({ chain }: Stage) =>
  first<Halt>(
    env.DB,
    sql`SELECT halted_at AS at, halt_reason AS reason FROM chain_cursors
      WHERE chain = ${chain.chain}`,
  );

const alertDetail = async ({ chain }: Stage, kind: string) =>
  (
    await first<{ detail: string }>(
      env.DB,
      sql`SELECT detail FROM alerts
        WHERE kind = ${kind} AND subject = ${chain.chain} AND resolved_at IS NULL`,
    )
  )?.detail;

/** Moves a halt after every command that was recorded before, even in the same millisecond. */
const haltLater = ({ chain }: Stage, table: "chain_cursors" | "payer_leases") =>
  all(
    env.DB,
    table === "chain_cursors"
      ? sql`UPDATE chain_cursors SET halted_at = ${NOW} + 5 WHERE chain = ${chain.chain}`
      : sql`UPDATE payer_leases SET halted_at = ${NOW} + 5 WHERE chain = ${chain.chain}`,
  );

const pastHalt = () => new Promise((resolve) => setTimeout(resolve, 10));

it("a resume that was given before a halt of the chain does not end it", async () => {
  const stage = await openStage();
  await stage.mine(5);
  await stage.watch();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await haltLater(stage, "chain_cursors");
  expect(await stage.watch()).toMatchObject({ status: "halted" });
  await pastHalt();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  expect(await stage.watch()).toMatchObject({ status: "followed" });
});

itDeeper("a resume that was given before a halt of the payer does not end it", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const payer = await stage.payer();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await haltPayer(payer.context, "a reason");
  await haltLater(stage, "payer_leases");
  await stage.watch();
  // The command is carried out, so the next rounds are idle.
  expect(await payer.round()).toEqual({ status: "busy" });
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await alertDetail(stage, "payer_halted")).toBe("a reason");
  await pastHalt();
  await stage.answerAlert("payer_halted", async () => {
    await stage.watch();
    await payer.round();
  });
  expect(await payerHalt(stage)).toEqual({ at: null, reason: null });
  const { id } = await stage.withdraw(user.userId, USDC, 10n, someone());
  expect(await drive(stage, id)).toBe("settled");
});

itDeeper("a resume that is repeated ends the halts up to its repetition", async () => {
  const stage = await openStage();
  await stage.mine(5);
  await stage.watch();
  const payer = await stage.payer();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await haltPayer(payer.context, "a reason");
  await haltLater(stage, "payer_leases");
  await pastHalt();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  expect(await payer.round()).toEqual({ status: "idle" });
});

itDeeper("a halted payer keeps a further reason to halt, and the alert names both", async () => {
  const stage = await openStage();
  await stage.watch();
  const { context } = await stage.payer();
  await haltPayer(context, "one");
  const before = await payerHalt(stage);
  await haltPayer(context, "one");
  expect(await payerHalt(stage)).toEqual(before);
  await haltPayer(context, "two");
  expect(await payerHalt(stage)).toMatchObject({ reason: "one; two" });
  expect(await alertDetail(stage, "payer_halted")).toBe("one; two");
});

it("a payer that has lost its lease halts nothing", async () => {
  const stage = await openStage();
  await stage.watch();
  const old = await stage.payer();
  await stage.payer();
  await haltPayer(old.context, "a stale view");
  expect(await payerHalt(stage)).toEqual({ at: null, reason: null });
  expect(await stage.alerts()).toEqual([]);
});

it("a restore does not end a halt that came while it ran", async () => {
  const stage = await openStage();
  await stage.watch();
  const { context } = await stage.payer();
  await haltPayer(context, "one");
  const report = await restorePayments(stage.watcher, async () => {
    await pastHalt();
    await haltPayer(context, "two");
    return new Map();
  });
  expect(report.paying).toBe(false);
  expect(await payerHalt(stage)).toMatchObject({ reason: "one; two" });
  expect(await alertDetail(stage, "payer_halted")).toBe("one; two");
});

/** A database whose batches fail, without being carried out, once `when` accepts one. */
function failing(when: (statements: string) => boolean): D1Database {
  const texts = new WeakMap<D1PreparedStatement, string>();
  let failed = false;
  return new Proxy(env.DB, {
    get: (db, name) => {
      if (name === "prepare")
        return (text: string) => {
          const prepared = db.prepare(text);
          return new Proxy(prepared, {
            get: (statement, method) => {
              const value: unknown = Reflect.get(statement, method);
              if (typeof value !== "function") return value;
              return (...args: unknown[]) => {
                const result: unknown = value.apply(statement, args);
                if (method === "bind") texts.set(result as D1PreparedStatement, text);
                return result;
              };
            },
          });
        };
      if (name === "batch")
        return async (statements: D1PreparedStatement[]) => {
          if (failed || when(statements.map((one) => texts.get(one) ?? "").join("\n"))) {
            failed = true;
            throw new Error("Network connection lost");
          }
          return db.batch(statements);
        };
      const value: unknown = Reflect.get(db, name);
      return typeof value === "function" ? value.bind(db) : value;
    },
  });
}

itDeeper(
  "a halt of the chain whose write is lost fails the round, and the next one repeats it",
  async () => {
    const stage = await openStage();
    await stage.mine(5);
    await stage.watch();
    await stage.reorg(6, 8);
    const db = failing((text) => text.includes("halt_reason ="));
    await expect(watchChain({ ...stage.watcher, db })).rejects.toThrow();
    expect(await chainHalt(stage)).toEqual({ at: null, reason: null });
    expect(await stage.alerts()).toEqual([]);
    expect(await stage.watch()).toMatchObject({ status: "halted" });
  },
);

it("a payer that is killed after it ended a payment without effect is halted", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  await stage.mine(5);
  await stage.watch();
  const before = await stage.client.getBlockNumber();
  const { id } = await stage.withdraw(user.userId, USDC, 100n, someone());
  expect(await drive(stage, id)).toBe("settled");
  const depth = Number((await stage.client.getBlockNumber()) - before);
  await stage.reorg(depth, depth + 2);
  expect(await stage.watch()).toMatchObject({ status: "halted" });
  // Past the payment's deadline.
  await stage.client.increaseTime({ seconds: 2 * 86_400 });
  await stage.mine();
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await stage.watch();
  const ended = () =>
    first(
      env.DB,
      sql`SELECT 1 FROM chain_transactions
        WHERE chain = ${stage.chain.chain} AND status = 'unused'`,
    );
  // Nothing is written after the batch that ends the payment.
  let over = false;
  const db = failing((text) => {
    const now = over;
    over ||= /UPDATE chain_transactions SET status = \?/.test(text);
    return now;
  });
  const payer = await stage.payer({ db });
  for (let round = 0; round < 8 && (await ended()) === undefined; round++) {
    await payer.round().catch(() => {});
    await stage.mine();
    await stage.watch();
  }
  expect(await ended()).toBeDefined();
  expect(await payerHalt(stage)).toMatchObject({ reason: expect.stringContaining("no longer") });
  expect(await stage.alerts()).toContain("payer_halted");
});

itDeeper("keeps the first of many reasons, and each still makes the halt newer", async () => {
  const stage = await openStage();
  await stage.watch();
  const { context } = await stage.payer();
  // A thief can cause one with every block, until a row would be too large for the database.
  for (let batch = 0; batch < 12; batch++) {
    await all(
      env.DB,
      sql`UPDATE payer_leases SET halted_at = 1 WHERE chain = ${stage.chain.chain}`,
    );
    await haltPayer(context, `batch ${batch} ${"x".repeat(500)}`);
    expect((await payerHalt(stage))?.at).toBeGreaterThan(1);
  }
  const reason = (await payerHalt(stage))?.reason ?? "";
  expect(reason).toMatch(/^batch 0 .*; batch 1 .*; and more$/);
  expect(reason.length).toBeLessThan(3_000);
  expect(await alertDetail(stage, "payer_halted")).toBe(reason);
});
