/** Fills a new database as a day of trading leaves it, before anything is measured. */
import { randomUUID } from "node:crypto";
import { reasonCode, stepCode } from "../src/ledger/codes.ts";
import { atom } from "../src/platform/sql.ts";
import { fund, newToken } from "./people.ts";
import type { Database } from "./stack.ts";

/** One a second. */
export const QUOTES_OF_A_DAY = 86_400;
/** Enough to see whether it works. */
export const QUOTES_OF_A_QUICK_DAY = 4_000;

const DAY_MS = 86_400_000;
const MAKERS = 1_000;
const BOOKS = 256;
const QUOTES_PER_REQUEST = 3;
/** Events of a quote: its opening and its end, to the maker and to the requester. */
const EVENTS_PER_QUOTE = 4;
const EVENTS_OF_A_QUOTE = JSON.stringify([...Array(EVENTS_PER_QUOTE).keys()]);
const QUOTES_PER_GROUP = 8;
const CHUNK = 4_000;
/** The mean event of a quote, as it is stored: bytes of ids, and the code and values. */
const EVENT_IDS = 48;
const EVENT = '[[0,3,"venue_one","Bid","1000",500000,"500","0"]]';

/**
 * Inserts ended quotes with everything that is kept of them for a day: requests, transfers, events,
 * idempotency keys and commit groups. The owners take no part in the bench.
 */
export async function fillDay(db: Database, quotes: number): Promise<void> {
  const makers = Array.from({ length: MAKERS }, () => randomUUID());
  const books = JSON.stringify(Array.from({ length: BOOKS }, () => newToken().asset));
  const start = Date.now() - DAY_MS;
  const users = JSON.stringify(makers);
  await fund(db, makers, ["usdc"], 10 ** 12, atom(String(start)));
  await db.batch([
    db.prepare("CREATE TABLE bench_makers (n INTEGER PRIMARY KEY, user_id, stream, free, held)"),
    db.prepare("CREATE TABLE bench_books (n INTEGER PRIMARY KEY, asset)"),
    db.prepare("INSERT INTO bench_books SELECT key, value FROM json_each(?)").bind(books),
    db
      .prepare(
        `INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
         SELECT 'account:' || value, 0, 0, 1, ? FROM json_each(?)`,
      )
      .bind(start, users),
    db
      .prepare(
        `INSERT INTO bench_makers SELECT u.key, unhex(u.value, '-'), s.stream_id,
          (SELECT account_id FROM accounts WHERE owner = unhex(u.value, '-')
            AND asset = 'usdc' AND kind = 'available'),
          (SELECT account_id FROM accounts WHERE owner = unhex(u.value, '-')
            AND asset = 'usdc' AND kind = 'pending')
        FROM json_each(?) u JOIN streams s ON s.name = 'account:' || u.value`,
      )
      .bind(users),
  ]);
  for (let from = 0; from < quotes; from += CHUNK)
    await fillChunk(db, {
      from,
      to: Math.min(from + CHUNK, quotes),
      start,
      everyMs: DAY_MS / quotes,
    });
  await db.batch([db.prepare("DROP TABLE bench_makers"), db.prepare("DROP TABLE bench_books")]);
}

type Chunk = Readonly<Record<"from" | "to" | "start" | "everyMs", number>>;

async function fillChunk(db: Database, { from, to, start, everyMs }: Chunk): Promise<void> {
  // Milliseconds, version and variant as in UUID v7, then the quote's number.
  const id = (number: string, kind: string) =>
    `unhex(printf('%012x70008${kind}%014x', at, ${number}))`;
  const numbers = `WITH RECURSIVE v(n) AS (SELECT ${from} UNION ALL
      SELECT n + 1 FROM v WHERE n + 1 < ${to}),
    q AS (SELECT n, CAST(${start} + n * ${everyMs} AS INTEGER) AS at, n % ${MAKERS} AS maker,
      n / ${QUOTES_PER_REQUEST} AS request, 1 + n / ${QUOTES_PER_GROUP} AS seq FROM v)`;
  const quote = id("n", "1");
  const request = `unhex(printf('%032x', request))`;
  const book = `(SELECT asset FROM bench_books WHERE n = request % ${BOOKS})`;
  const maker = (column: string) => `(SELECT ${column} FROM bench_makers WHERE n = maker)`;
  const event = `s.last_seq + 1 + (n - ${from}) / ${MAKERS} * ${EVENTS_PER_QUOTE} + k`;
  const inserts: readonly (readonly [into: string, select: string])[] = [
    [
      "commit_groups (seq, group_id, at, voided)",
      `seq, randomblob(16), at, 0 FROM q WHERE n % ${QUOTES_PER_GROUP} = 0`,
    ],
    [
      `requests (request_id, requester_id, asset, amount, side, disclosed, status, opened_at,
        expires_at, opened_group, ended_by, ended_group)`,
      `${request}, ${maker("user_id")}, ${book}, '1000', 'Bid', 0, 'expired', at, at + 60000, seq,
        randomblob(16), seq FROM q WHERE n % ${QUOTES_PER_REQUEST} = 0`,
    ],
    [
      `quotes (quote_id, request_id, maker_id, credential, asset, amount, side, price,
        usdc_amount, taker_fee, maker_fee, reserve, status, opened_at, expires_at, opened_group, maker_open,
        ended_by, ended_group)`,
      `${quote}, ${request}, ${maker("user_id")}, ${maker("user_id")}, ${book}, '1000', 'Bid',
        500000, 500, 0, 0,
        500, 'expired', at, at + 30000, seq, 1, randomblob(16), seq FROM q`,
    ],
    ...[
      ["free", "held", "reserve_rfq", "reserve"] as const,
      ["held", "free", "release", "end"] as const,
    ].map(
      ([source, target, reason, step]) =>
        [
          "transfers (from_account, to_account, amount, reason, ref, step, line, at)",
          `${maker(source)}, ${maker(target)}, 500, ${reasonCode(reason).text}, ${quote},
            ${stepCode(step).text}, 0, ${Math.floor(start + from * everyMs)} FROM q`,
        ] as const,
    ),
    [
      "event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)",
      `(seq << 20) + n % ${QUOTES_PER_GROUP} * ${EVENTS_PER_QUOTE} + k, s.stream_id, ${event},
        ${event}, at, randomblob(${EVENT_IDS}), '${EVENT}'
      FROM q JOIN streams s ON s.stream_id = ${maker("stream")}
        CROSS JOIN (SELECT value AS k FROM json_each('${EVENTS_OF_A_QUOTE}'))
      ORDER BY n, k`,
    ],
  ];
  await db.batch(
    inserts.map(([into, select]) => db.prepare(`INSERT INTO ${into} ${numbers} SELECT ${select}`)),
  );
}
