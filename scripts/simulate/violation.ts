/** Something that must never be. It ends the run. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly property: string;
  constructor(property: string, detail: string) {
    super(`${property}: ${detail}`);
    this.property = property;
  }
}

/** By its text, because an error that crossed a call has lost its class. */
export function isProgrammingError(error: unknown): boolean {
  return /is not a function|not iterable|Cannot read properties|is not defined/.test(String(error));
}
