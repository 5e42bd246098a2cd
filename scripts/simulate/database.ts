/**
 * D1 on `node:sqlite`: the same migrations and SQL, D1's shapes of results and errors, and its
 * failures: a request that never arrives, an answer that is lost after the commit, a batch that
 * commits long after its caller gave up, and a whole outage.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrationFiles } from "../migrations/files.ts";
import { migrationText } from "./hooks.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { CLEAR, fateOf, type Weather } from "./weather.ts";

type Query = { readonly text: string; readonly params: readonly SQLInputValue[] };
type Row = Readonly<Record<string, unknown>>;

/** A state of the database, and the deletions that were noted until then. */
export type Snapshot = {
  readonly folder: string;
  readonly file: string;
  readonly noted: readonly (readonly Row[])[];
};

/** Tables whose rows are deleted while the simulator still checks them, with their keys. */
const DELETED_FROM = {
  transfers: ["transfer_id"],
  requests: ["request_id"],
  quotes: ["quote_id"],
  matches: ["match_id"],
  event_runs: ["run_id"],
  standing_accepts: ["request_id"],
} as const;
const DELETED = Object.keys(DELETED_FROM).map((table) => `released_${table}`);

/**
 * Keeps what was deleted, for the simulator's own checks, and joins it with what is there as
 * `every_…`. A deletion that is rolled back is not noted.
 */
const NOTE_DELETIONS = Object.entries(DELETED_FROM)
  .map(
    ([table, keys]) => `
      CREATE TEMP TABLE released_${table} AS SELECT * FROM ${table} WHERE 0;
      CREATE TEMP TRIGGER note_${table} BEFORE DELETE ON main.${table} BEGIN
        SELECT note_deletion('${table}', OLD.${keys[0]});
        INSERT INTO released_${table} SELECT * FROM ${table}
          WHERE ${keys.map((key) => `${key} = OLD.${key}`).join(" AND ")};
      END;
      CREATE TEMP VIEW every_${table} AS
        SELECT * FROM ${table} UNION ALL SELECT * FROM released_${table};`,
  )
  .join("");

/** Statements are cached by text. The service has some hundreds. */
const MAX_STATEMENTS = 2_000;
/** D1's client gives up after this time. The request may still arrive. */
const TIMEOUT_MS = 8_000;

export class Database {
  readonly #time: VirtualTime;
  #sqlite: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  weather: Weather = CLEAR;
  /** When the batch of each commit group was sent. */
  readonly batchSentAt = new Map<number, number>();
  /** Until then no request arrives. */
  awayUntil = 0;
  /** Requests sent before then arrive when the outage ends. Later ones are refused. */
  hangsUntil = 0;
  /** Called after each commit group, with its number, at no time. */
  onGroup: (seq: number) => void = () => {};
  /** Called before each call that reads or writes cancel-after timers, at no time. */
  onTimers: () => void = () => {};
  /** Called within the transaction, before a transfer is deleted. */
  onDelete: (transferId: number) => void = () => {};

  constructor(time: VirtualTime) {
    this.#time = time;
    this.#sqlite = this.#open(":memory:");
    this.#sqlite.exec("CREATE TABLE d1_migrations (name TEXT)");
    for (const file of migrationFiles()) {
      this.#sqlite.exec(migrationText(file));
      this.#sqlite.prepare("INSERT INTO d1_migrations VALUES (?)").run(file);
    }
    this.#sqlite.exec(NOTE_DELETIONS);
  }

  #open(path: string): DatabaseSync {
    const time = this.#time;
    const sqlite = new DatabaseSync(path);
    sqlite.function("unixepoch", { varargs: true }, () => time.now / 1_000);
    sqlite.function("randomblob", (size) =>
      Uint8Array.from({ length: Number(size) }, () => time.current().dice.between(0, 255)),
    );
    sqlite.function("random", () => time.current().dice.between(0, 2 ** 52));
    sqlite.function("note_deletion", (table, id) => {
      if (table === "transfers") this.onDelete(Number(id));
      return null;
    });
    return sqlite;
  }

  /** A copy, which `restore` puts back as D1's Time Travel does. */
  snapshot(): Snapshot {
    const folder = mkdtempSync(join(tmpdir(), "simulated-"));
    const file = join(folder, "d1.sqlite");
    this.#sqlite.prepare("VACUUM INTO ?").run(file);
    const noted = DELETED.map((table) => this.rows(`SELECT * FROM ${table}`));
    return { folder, file, noted };
  }

  restore({ folder, file, noted }: Snapshot): void {
    this.#time.note("d1 restored");
    this.#statements.clear();
    this.#sqlite.close();
    this.#sqlite = this.#open(file);
    // The copy is of one run, so nothing needs to survive a crash.
    this.#sqlite.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    this.#sqlite.exec(NOTE_DELETIONS);
    DELETED.forEach((table, index) => {
      for (const row of noted[index] ?? []) {
        const names = Object.keys(row);
        const places = names.map(() => "?").join(", ");
        const values = Object.values(row).map((value) =>
          Array.isArray(value) ? Uint8Array.from(value) : value,
        );
        // Safe cast: the values were read from the table.
        this.#statement(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${places})`).run(
          ...(values as SQLInputValue[]),
        );
      }
    });
    rmSync(folder, { recursive: true, force: true });
  }

  /** The binding, as the service sees it. */
  binding(): D1Database {
    const call = <T>(queries: readonly Query[], run: () => T) => this.#call(queries, run);
    const prepared = (text: string, params: readonly SQLInputValue[] = []) => ({
      query: { text, params },
      bind: (...values: SQLInputValue[]) => prepared(text, values),
      all: () => call([{ text, params }], () => this.#result({ text, params })),
      run: () => call([{ text, params }], () => this.#result({ text, params })),
      first: () => call([{ text, params }], () => this.rows(text, ...params)[0] ?? null),
      raw: () => call([{ text, params }], () => this.#raw({ text, params })),
    });
    type Prepared = ReturnType<typeof prepared>;
    const binding = {
      prepare: (text: string) => prepared(text),
      batch: (statements: readonly Prepared[]) => {
        const queries = statements.map(({ query }) => query);
        const sentAt = this.#time.now;
        return call(queries, () => this.#transaction(queries, sentAt));
      },
    };
    return asD1(binding);
  }

  /** Reads directly, at no time, for the simulator's own checks. */
  rows(text: string, ...params: SQLInputValue[]): Row[] {
    return this.#statement(text)
      .all(...params)
      .map(d1Row);
  }

  count(text: string, ...params: SQLInputValue[]): number {
    return Number(Object.values(this.rows(text, ...params)[0] ?? {})[0] ?? 0);
  }

  #call<T>(queries: readonly Query[], run: () => T): Promise<T> {
    const time = this.#time;
    const process = time.current();
    const fate = fateOf(process.dice, this.weather, "database");
    const away = this.awayUntil > time.now;
    return new Promise((resolve, reject) => {
      let settled = false;
      const settle = (ms: number, done: () => void) =>
        time.after(ms, () => {
          if (settled || !process.alive) return;
          settled = true;
          done();
        });
      const lost = () => reject(new Error("D1_ERROR: Network connection lost."));
      if (fate.lost === "request") return settle(fate.there + fate.back, lost);
      const wait = away ? this.awayUntil - time.now : 0;
      if (away && time.now >= this.hangsUntil) return settle(process.dice.between(5, 2_000), lost);
      if (fate.there + wait > TIMEOUT_MS) settle(TIMEOUT_MS, lost);
      time.after(fate.there + wait, () => {
        if (queries.some(({ text }) => text.includes("cancel_timers"))) this.onTimers();
        const outcome = attempt(run);
        const label = queries.length === 1 ? queries[0]!.text.slice(0, 40) : `batch`;
        time.note(
          `d1 for ${process.name}: ${label} ${queries.length} ${fate.lost} ${
            "error" in outcome ? outcome.error.message : ""
          }`,
        );
        settle(fate.back, () => {
          if (fate.lost === "answer") lost();
          else if ("error" in outcome) reject(outcome.error);
          else resolve(outcome.value);
        });
      });
    });
  }

  #transaction(queries: readonly Query[], sentAt: number): D1Result[] {
    this.#sqlite.exec("BEGIN");
    try {
      const results = queries.map((query) => this.#result(query));
      this.#sqlite.exec("COMMIT");
      if (queries[0]?.text.startsWith("INSERT INTO commit_groups") === true) {
        const seq = this.count("SELECT max(seq) FROM commit_groups");
        this.batchSentAt.set(seq, sentAt);
        this.onGroup(seq);
      }
      return results;
    } catch (error) {
      this.#sqlite.exec("ROLLBACK");
      throw error;
    }
  }

  #result({ text, params }: Query): D1Result {
    const results = this.rows(text, ...params);
    return asResult({ success: true, results, meta: { size_after: 1_000_000 } });
  }

  #raw({ text, params }: Query): unknown[][] {
    const statement = this.#statement(text, true);
    // Safe cast: `setReturnArrays` makes each row an array.
    const rows = statement.all(...params) as unknown as unknown[][];
    return rows.map((row) => row.map(d1Value));
  }

  #statement(text: string, arrays = false): StatementSync {
    const key = arrays ? `arrays ${text}` : text;
    let statement = this.#statements.get(key);
    if (statement === undefined) {
      if (this.#statements.size > MAX_STATEMENTS) this.#statements.clear();
      statement = this.#sqlite.prepare(text);
      statement.setReturnArrays(arrays);
      this.#statements.set(key, statement);
    }
    return statement;
  }
}

type Outcome<T> = { readonly value: T } | { readonly error: Error };

function attempt<T>(run: () => T): Outcome<T> {
  try {
    return { value: run() };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const code: unknown = Reflect.get(error, "errcode");
    // 19 is SQLITE_CONSTRAINT, in the low byte of an extended code.
    const name =
      typeof code === "number" && (code & 0xff) === 19 ? "SQLITE_CONSTRAINT" : "SQLITE_ERROR";
    return { error: new Error(`D1_ERROR: ${error.message}: ${name}`) };
  }
}

/** D1 returns a BLOB as the array of its bytes. */
function d1Value(value: unknown): unknown {
  return value instanceof Uint8Array ? [...value] : value;
}

function d1Row(row: Record<string, unknown>): Row {
  for (const name in row) if (row[name] instanceof Uint8Array) row[name] = d1Value(row[name]);
  return row;
}

/** Safe cast: the service uses only `prepare` and `batch`, and of a statement what is above. */
function asD1(binding: object): D1Database {
  return binding as D1Database;
}

/** Safe cast: the service reads `results` and `meta.size_after` only. */
function asResult(result: object): D1Result {
  return result as D1Result;
}
