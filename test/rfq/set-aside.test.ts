/** One record that cannot be ended: it is set aside, and everything else goes on. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { createOperatorApiKey } from "../../src/auth/mint-key.ts";
import { carryOut, type CommandName } from "../../src/operator/commands.ts";
import { config } from "../../src/platform/config.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { unavailable } from "../../src/platform/problem.ts";
import { all, first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { now } from "../../src/platform/time.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import { pauseVenue, resumeVenue } from "../../src/rfq/close-books.ts";
import { closeInTurn } from "../../src/rfq/close-quotes.ts";
import type { Command } from "../../src/rfq/command.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { closeTripped, resetProtection, saveProtection } from "../../src/rfq/protection.ts";
import { setAside } from "../../src/rfq/set-aside.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { command, commitCommand, operationOf, outcomeOf } from "../support/market.ts";
import { answerAlert } from "../support/pager.ts";
import { withBatch } from "../support/slow-database.ts";
import { newUser } from "../support/users.ts";

/** A database of its own, without the trigger that prevents the damage. */
const db = env.DAMAGED_DB;
const damaged = { ...env, DB: db };
beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  await all(db, sql`DROP TRIGGER IF EXISTS quotes_open`);
});

function newCommitter(asset: string) {
  const due: (number | null)[] = [];
  const committer = new GroupCommitter(db, {
    asset,
    waitMs: 0,
    maxWaitMs: 30_000,
    maxOperations: 64,
    macKeys: config(env),
    onCommitted: async ({ nextDue }) => void due.push(nextDue),
    onFailed: () => {},
    push: () => Promise.resolve(),
    onClockAhead: () => {},
  });
  const send = async (sent: Command) =>
    outcomeOf(await committer.submit(await operationOf(sent, config(env), db)));
  return { committer, send, due };
}

/** A book with a damaged quote: its reserve is above what the maker promises. */
async function damagedMarket(quoteMs = 30_000) {
  const { key: book } = newAsset("venue_three");
  const requester = await newUser({ usdc: 1_000n }, db);
  const maker = await newUser({ [book]: 100n, usdc: 100n }, db);
  const other = await newUser({ [book]: 100n }, db);
  const opened = command.openRequest(requester, book, { amount: 10n });
  await commitCommand(book, opened, db);
  const place = async (party: typeof maker) => {
    const receivedAt = now() - 30_000 + quoteMs;
    const sent = { ...command.placeQuote(party, opened.requestId, 500_000, 30), receivedAt };
    expect(outcomeOf(await commitCommand(book, sent, db))).toBe("ok");
    return sent.quoteId;
  };
  const bad = await place(maker);
  const good = await place(maker);
  const others = await place(other);
  await all(db, sql`UPDATE quotes SET reserve = 95 WHERE quote_id = ${uuid(bad)}`);
  const { requestId } = opened;
  return { book, requester, maker, other, requestId, bad, good, others };
}

const statusOf = async (quoteId: string) =>
  first<{ status: string; stuck: number }>(
    db,
    sql`SELECT status, stuck_at IS NOT NULL AS stuck FROM quotes
      WHERE quote_id = ${uuid(quoteId)}`,
  );
const alertsOf = async (id: string) =>
  all(db, sql`SELECT kind FROM alerts WHERE subject = ${id} AND resolved_at IS NULL`);
const operate = (name: CommandName, options: Record<string, string>) =>
  carryOut(name, {
    env: damaged,
    settings: config(env),
    operator: "test",
    words: [],
    options,
  });

const NO_LIMITS = { expiresAt: null, allowedIps: null, limits: null, requireIdempotency: false };
const STUCK = { status: "open", stuck: 1 };
const ended = (status: string) => ({ status, stuck: 0 });

describe("a due quote that cannot be released", () => {
  it("does not stop its book, and everything else that is due ends", async () => {
    const { book, requester, maker, other, requestId, ...quotes } = await damagedMarket(400);
    await scheduler.wait(500);
    const { committer, send, due } = newCommitter(book);
    const sent = await Promise.all([
      send(command.openRequest(other, book, { amount: 5n })),
      send(command.placeQuote(maker, requestId, 1, 30)),
    ]);
    expect(sent).toEqual(["ok", "ok"]);
    await committer.expire();

    expect(await statusOf(quotes.bad)).toEqual(STUCK);
    expect(await statusOf(quotes.good)).toEqual(ended("expired"));
    expect(await statusOf(quotes.others)).toEqual(ended("expired"));
    expect(await balances(other.userId, book, db)).toEqual([100n, 0n]);
    expect(await alertsOf(quotes.bad)).toEqual([{ kind: "record_stuck" }]);
    // What was set aside does not wake the book again and again.
    expect(due.at(-1)).toBeGreaterThan(now());
    expect(await send(command.openRequest(requester, book, { amount: 5n }))).toBe("ok");
  });

  it("does not stop the accept of another quote on its request", async () => {
    const { book, requester, other, requestId, bad } = await damagedMarket(400);
    await scheduler.wait(500);
    const { committer, send } = newCommitter(book);
    await committer.expire();
    const quote = command.placeQuote(other, requestId, 500_000, 30);
    expect(await send(quote)).toBe("ok");
    expect(await send(command.accept(requester, quote.quoteId))).toBe("ok");
    expect(await statusOf(bad)).toEqual(STUCK);
  });

  it("is ended by the command that its alert names, with what is promised for it", async () => {
    const { book, maker, bad } = await damagedMarket(400);
    await scheduler.wait(500);
    await expect(operate("stuck end", { id: bad })).rejects.toMatchObject({ code: "not_stuck" });
    await newCommitter(book).committer.expire();
    expect(await balances(maker.userId, book, db)).toEqual([90n, 10n]);

    expect(await answerAlert("record_stuck", bad, { db })).toEqual({ id: bad, ended: true });
    expect(await balances(maker.userId, book, db)).toEqual([100n, 0n]);
    await expect(operate("stuck end", { id: bad })).rejects.toMatchObject({ code: "not_stuck" });
    const audited = sql`SELECT kind FROM audit_events WHERE subject_id = ${bad}`;
    expect(await all(db, audited)).toEqual([{ kind: "stuck_ended" }]);
  });
});

it("a request that was set aside is ended by the operator, with its quotes", async () => {
  const { book, maker, other, requestId, good, others } = await damagedMarket();
  await setAside(db, { table: "requests", ids: [requestId] });
  expect(await operate("stuck end", { id: requestId })).toEqual({ id: requestId, ended: true });
  expect(await statusOf(good)).toEqual(ended("rejected"));
  expect(await statusOf(others)).toEqual(ended("rejected"));
  expect(await balances(maker.userId, book, db)).toEqual([100n, 0n]);
  expect(await balances(other.userId, book, db)).toEqual([100n, 0n]);
});

it("a pause whose first batch is lost does not report that nothing took effect", async () => {
  const { book } = await damagedMarket();
  const lossy = { ...env, DB: withBatch(db, () => Promise.reject(new Error("connection lost"))) };
  await expect(pauseVenue(lossy, "venue_three")).rejects.toMatchObject({
    data: unavailable("unknown").data,
  });
  const paused = sql`SELECT 1 FROM paused_venues WHERE venue = 'venue_three'`;
  expect(await all(db, paused)).toHaveLength(1);
  const open = sql`SELECT 1 FROM requests WHERE asset = ${book} AND status = 'open'`;
  expect(await all(db, open)).toHaveLength(1);
  await resumeVenue(db, "venue_three");
});

describe("an open quote that cannot be released", () => {
  it("does not stop the freeze of its maker", async () => {
    const { book, maker, other, bad, good, others } = await damagedMarket();
    const own = command.openRequest(maker, book, { amount: 5n });
    await commitCommand(book, own, db);

    await operate("user freeze", { "user-id": maker.userId });

    const frozen = sql`SELECT frozen_at IS NOT NULL AS frozen FROM users
      WHERE user_id = ${uuid(maker.userId)}`;
    expect(await first(db, frozen)).toEqual({ frozen: 1 });
    expect(await statusOf(bad)).toEqual(STUCK);
    expect(await statusOf(good)).toEqual(ended("cancelled"));
    expect(await statusOf(others)).toEqual(ended("open"));
    const request = sql`SELECT status FROM requests WHERE request_id = ${uuid(own.requestId)}`;
    expect(await first(db, request)).toEqual({ status: "cancelled" });
    expect(await balances(other.userId, book, db)).toEqual([90n, 10n]);
    expect(await alertsOf(bad)).toHaveLength(1);
  });

  it("does not stop the revocation of its key", async () => {
    const { maker, bad, good, others } = await damagedMarket();
    const { api_key_id: id } = await createOperatorApiKey(db, config(env), {
      userId: maker.userId,
      operator: "test",
      key: { ...NO_LIMITS, label: "bot", scopes: ["trade"] },
    });
    await all(
      db,
      sql`UPDATE quotes SET credential = ${uuid(id)} WHERE maker_id = ${uuid(maker.userId)}`,
    );

    expect(await operate("api-key revoke", { id })).toMatchObject({ changed: true });

    expect(await statusOf(bad)).toEqual(STUCK);
    expect(await statusOf(good)).toEqual(ended("cancelled"));
    expect(await statusOf(others)).toEqual(ended("open"));
  });

  it("does not stop the pause of its venue", async () => {
    const { book, maker, other, bad, good, others } = await damagedMarket();
    const next = command.openRequest(other, book, { amount: 5n });
    await commitCommand(book, next, db);

    expect(await pauseVenue(damaged, "venue_three")).toBeGreaterThanOrEqual(2);

    const open = sql`SELECT 1 FROM requests WHERE asset = ${book} AND status = 'open'`;
    expect(await all(db, open)).toEqual([]);
    expect(await statusOf(bad)).toEqual(STUCK);
    expect(await statusOf(good)).toEqual(ended("rejected"));
    expect(await statusOf(others)).toEqual(ended("rejected"));
    expect(await balances(maker.userId, book, db)).toEqual([90n, 10n]);
    await resumeVenue(db, "venue_three");
  });

  it("does not keep its maker from cancelling the others", async () => {
    const { maker, bad, good } = await damagedMarket();
    expect(await cancelQuotes(damaged, maker.actor, {})).toBe(1);
    expect(await statusOf(bad)).toEqual(STUCK);
    expect(await statusOf(good)).toEqual(ended("cancelled"));
    expect(await cancelQuotes(damaged, maker.actor, {})).toBe(0);
  });

  it("does not let cancelling all report that nothing took effect after some were", async () => {
    const { maker, bad, good } = await damagedMarket();
    const breaking = withBatch(db, async (statements) => {
      if ((await statusOf(bad))?.stuck === 1) throw new Error("D1_ERROR: no such table");
      return db.batch(statements);
    });
    await expect(cancelQuotes({ ...damaged, DB: breaking }, maker.actor, {})).rejects.toMatchObject(
      { data: unavailable("unknown").data },
    );
    expect(await statusOf(good)).toEqual(ended("cancelled"));
  });
});

/** The match trips the maker's protection, and a damaged quote keeps the other one open. */
async function trippedMaker() {
  const { book, requester, maker, bad, good } = await damagedMarket();
  const opened = command.openRequest(requester, book, { amount: 10n });
  await commitCommand(book, opened, db);
  const quote = command.placeQuote(maker, opened.requestId, 500_000);
  const { send } = newCommitter(book);
  expect(await send(quote)).toBe("ok");
  const limits = { windowSecs: 60, maxMatches: 1, maxUsdc: null, cooldownSecs: null };
  await saveProtection(damaged, maker.actor, limits);

  expect(await send(command.accept(requester, quote.quoteId))).toBe("ok");

  expect(await send(command.placeQuote(maker, opened.requestId, 1))).not.toBe("ok");
  expect(await statusOf(good)).toEqual(ended("open"));
  return { maker, bad, good };
}

describe("a protection that trips", () => {
  it("does not refuse the accept because of a damaged quote of the maker", async () => {
    const { bad, good } = await trippedMaker();
    await closeTripped(damaged);
    expect(await statusOf(good)).toEqual(ended("cancelled"));
    expect(await statusOf(bad)).toEqual(STUCK);
    expect(await alertsOf(bad)).toEqual([{ kind: "record_stuck" }]);
  });

  it.each([1, 2])("keeps the quotes of a maker who resets it before batch %i", async (reset) => {
    const { maker, good } = await trippedMaker();
    let batches = 0;
    const racing = withBatch(db, async (statements) => {
      if (++batches === reset) await resetProtection(damaged, maker.actor);
      return db.batch(statements);
    });
    await closeTripped({ ...damaged, DB: racing });
    expect(await statusOf(good)).toEqual(ended("open"));
  });

  it("fails the task of cron if the quotes of no maker could be closed", async () => {
    await trippedMaker();
    const lossy = withBatch(db, () => Promise.reject(new Error("connection lost")));
    await expect(closeTripped({ ...damaged, DB: lossy })).rejects.toMatchObject({
      data: unavailable("none").data,
    });
    await closeTripped(damaged);
  });

  it("keeps no other open and fails no task if one cannot be closed", async () => {
    const closed: string[] = [];
    const close = async (item: string) => {
      if (item === "bad") throw new Error("cannot be closed");
      closed.push(item);
    };
    const failed = () => ["test.not_closed", {}] as const;
    expect(await closeInTurn(damaged, ["first", "bad", "last"], close, failed)).toBe(false);
    expect(closed).toEqual(["first", "last"]);
  });
});

describe("a quote that no repetition can place", () => {
  it("fails alone, and the other quotes of its group are placed", async () => {
    const { key: book } = newAsset("venue_three");
    const requester = await newUser({ usdc: 1_000n }, db);
    const makers = await Promise.all([1, 2, 3].map(() => newUser({ [book]: 100n }, db)));
    const opened = command.openRequest(requester, book, { amount: 10n });
    await commitCommand(book, opened, db);
    const { send } = newCommitter(book);
    const outcomes = await Promise.all(
      makers.map((maker, n) => {
        const sent = command.placeQuote(maker, opened.requestId, 500_000);
        return send(n === 1 ? { ...sent, label: "x".repeat(2_000_000) } : sent);
      }),
    );
    expect(outcomes).toEqual(["ok", "internal", "ok"]);
  });

  it.each([
    "D1_ERROR: string or blob too big: SQLITE_TOOBIG",
    "D1_ERROR: too many SQL variables at offset 90: SQLITE_ERROR",
    "D1_ERROR: database or disk is full: SQLITE_FULL",
    "D1_ERROR: no such column: later at offset 7: SQLITE_ERROR",
  ])("is not sent again after: %s", async (text) => {
    const failing = withBatch(db, () => Promise.reject(new Error(text)));
    expect(await commit(failing, newGroup(), [])).toMatchObject({ reason: "constraint" });
  });
});

describe("a quote that violates a constraint", () => {
  it("fails alone, and the other quotes of its group are placed", async () => {
    const { key: book } = newAsset("venue_three");
    const requester = await newUser({ usdc: 1_000n }, db);
    const makers = await Promise.all([1, 2, 3].map(() => newUser({ [book]: 100n }, db)));
    const opened = command.openRequest(requester, book, { amount: 10n });
    await commitCommand(book, opened, db);
    const refused = raw(`x'${makers[1]?.userId.replaceAll("-", "") ?? ""}'`);
    await all(
      db,
      sql`CREATE TRIGGER quotes_refused BEFORE INSERT ON quotes WHEN NEW.maker_id = ${refused} BEGIN
        SELECT RAISE(ABORT, 'constraint failed: a guard that no precondition repeats'); END`,
    );
    const { send } = newCommitter(book);
    const outcomes = await Promise.all(
      makers.map((maker) => send(command.placeQuote(maker, opened.requestId, 500_000))),
    );
    await all(db, sql`DROP TRIGGER quotes_refused`);
    expect(outcomes).toEqual(["ok", "internal", "ok"]);
  });
});
