/** Counts responses by operation, and keeps what was found. */
import type { Kind } from "./cases.ts";

/** Findings of one kind are often many. */
const MAX_FINDINGS = 40;

type Counts = Record<Kind, number> & { succeeded: number; codes: Map<string, number> };

export class Tally {
  readonly findings: string[] = [];
  readonly #notes = new Set<string>();
  readonly #counts = new Map<string, Counts>();

  find(text: string): void {
    if (this.findings.length < MAX_FINDINGS) this.findings.push(text);
  }

  /** Something of the soak's own that went wrong, and that does not concern the service. */
  note(text: string): void {
    this.#notes.add(text);
  }

  count(name: string, kind: Kind, { ok, code }: { ok: boolean; code: string }): void {
    const counts = this.#counts.get(name) ?? {
      valid: 0,
      near: 0,
      invalid: 0,
      succeeded: 0,
      codes: new Map<string, number>(),
    };
    this.#counts.set(name, counts);
    counts[kind]++;
    if (ok) counts.succeeded++;
    else counts.codes.set(code, (counts.codes.get(code) ?? 0) + 1);
  }

  succeeded(name: string): boolean {
    return (this.#counts.get(name)?.succeeded ?? 0) > 0;
  }

  report(): string {
    const lines = [...this.#counts].toSorted(([one], [other]) => one.localeCompare(other));
    const cases = lines.reduce(
      (sum, [, { valid, near, invalid }]) => sum + valid + near + invalid,
      0,
    );
    return [
      "operation: valid/near/invalid cases, successes, most frequent rejections",
      ...lines.map(([name, { valid, near, invalid, succeeded, codes }]) => {
        const most = [...codes].toSorted((a, b) => b[1] - a[1]).slice(0, 6);
        const rejections = most.map(([code, n]) => `${code} ${n}`).join(", ");
        return `  ${name}: ${valid}/${near}/${invalid}, ${succeeded} succeeded; ${rejections}`;
      }),
      ...[...this.#notes].map((note) => `  note: ${note}`),
      `${cases} cases, ${this.findings.length} findings`,
    ].join("\n");
  }
}
