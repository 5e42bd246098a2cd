import { actorRejection } from "../auth/may-write.ts";
import type { ColdEntries } from "../ledger/cold-entries.ts";
import { readStatement } from "../ledger/statement.ts";
import type { Actor } from "../platform/actor.ts";
import { invalidRequest } from "../platform/problem.ts";
import type { Venue } from "../platform/venues.ts";
import { type EntryWire, entryView, filterOf, type LedgerRequest } from "./list-entries.ts";

const COLUMNS = [
  "entry_id",
  "account",
  "asset_id",
  "venue",
  "delta",
  "balance_after",
  "reason",
  "ref_id",
  "created_at",
] as const satisfies (keyof EntryWire)[];

/** get-ledger as CSV (RFC 4180): all matching entries up to the newest. No value needs quotes. */
export async function statementResponse(
  db: D1Database,
  actor: Actor,
  query: LedgerRequest,
  venues: readonly Venue[],
  cold?: ColdEntries,
): Promise<Response> {
  const errors = (["limit", "last_cursor"] as const).filter((name) => query[name] !== undefined);
  if (errors.length > 0)
    throw invalidRequest(
      errors.map((name) => ({
        path: `query.${name}`,
        message: "not allowed with a statement, which has no pages",
      })),
    );
  const reader = {
    userId: actor.userId,
    ...(cold === undefined ? {} : { cold }),
    mayContinue: async () => (await actorRejection(db, actor)) === undefined,
  };
  const statement = await readStatement(db, reader, filterOf(query, venues), {
    header: `${COLUMNS.join(",")}\r\n`,
    line: (row) => {
      const entry = entryView(row);
      return `${COLUMNS.map((column) => entry[column] ?? "").join(",")}\r\n`;
    },
    end: (rows) => `# end,${rows}\r\n`,
  });
  return new Response(statement, {
    headers: {
      "content-type": "text/csv; charset=utf-8; header=present",
      "content-disposition": 'attachment; filename="ledger.csv"',
    },
  });
}

/**
 * Whether the caller prefers CSV to JSON: by its quality value, or by the order if these are equal
 * (RFC 9110, section 12.5.1).
 */
export function wantsStatement(accept: string | null): boolean {
  const ranges = (accept ?? "")
    .toLowerCase()
    .split(",")
    .map((range) => range.split(";").map((part) => part.trim()));
  const rank = (type: string) => {
    const place = ranges.findIndex(([name]) => name === type);
    const quality = ranges[place]?.find((part) => part.startsWith("q="));
    return { place, quality: place < 0 ? 0 : quality === undefined ? 1 : Number(quality.slice(2)) };
  };
  const [csv, json] = [rank("text/csv"), rank("application/json")];
  if (!(csv.quality > 0)) return false;
  return csv.quality === json.quality ? csv.place < json.place : csv.quality > json.quality;
}
