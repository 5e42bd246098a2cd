/** The chain of seals in the database, each with an audit event. */
import { inChunks } from "../platform/chunks.ts";
import { commit, type Group, newGroup } from "../platform/commit.ts";
import { addClosing, closingBalances } from "../ledger/trade-sums.ts";
import { all, blob, raw, type RowOf, select, type Sql, sql, TRUE, typed } from "../platform/sql.ts";
import { auditRow, detailed, genuineEvents, recordBy } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import type { Footer, SealRef } from "./footer.ts";
import { linksIn, type OwnerEnds } from "./owner-ends.ts";
import type { OwnersPart } from "./verify-parts.ts";
import type { Owner } from "./sealed-columns.ts";
import type { StoredSeal } from "./seal-store.ts";

/** What a row of `journal_seals` states of its seal. */
export const SEAL = {
  number: typed<number>("number"),
  epoch: typed<number>("epoch"),
  after: typed<number>("after_transfer"),
  upTo: typed<number>("up_to_transfer"),
  afterGroup: typed<number>("after_group"),
  upToGroup: typed<number>("up_to_group"),
  transfers: typed<number>("transfers"),
  requests: typed<number>("requests"),
  quotes: typed<number>("quotes"),
  matches: typed<number>("matches"),
  bytes: typed<number>("bytes"),
  previous: typed<string>("lower(hex(previous))"),
  sha256: typed<string>("lower(hex(sha256))"),
  sealedAt: typed<number>("sealed_at"),
};
export type SealRow = RowOf<typeof SEAL>;

/** The seals that `rest`, the clauses after FROM, selects. */
export function readSeals(db: D1Database, rest: Sql): Promise<SealRow[]> {
  return all(db, sql`SELECT ${select(SEAL)} FROM journal_seals ${rest}`);
}

/** The newest seals, the last one first. */
export function lastSeals(db: D1Database, count: number): Promise<SealRow[]> {
  return readSeals(db, sql`ORDER BY number DESC LIMIT ${count}`);
}

/**
 * Stores a seal that was read back, with the balances that it ends with and its audit event. The
 * trigger of the table rejects a seal that does not continue the last one, and the batch with it.
 * Returns whether the seal is stored; if not, the next round finds out why.
 */
export async function storeSeal(
  db: D1Database,
  macKeys: MacKeys,
  { seal, footer, sha256, bytes }: StoredSeal,
): Promise<boolean> {
  const group = newGroup();
  const result = await commit(db, group, [
    sql`INSERT INTO journal_seals (number, epoch, after_transfer, up_to_transfer, after_group,
        up_to_group, transfers, requests, quotes, matches, last_at, bytes, previous, sha256,
        sealed_at)
      SELECT ${seal.number}, ${seal.epoch}, ${seal.after}, ${seal.upTo}, ${seal.afterGroup},
        ${seal.upToGroup}, ${seal.transfers.length}, ${seal.requests.length},
        ${seal.quotes.length}, ${seal.matches.length},
        coalesce(${seal.transfers.at(-1)?.at ?? null},
          (SELECT last_at FROM journal_seals ORDER BY number DESC LIMIT 1), 0),
        ${bytes}, ${blob(seal.previous)}, ${blob(sha256)}, ${group.at}`,
    sql`INSERT INTO sealed_balances (account_id, balance, traded, traded_usdc)
      SELECT * FROM (${closingBalances(seal)}) WHERE 1
      ON CONFLICT (account_id) DO UPDATE SET ${addClosing("sealed_balances")}`,
    ...storeOwners(footer),
    sealEvent(macKeys, { ...seal, sha256 }, group),
  ]);
  return result.committed;
}

/**
 * Somebody who can write to the database and to the bucket can make another seal and a row that
 * fits. They cannot make its event: it has a MAC by a key of AUDIT_KEYS and is part of the audit
 * log, whose signed heads are kept outside the database.
 */
const KIND = "journal_sealed";

function sealEvent(keys: MacKeys, { epoch, number, sha256 }: SealRef, group: Group): Sql {
  const record = recordBy("operator:sealer", KIND, { subjectId: String(number) });
  return auditRow(detailed(keys, record, { epoch, sha256 }), group.at, TRUE);
}

/** What the service has sealed under these numbers, as genuine audit events say. */
export async function readSealEvents(
  db: D1Database,
  keys: MacKeys,
  numbers: readonly number[],
): Promise<readonly SealRef[]> {
  const events = await genuineEvents(db, keys, { kind: KIND, subjects: numbers.map(String) });
  return events.map(({ subjectId, details }) => ({
    // Safe cast: only `sealEvent` writes genuine events of this kind.
    ...(JSON.parse(details ?? "") as Omit<SealRef, "number">),
    number: Number(subjectId),
  }));
}

type OwnerRow = Omit<OwnerEnds, "last"> & { owner: Owner; number: number; epoch: number };

/** Rows `o` of `sealed_owners`, and the newest seal: one statement sees one instant. */
export async function readOwnerRows(db: D1Database, which: Sql): Promise<OwnersPart> {
  const rows = await all<(OwnerRow | { owner: null }) & { seal: number }>(
    db,
    sql`SELECT n.seal, r.* FROM (SELECT coalesce(max(number), 0) AS seal FROM journal_seals) n
      LEFT JOIN (SELECT lower(hex(o.owner)) AS owner, o.first_seal AS first, o.last_seal AS number,
          coalesce((SELECT epoch FROM journal_seals WHERE number = o.last_seal), 0) AS epoch,
          o.last_request_at AS requestAt, o.last_quote_at AS quoteAt, o.last_match_at AS matchAt
        FROM sealed_owners o WHERE ${which}) r ON 1 ORDER BY r.owner`,
  );
  const owners = rows.flatMap((row) => {
    if (row.owner === null) return [];
    const { owner, first, number, epoch, requestAt, quoteAt, matchAt } = row;
    return [{ owner, ends: { first, last: { epoch, number }, requestAt, quoteAt, matchAt } }];
  });
  return { seal: rows[0]?.seal ?? 0, owners };
}

/** A statement binds a text of at most 2 MB. */
const ROWS_PER_STATEMENT = 5_000;

/** A row of an owner is there with its first seal, and only grows. */
function storeOwners(footer: Footer): Sql[] {
  const { number } = footer.head;
  return inChunks(linksIn(footer), ROWS_PER_STATEMENT).flatMap((links) => {
    const rows = links.map(({ owner, ends }) => {
      const { requestAt, quoteAt, matchAt } = ends;
      return [owner, requestAt, quoteAt, matchAt];
    });
    const owners = sql`json_each(${JSON.stringify(rows)}) s`;
    return [
      sql`UPDATE sealed_owners SET last_seal = ${number},
          last_request_at = ${laterOf("last_request_at", 1)},
          last_quote_at = ${laterOf("last_quote_at", 2)},
          last_match_at = ${laterOf("last_match_at", 3)}
        FROM ${owners} WHERE sealed_owners.owner = unhex(s.value ->> 0)`,
      sql`INSERT INTO sealed_owners (owner, first_seal, last_seal, last_request_at, last_quote_at,
          last_match_at)
        SELECT unhex(s.value ->> 0), ${number}, ${number}, s.value ->> 1, s.value ->> 2,
          s.value ->> 3
        FROM ${owners}
        WHERE NOT EXISTS (SELECT 1 FROM sealed_owners o WHERE o.owner = unhex(s.value ->> 0))`,
    ];
  });
}

function laterOf(column: string, place: number): Sql {
  const [old, added] = [`sealed_owners.${column}`, `s.value ->> ${place}`];
  return raw(`max(coalesce(${old}, ${added}), coalesce(${added}, ${old}))`);
}
