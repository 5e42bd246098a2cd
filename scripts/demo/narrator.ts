/**
 * Prints the steps, calls, events and waits of the demo, on a terminal with colours and a spinner.
 */
import { decimal } from "../operator/amounts.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { NoAnswer, Problem } from "../../packages/client/src/index.ts";
import { SetupError } from "../stack/setup-error.ts";

export type StepResult = { number: number; title: string; ms: number; facts: string[] };

/** A step failed. The cause says why. */
class StepFailed extends Error {
  constructor(number: number, title: string, cause: unknown) {
    super(`Step ${number} failed: ${title}`, { cause });
    this.name = "StepFailed";
  }
}

export class Unmet extends Error {
  constructor(expectation: string, found: unknown) {
    super(
      `Expected ${expectation}, but found ${JSON.stringify(found, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value))}`,
    );
    this.name = "Unmet";
  }
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const POLL_MS = 200;
/** How often a long wait prints its progress without a spinner. */
const PLAIN_INTERVAL_MS = 5_000;

export class Narrator {
  readonly #out = process.stdout;
  readonly #pretty = process.stdout.isTTY && process.env["NO_COLOR"] === undefined;
  readonly results: StepResult[] = [];
  #facts: string[] = [];

  line(text = ""): void {
    this.#out.write(`${text}\n`);
  }

  async step<T>(number: number, title: string, run: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    this.#facts = [];
    this.line();
    this.line(this.#bold(`${number}. ${title}`));
    try {
      const result = await run();
      const ms = performance.now() - startedAt;
      this.results.push({ number, title, ms, facts: this.#facts });
      this.line(this.#green(`   ok, ${duration(ms)}`));
      return result;
    } catch (error) {
      throw new StepFailed(number, title, error);
    }
  }

  /** Prints a call, then its result and how long it took. */
  async call<T>(sent: string, run: () => Promise<T>, came: (result: T) => string): Promise<T> {
    this.line(`   → ${sent}`);
    const startedAt = performance.now();
    const result = await run();
    this.line(`   ← ${came(result)} ${this.#dim(`(${duration(performance.now() - startedAt)})`)}`);
    return result;
  }

  note(text: string): void {
    this.line(`     ${text}`);
  }

  event(text: string): void {
    this.line(`   ⇠ ${text}`);
  }

  /** Adds a line to the table at the end. */
  fact(text: string): void {
    this.#facts.push(text);
  }

  /** Polls until the result is not null, and shows `progress`. Throws after `timeoutMs`. */
  async wait<T>(
    what: string,
    options: { timeoutMs: number; progress?: () => string },
    ask: () => Promise<T | null>,
  ): Promise<T> {
    const startedAt = performance.now();
    let frame = 0;
    let printedAt = startedAt;
    for (;;) {
      const result = await ask();
      const waited = performance.now() - startedAt;
      if (result !== null) {
        this.#clear();
        this.line(`   ✓ ${what} ${this.#dim(`(${duration(waited)})`)}`);
        return result;
      }
      const state = options.progress?.() ?? "";
      if (waited > options.timeoutMs) {
        this.#clear();
        throw new Unmet(
          `${what} within ${duration(options.timeoutMs)}`,
          state === "" ? "nothing" : state,
        );
      }
      const text = `${what} … ${state === "" ? "" : `${state}, `}${duration(waited)}`;
      if (this.#pretty) this.#out.write(`\r\x1b[2K   ${FRAMES[frame++ % FRAMES.length]} ${text}`);
      else if (performance.now() - printedAt > PLAIN_INTERVAL_MS) {
        printedAt = performance.now();
        this.line(`     ${text}`);
      }
      await sleep(POLL_MS);
    }
  }

  table(): void {
    const width = Math.max(...this.results.map(({ title }) => title.length));
    this.line();
    for (const { number, title, ms, facts } of this.results) {
      const [first = "", ...rest] = facts;
      this.line(
        `${this.#green("ok")} ${number}  ${title.padEnd(width)}  ${duration(ms).padStart(7)}  ${first}`,
      );
      for (const fact of rest) this.line(`${" ".repeat(width + 16)}${fact}`);
    }
  }

  failure(error: unknown, logFile: string): void {
    this.#clear();
    const cause = error instanceof StepFailed ? error.cause : error;
    this.line();
    this.line(this.#red(error instanceof Error ? error.message : String(error)));
    if (cause !== error) {
      const message = cause instanceof Error ? cause.message : String(cause);
      this.line(`   ${message.replaceAll("\n", "\n   ")}`);
    }
    if (cause instanceof Problem) this.line(`   Response: ${JSON.stringify(cause.body)}`);
    else if (
      cause instanceof Error &&
      ![NoAnswer, Unmet, SetupError].some((of) => cause instanceof of)
    )
      this.line(this.#dim((cause.stack ?? "").split("\n").slice(1, 5).join("\n")));
    this.line(`   The Worker's log: ${logFile}`);
  }

  #clear(): void {
    if (this.#pretty) this.#out.write("\r\x1b[2K");
  }

  readonly #bold = (text: string) => this.#styled(1, text);
  readonly #dim = (text: string) => this.#styled(2, text);
  readonly #green = (text: string) => this.#styled(32, text);
  readonly #red = (text: string) => this.#styled(31, text);

  #styled(code: number, text: string): string {
    return this.#pretty ? `\x1b[${code}m${text}\x1b[0m` : text;
  }
}

/** Throws Unmet if the two differ. */
export function expectEqual<T>(what: string, found: T, expected: T): void {
  if (found !== expected) throw new Unmet(`${what} to be ${String(expected)}`, found);
}

export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Millionths, the unit of USDC and outcome tokens: 650000n is "0.65". */
export const units = decimal;

export const short = (id: string): string =>
  id.length > 18 ? `${id.slice(0, 10)}…${id.slice(-4)}` : id;
