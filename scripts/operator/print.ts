/** Formats a command's result as text: lists as tables, records as lines. */

/** Wider cells are truncated. `--json` prints them in full. */
const MAX_CELL_WIDTH = 66;

export function formatResult(result: unknown): string {
  if (Array.isArray(result)) return table(result);
  if (!isRecord(result)) return result === undefined || result === null ? "done" : cell(result);
  const lines: string[] = [];
  const entries = Object.entries(result);
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  for (const [name, value] of entries) {
    if (Array.isArray(value) && value.some((item) => typeof item === "object"))
      lines.push(`${name}:`, table(value));
    else if (isRecord(value)) lines.push(`${name}:`, formatResult(value).replace(/^/gm, "  "));
    else lines.push(`${name.padEnd(width)}  ${cell(value)}`);
  }
  return lines.length === 0 ? "done" : lines.join("\n");
}

function table(rows: unknown[]): string {
  if (rows.length === 0) return "  (none)";
  if (!rows.every(isRecord)) return rows.map((row) => `  ${cell(row)}`).join("\n");
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const text = [
    columns,
    ...rows.map((row) => columns.map((column) => truncate(cell(row[column])))),
  ];
  const widths = columns.map((_, index) =>
    Math.max(...text.map((line) => line[index]?.length ?? 0)),
  );
  return text
    .map((line) =>
      `  ${line.map((value, index) => value.padEnd(widths[index] ?? 0)).join("  ")}`.trimEnd(),
    )
    .join("\n");
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function truncate(text: string): string {
  return text.length <= MAX_CELL_WIDTH ? text : `${text.slice(0, MAX_CELL_WIDTH - 1)}…`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
