/** Something that must never be. It ends the run. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly property: string;
  constructor(property: string, detail: string) {
    super(`${property}: ${detail}`);
    this.property = property;
  }
}
