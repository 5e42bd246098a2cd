/** Lines of CSV (RFC 4180) that a spreadsheet reads as values and never as formulas. */

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
