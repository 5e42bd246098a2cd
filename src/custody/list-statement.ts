import { readStatement } from "../ledger/statement.ts";
import { invalidRequest } from "../platform/problem.ts";
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

/** get-ledger as a file (RFC 4180): every matching entry up to the newest one now. No value of it needs quoting. */
export async function statementResponse(db: D1Database, userId: string, query: LedgerRequest): Promise<Response> {
  const faults = (["limit", "last_cursor"] as const).filter((name) => query[name] !== undefined);
  if (faults.length > 0) throw invalidRequest(faults.map((name) => ({ path: `query.${name}`, message: "a statement is not paged" })));
  const statement = await readStatement(db, userId, filterOf(query), {
    header: `${COLUMNS.join(",")}\r\n`,
    line: (row) => {
      const entry = entryView(row);
      return `${COLUMNS.map((column) => entry[column] ?? "").join(",")}\r\n`;
    },
    end: (rows) => `# end,${rows}\r\n`,
  });
  return new Response(statement, {
    headers: { "content-type": "text/csv; charset=utf-8; header=present", "content-disposition": 'attachment; filename="ledger.csv"' },
  });
}

/** A caller who accepts CSV and names it before JSON, or names no JSON. */
export function wantsStatement(accept: string | null): boolean {
  if (accept === null) return false;
  const types = accept
    .toLowerCase()
    .split(",")
    .map((part) => part.split(";")[0]?.trim());
  const csv = types.indexOf("text/csv");
  const json = types.indexOf("application/json");
  return csv >= 0 && (json < 0 || csv < json);
}
