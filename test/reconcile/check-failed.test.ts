/**
 * Somebody sets rows to values on which a check throws. That is a difference, and the other checks
 * still find theirs. A database of its own, because the rows stay.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import type { Difference } from "../../src/reconcile/difference.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { edit, newAsset } from "../support/ledger.ts";
import { command, commitCommand, matchOf } from "../support/market.ts";
import { newUser } from "../support/users.ts";
import { settings } from "../support/http.ts";

const db = env.UNREADABLE_DB;
const HUGE = raw("9223372036854775807");

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

/** A match and two open quotes of one maker. */
async function history() {
  const { key: book } = newAsset("venue_two");
  const requester = await newUser({ usdc: 10_000n }, db);
  const maker = await newUser({ [book]: 10_000n }, db);
  const ask = command.openRequest(requester, book, { amount: 1_000n });
  const quote = command.placeQuote(maker, ask.requestId, 700_000, 300);
  const later = command.openRequest(requester, book, { amount: 1_000n });
  const open = [900_000, 910_000].map((price) =>
    command.placeQuote(maker, later.requestId, price, 300),
  );
  for (const sent of [ask, quote, later, ...open]) await commitCommand(book, sent, db);
  const match = matchOf(await commitCommand(book, command.accept(requester, quote.quoteId), db));
  return { book, makerId: maker.userId, userId: requester.userId, matchId: match.match_id };
}
type History = Awaited<ReturnType<typeof history>>;

type Edit = {
  readonly title: string;
  readonly table: string;
  readonly statement: (of: History) => Sql;
  /** The name of the check that throws. */
  readonly check: string;
  readonly undo?: (of: History) => Sql;
};

const EDITS: readonly Edit[] = [
  {
    title: "a match of a huge cost",
    table: "matches",
    statement: ({ matchId }) =>
      sql`UPDATE matches SET usdc_amount = ${HUGE} WHERE match_id = ${uuid(matchId)}`,
    check: "transfers of records",
  },
  {
    title: "a huge balance after a transfer",
    table: "transfers",
    statement: ({ matchId }) =>
      sql`UPDATE transfers SET from_balance = ${HUGE}, to_balance = ${HUGE}
        WHERE ref = ${uuid(matchId)}`,
    check: "running balances",
  },
  {
    title: "two huge reserves",
    table: "quotes",
    statement: ({ makerId }) =>
      sql`UPDATE quotes SET reserve = ${HUGE} WHERE maker_id = ${uuid(makerId)}
        AND status = 'open'`,
    check: "promises",
  },
  {
    title: "events that are not JSON",
    table: "event_runs",
    statement: ({ makerId }) =>
      sql`UPDATE event_runs SET events = '{' WHERE stream_id = (
        SELECT stream_id FROM streams WHERE name = ${`account:${makerId}`})`,
    check: "numbers of streams",
  },
  {
    title: "an expiry before all time",
    table: "quotes",
    statement: ({ makerId }) =>
      sql`UPDATE quotes SET expires_at = -9000000000000000 WHERE maker_id = ${uuid(makerId)}
        AND status = 'open'`,
    check: "expiries",
  },
  {
    title: "an alert that is not JSON",
    table: "alerts",
    statement: ({ book }) => sql`INSERT INTO alerts (kind, subject, detail, at)
      VALUES ('reconciliation', ${book}, 'x', 1)`,
    check: "open differences",
    undo: ({ book }) => sql`DELETE FROM alerts WHERE subject = ${book}`,
  },
];

async function raised(change: () => Promise<unknown>): Promise<Difference[]> {
  const [last] = await all<{ id: number }>(
    db,
    sql`SELECT coalesce(max(alert_id), 0) AS id FROM alerts`,
  );
  await change();
  const { ok, differences } = await reconcile(db, { macKeys: settings(), chains: [], full: true });
  expect(ok).toBe(false);
  const rows = await all<{ detail: string }>(
    db,
    sql`SELECT detail FROM alerts WHERE alert_id > ${last?.id ?? 0} AND json_valid(detail)`,
  );
  const stored = rows.map(({ detail }): Difference => JSON.parse(detail));
  return [...stored, ...differences];
}

it.each(EDITS)("$title hides no other difference", { timeout: 30_000 }, async (given) => {
  const { table, statement, check, undo } = given;
  const of = await history();
  await reconcile(db, { macKeys: settings(), chains: [] });
  const found = await raised(async () => {
    await edit(db, table, [statement(of)]);
    await edit(db, "accounts", [
      sql`UPDATE accounts SET balance = balance + 1
        WHERE owner = ${uuid(of.userId)} AND asset = 'usdc' AND kind = 'available'`,
    ]);
  });
  if (undo !== undefined) await all(db, undo(of));
  expect(found).toContainEqual(
    expect.objectContaining({ check: "check_failed", account: `all/check/${check}` }),
  );
  expect(found).toContainEqual(
    expect.objectContaining({
      check: "balance_mismatch",
      account: `${of.userId}/available/usdc`,
    }),
  );
});
