/**
 * Formats a command's result as text: lists as tables, records as lines. `--json` prints it raw.
 */
import { HIDDEN } from "../../src/platform/normal-text.ts";
import { amountText, isAmount, isPrice, priceText } from "./amounts.ts";

/** Wider cells of a table are truncated, unless it is wide. */
const MAX_CELL_WIDTH = 66;
/** Of a table that is not wide. Cells are shortened to this much before columns are left out. */
const MAX_TABLE_WIDTH = 100;
const MIN_CELL_WIDTH = 13;

/** A cell that was cut, or a column that was left out. */
const LEFT_OUT = /…(?: {2}|$)|^ {2}--wide: /m;

export type PrintOptions = {
  /** Tables have every column, with ids, instants and texts in full. */
  readonly wide?: boolean;
};

export function formatResult(result: unknown, options: PrintOptions = {}): string {
  if (Array.isArray(result)) {
    const text = table(result, options);
    const [only, ...others]: unknown[] = result;
    // Nothing of a single record is left out, such as the cause of a withdrawal.
    const isWhole = text.length <= 2 * MAX_TABLE_WIDTH && !LEFT_OUT.test(text);
    return others.length > 0 || !isRecord(only) || isWhole ? text : formatResult(only, options);
  }
  if (!isRecord(result)) return result === undefined || result === null ? "done" : cell(result);
  const lines: string[] = [];
  const entries = Object.entries(result);
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  for (const [name, value] of entries) {
    if (Array.isArray(value) && value.some((item) => typeof item === "object"))
      lines.push(`${name}:`, table(value, options));
    else if (isRecord(value))
      lines.push(`${name}:`, formatResult(value, options).replace(/^/gm, "  "));
    else lines.push(`${name.padEnd(width)}  ${fieldText(result, name)}`);
  }
  return lines.length === 0 ? "done" : lines.join("\n");
}

function table(rows: unknown[], { wide = false }: PrintOptions): string {
  if (rows.length === 0) return "  (none)";
  if (!rows.every(isRecord)) return rows.map((row) => `  ${cell(row)}`).join("\n");
  // A command that is cut does not run.
  if (!wide && rows.some(({ next }) => typeof next === "string"))
    return rows.map((row) => formatResult(row)).join("\n\n");
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const said = names.filter((name) => rows.some((row) => (row[name] ?? null) !== null));
  const columns = wide || said.length === 0 ? names : said;
  const shown = (row: Record<string, unknown>, name: string) => {
    const value = fieldText(row, name);
    return wide ? value : shortened(value);
  };
  const text = [columns, ...rows.map((row) => columns.map((name) => shown(row, name)))];
  const natural = columns.map((_, index) =>
    Math.max(...text.map((line) => line[index]?.length ?? 0)),
  );
  const isNumber = (name: string) =>
    rows.some((row) => isAmount(name, row[name]) || isPrice(name, row[name]));
  const widths = wide ? natural : fitted(natural, columns.map(isNumber));
  const lines = text.map((line) =>
    `  ${widths.map((width, index) => truncate(line[index] ?? "", width).padEnd(width)).join("  ")}`.trimEnd(),
  );
  const left = columns.slice(widths.length);
  return [...lines, ...(left.length > 0 ? [`  --wide: ${left.join(", ")}`] : [])].join("\n");
}

/** The widths of as many columns as fit. The widest give way first, but no digit is cut. */
function fitted(natural: readonly number[], isNumber: readonly boolean[]): number[] {
  const widths = natural.map((width) => Math.min(width, MAX_CELL_WIDTH));
  const total = () => widths.reduce((sum, width) => sum + width + 2, 0);
  while (total() > MAX_TABLE_WIDTH) {
    const widest = Math.max(...widths.filter((_, index) => isNumber[index] !== true));
    const at = widths.findIndex((width, index) => width === widest && isNumber[index] !== true);
    if (widest > MIN_CELL_WIDTH) widths[at] = widest - 1;
    else widths.pop();
  }
  return widths;
}

/** Amounts and prices are decimal, with the unit that the rest of the record implies. */
function fieldText(record: Record<string, unknown>, name: string): string {
  const value = record[name];
  if (isAmount(name, value)) return amountText(name, value, record);
  if (isPrice(name, value)) return priceText(value);
  // A Greek letter may look like a Latin one.
  if (name === "email" && typeof value === "string") return visible(value, /\P{ASCII}/gu);
  if (isRecord(value) && isAmount("amount", value["amount"])) return fieldText(value, "amount");
  return cell(value);
}

const UUID = /^([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}([0-9a-f]{4})$/;
/** An address or a hash. */
const BYTES = /^(0x[0-9a-fA-F]{6})[0-9a-fA-F]{30,}([0-9a-fA-F]{4})$/;
const INSTANT = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})\.\d{3}Z$/;

/** An id, an address or a hash by its ends, and an instant to the second. */
function shortened(text: string): string {
  return text.replace(UUID, "$1…$2").replace(BYTES, "$1…$2").replace(INSTANT, "$1 $2");
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(cell).join(", ");
  if (isRecord(value))
    return Object.keys(value)
      .map((name) => `${name} ${fieldText(value, name)}`)
      .join(", ");
  return typeof value === "string" ? visible(value) : JSON.stringify(value);
}

const HIDDEN_BUT_BREAKS = new RegExp(`(?![\\n\\t])${HIDDEN.source}`, "gu");

/** Invisible characters of users' text could hide or reorder what is on the screen. */
export function visible(text: string, hidden = HIDDEN_BUT_BREAKS): string {
  return text.replace(hidden, (letter) => `\\u{${letter.codePointAt(0)?.toString(16) ?? ""}}`);
}

function truncate(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
