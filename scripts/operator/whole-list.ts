/** A list as a whole, page by page: as CSV, or the lists of a user as files. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";
import { isAmount } from "./amounts.ts";
import { commandOf } from "./commands.ts";
import { isRecord } from "./print.ts";

type Call = (order: OperatorRequest) => Promise<OperatorResponse>;

/** All rows of a list. What is no list is returned as it is. */
export async function wholeList(
  order: OperatorRequest,
  call: Call,
  onPage: (rows: string) => void = () => {},
): Promise<OperatorResponse> {
  const hasPages = commandOf(order.command)?.flags?.some(({ name }) => name === "limit") === true;
  const first = { ...(hasPages ? { limit: "500" } : {}), ...order.options };
  const rows: unknown[] = [];
  for (let options: Record<string, string> = first; ;) {
    const response = await call({ ...order, options });
    if (!response.ok || !Array.isArray(response.result)) return response;
    rows.push(...(response.result as unknown[]));
    onPage(`${rows.length} rows`);
    const { next_cursor: cursor } = response;
    if (cursor === undefined || cursor === null) return { ok: true, result: rows };
    options = { ...first, cursor };
  }
}

/** RFC 4180. Amounts are decimal native units. */
export function csvOf(rows: readonly unknown[]): string {
  const records = rows.filter(isRecord);
  const columns = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = records.map((record) => columns.map((name) => cellOf(name, record[name])));
  return [columns, ...lines].map((line) => line.join(",")).join("\r\n");
}

function cellOf(name: string, value: unknown): string {
  if (isAmount(name, value))
    return String(value.startsWith("-") ? -BigInt(value.slice(1)) : BigInt(value));
  const text = typeof value === "string" ? value : JSON.stringify(value ?? "");
  if (value === undefined || value === null || text === "") return "";
  // A spreadsheet would run a user's text that begins like a formula.
  const safe = /^[=+@\t\r]|^-(?!\d+$)/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Each list that has records of one user, with the options that show all of them. */
const OF_USER: readonly (readonly [words: string, options?: Record<string, string>])[] = [
  ["user show"],
  ["requests list"],
  ["quotes list"],
  ["history requests"],
  ["history quotes"],
  ["history matches"],
  ["history deposit-addresses"],
  ["history withdrawal-addresses"],
  ["ledger"],
  ["deposits list"],
  ["withdrawals list"],
  ["audit list", { kind: "all" }],
];

/** Writes one file for each list. Only its owner reads the folder. */
export async function exportUser(order: OperatorRequest, call: Call): Promise<OperatorResponse> {
  const { out = "", ...user } = order.options ?? {};
  const records: Record<string, number> = {};
  for (const [words, options] of OF_USER) {
    const command = words.split(" ");
    const response = await wholeList({ ...order, command, options: { ...user, ...options } }, call);
    if (!response.ok) return response;
    mkdirSync(out, { recursive: true, mode: 0o700 });
    const file = `${command.join("-")}.json`;
    writeFileSync(join(out, file), `${JSON.stringify(response.result, null, 2)}\n`, {
      mode: 0o600,
    });
    records[file] = Array.isArray(response.result) ? response.result.length : 1;
  }
  return { ok: true, result: { folder: out, records } };
}
