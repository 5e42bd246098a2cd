/** Lines of CSV (RFC 4180) that a spreadsheet reads as values and never as formulas. */

/** Begins with a byte order mark. Without one Excel does not read UTF-8. */
export function csvFile(lines: readonly string[]): Blob {
  return new Blob(["\uFEFF", ...lines], { type: "text/csv" });
}

/** Ends a record, the last one too. */
export function csvLine(cells: readonly (string | number | null)[]): string {
  return `${cells.map((cell) => quoted(inert(String(cell ?? "")))).join(",")}\r\n`;
}

/** A cell that begins like a formula gets an apostrophe. Plain numbers stay as they are. */
function inert(text: string): string {
  return /^[=+\-@\t\r]/.test(text) && !/^-\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
