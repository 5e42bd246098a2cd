/** D1's clock ahead of the Worker's: after one wrong instant it stands still. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { now, setClock } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { GroupCommitter } from "../../src/rfq/group-committer.ts";
import { watchClock } from "../../src/rfq/watch-clock.ts";
import { balances, newAsset } from "../support/ledger.ts";
import {
  command,
  commitCommand,
  operationOf,
  outcomeOf,
  withRealClock,
} from "../support/market.ts";
import { answerAlert } from "../support/pager.ts";
import { newUser } from "../support/users.ts";

/** A database of its own, because its clock stands still for the rest of the run. */
const db = env.AHEAD_DB;
beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

const openAlerts = () =>
  all<{ kind: string }>(db, sql`SELECT kind FROM alerts WHERE resolved_at IS NULL`);

it("stops quotes and accepts, but not expiry", () =>
  withRealClock(async () => {
    const { key: book } = newAsset();
    const requester = await newUser({ usdc: 1_000n }, db);
    const maker = await newUser({ [book]: 1_000n }, db);
    const opened = command.openRequest(requester, book, { amount: 10n, expiresInSecs: 3_600 });
    await commitCommand(book, opened, db);
    const [short, long] = [300, 10].map((secs) =>
      command.placeQuote(maker, opened.requestId, 500_000, secs),
    );
    await commitCommand(book, short!, db);
    await commitCommand(book, long!, db);
    await watchClock(db);
    expect(await openAlerts()).toEqual([]);

    // One group of a database whose clock was wrong.
    await all(
      db,
      sql`INSERT INTO commit_groups (group_id, at, voided)
      VALUES (${uuid(uuidv7())}, ${now() + 60_000}, 0)`,
    );
    const ahead: number[] = [];
    const committer = new GroupCommitter(db, {
      asset: book,
      waitMs: 0,
      maxWaitMs: 30_000,
      maxOperations: 64,
      macKeys: config(env),
      onCommitted: async () => {},
      onFailed: () => {},
      push: () => Promise.resolve(),
      onClockAhead: (ms) => ahead.push(ms),
    });
    const send = async (sent: Parameters<typeof operationOf>[0]) =>
      outcomeOf(await committer.submit(await operationOf(sent, config(env), db)));

    for (let round = 0; round < 2; round++) {
      expect(await send(command.placeQuote(maker, opened.requestId, 1, 300))).toBe("unavailable");
      expect(await send(command.accept(requester, short!.quoteId))).toBe("unavailable");
    }
    expect(ahead).toHaveLength(1);
    // The quote of ten seconds has ended. The other one can still be cancelled.
    expect(await balances(maker.userId, book, db)).toEqual([990n, 10n]);
    expect(await send(command.cancelQuote(maker, short!.quoteId))).toBe("ok");

    await watchClock(db);
    const end = () => {
      setClock({ now: () => Date.now() + 61_000 });
      return watchClock(db);
    };
    await answerAlert("clock_ahead", "d1", { db, end });
  }));
