/** `storage`: how full the database is and who fills it. It reads every row, in short chunks. */
import { databaseBytes, growthPerDay, limitBytes, STOP_SHARE } from "../platform/storage.ts";
import { all, type Expr, expr, raw, readUuid, scalar, sql, TRUE } from "../platform/sql.ts";
import { type OperatorContext, limitOption } from "./context.ts";
import { TABLE_SIZES, type TableSize } from "./row-bytes.ts";

const ROWS_PER_CHUNK = 50_000;
const DAY_MS = 86_400_000;

export async function storage(context: OperatorContext): Promise<unknown> {
  const { env, settings } = context;
  const limit = limitBytes(settings);
  const bytes = await databaseBytes(env.DB);
  const growth = await growthPerDay(env.DB, bytes);
  const counts = await countRows(env.DB);
  const estimated = counts.reduce((sum, count) => sum + count.estimate, 0);
  // The estimates are shares of the size that D1 reports.
  const share = (estimate: number) => Math.round((bytes * estimate) / Math.max(1, estimated));
  return {
    bytes,
    limit_bytes: limit,
    used_percent: percent(bytes, limit),
    growth_bytes_per_day: growth ?? null,
    new_business_stops_on: dayOf(bytes, growth, limit * STOP_SHARE),
    full_on: dayOf(bytes, growth, limit),
    tables: byTable(counts).map(({ name, rows, estimate }) => ({
      table: name,
      rows,
      bytes: share(estimate),
      percent: percent(estimate, estimated),
    })),
    users: byUser(counts)
      .slice(0, limitOption(context))
      .map(({ name, rows, estimate }) => ({
        user_id: readUuid(name),
        rows,
        bytes: share(estimate),
        percent: percent(estimate, estimated),
      })),
  };
}

type Count = { table: string; user: string | null; rows: number; estimate: number };
type Total = { name: string; rows: number; estimate: number };

async function countRows(db: D1Database): Promise<Count[]> {
  const counts: Count[] = [];
  for (const [table, size] of Object.entries(TABLE_SIZES)) {
    const rows = await countTable(db, table, size);
    for (const [user, n] of rows) counts.push({ table, user, rows: n, estimate: n * size.bytes });
  }
  return counts;
}

/** The rows of a table by user, as hex. */
async function countTable(
  db: D1Database,
  table: string,
  { user = "NULL", withoutRowid, key }: TableSize,
): Promise<Map<string | null, number>> {
  const total = new Map<string | null, number>();
  if (withoutRowid === true)
    return total.set(null, await scalar(db, expr`SELECT count(*) FROM ${raw(table)}`));
  const id = raw(`t.${key ?? "rowid"}`);
  for (let after: Expr | undefined = TRUE; after !== undefined;) {
    const chunk: { owner: string | null; n: number; last: string }[] = await all(
      db,
      sql`SELECT iif(owner IS NULL, NULL, hex(owner)) AS owner, count(*) AS n,
          ${raw(key === undefined ? "CAST(max(id) AS TEXT)" : "hex(max(id))")} AS last
        FROM (SELECT ${id} AS id, ${raw(user)} AS owner FROM ${raw(table)} t
          WHERE ${after} ORDER BY ${id} LIMIT ${ROWS_PER_CHUNK})
        GROUP BY 1`,
    );
    for (const { owner, n } of chunk) total.set(owner, (total.get(owner) ?? 0) + n);
    const read = chunk.reduce((sum, { n }) => sum + n, 0);
    if (read < ROWS_PER_CHUNK) break;
    const lasts = chunk.map(({ last }) => last);
    after =
      key === undefined
        ? expr`${id} > ${Math.max(...lasts.map(Number))}`
        : expr`${id} > unhex(${lasts.toSorted().at(-1) ?? ""})`;
  }
  return total;
}

const byTable = (counts: readonly Count[]) => totals(counts, ({ table }) => table);
const byUser = (counts: readonly Count[]) =>
  totals(
    counts.filter(({ user }) => user !== null),
    ({ user }) => user ?? "",
  );

/** The largest first. */
function totals(counts: readonly Count[], nameOf: (count: Count) => string): Total[] {
  return [...Map.groupBy(counts, nameOf)]
    .map(([name, own]) => ({
      name,
      rows: own.reduce((sum, { rows }) => sum + rows, 0),
      estimate: own.reduce((sum, { estimate }) => sum + estimate, 0),
    }))
    .toSorted((a, b) => b.estimate - a.estimate);
}

function percent(part: number, whole: number): number {
  return Math.round((1_000 * part) / Math.max(1, whole)) / 10;
}

/** The day on which the database reaches `target` at this growth. Null: never. */
function dayOf(bytes: number, growth: number | undefined, target: number): string | null {
  if (bytes < target && (growth === undefined || growth <= 0)) return null;
  const days = Math.max(0, (target - bytes) / Math.max(1, growth ?? 1));
  const at = Date.now() + days * DAY_MS;
  return at > Date.UTC(9999) ? null : new Date(at).toISOString().slice(0, 10);
}
