/**
 * The SQL of a quote when its maker has 1 000 open quotes, compared with 30. Both books have as
 * many open quotes in all, and 30 on each request, so that only the maker's own number differs. A
 * book's commit groups run in SQLite in this process, each in a transaction that is rolled back, so
 * that these numbers stay.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { migrationFiles, readMigration } from "../scripts/migrations/files.ts";
import { config, type Config } from "../src/platform/config.ts";
import { now } from "../src/platform/time.ts";
import { uuidv7 } from "../src/platform/uuid.ts";
import { commitOperations } from "../src/rfq/book-group.ts";
import { openRequest } from "../src/rfq/open-request.ts";
import type { Operation } from "../src/rfq/book-operation.ts";
import { placeQuote } from "../src/rfq/place-quote.ts";
import { type Bench, median } from "./figures.ts";
import { fund, newToken } from "./people.ts";
import { benchSettings, type Database } from "./stack.ts";
import { openRequestTerms, placeQuoteTerms } from "../test/support/terms.ts";

/** Quotes of a group, each of another maker. */
const GROUP = 64;
const FEW = 30;
const MANY = 1_000;
const OPEN = GROUP * MANY;
const REQUESTS = Math.ceil(OPEN / FEW);
const AMOUNT = 1_000;
const LIFE_SECS = 3_600;

export const benchOpenQuotes: Bench = async ({ quick, say }) => {
  const rounds = quick ? 30 : 200;
  const settings = config(benchSettings());
  const folder = mkdtempSync(join(tmpdir(), "bench-open-"));
  const books: Book[] = [];
  try {
    for (const open of [FEW, MANY])
      books.push(await Book.open(join(folder, `${open}.sqlite`), settings, Math.ceil(OPEN / open)));
    const times = books.map((): number[] => []);
    for (let round = 0; round < rounds; round++)
      for (const [index, book] of books.entries()) times[index]?.push(await book.measure());
    const [few, many] = times.map((list) => median(list) / GROUP);
    say(`  ${rounds} groups of ${GROUP} quotes, beside ${OPEN} open ones on ${REQUESTS} requests`);
    return [
      {
        what: `SQL of a quote at ${MANY} open quotes of its maker`,
        unit: "µs",
        ours: many ?? Number.NaN,
        peer: { name: `at ${FEW}`, value: few ?? Number.NaN },
        target: { atMost: 1.1 },
      },
    ];
  } finally {
    for (const book of books) book.close();
    rmSync(folder, { recursive: true });
  }
};

/** One book with its database. */
class Book {
  readonly #sqlite: DatabaseSync;
  readonly #settings: Config;
  readonly #asset = newToken().asset;
  readonly #makers: readonly { readonly userId: string; readonly key: string }[];
  readonly #requests = Array.from({ length: REQUESTS }, () => uuidv7());
  #placed = 0;
  #keeps = true;
  #micros = 0;

  static async open(file: string, settings: Config, makers: number): Promise<Book> {
    const book = new Book(file, settings, makers);
    await book.#fill();
    return book;
  }

  private constructor(file: string, settings: Config, makers: number) {
    this.#makers = Array.from({ length: makers }, () => ({ userId: uuidv7(), key: uuidv7() }));
    this.#sqlite = new DatabaseSync(file);
    this.#settings = settings;
    this.#sqlite.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    for (const name of migrationFiles()) this.#sqlite.exec(readMigration(name));
  }

  close(): void {
    this.#sqlite.close();
  }

  /** Microseconds of processor time that SQLite takes for a group of quotes. */
  async measure(): Promise<number> {
    this.#keeps = false;
    this.#micros = 0;
    await this.#commit(this.#quotes());
    return this.#micros;
  }

  async #fill(): Promise<void> {
    const requester = uuidv7();
    const users = [requester, ...this.#makers.map(({ userId }) => userId)];
    const user = this.#sqlite.prepare(
      `INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
       VALUES (unhex(?, '-'), ?, 'none', 0, 0)`,
    );
    const key = this.#sqlite.prepare(
      `INSERT INTO api_keys (api_key_id, user_id, label, scopes, secret_sealed, master_key_id,
        require_idempotency, minted_by, active_from, created_at)
       VALUES (unhex(?, '-'), unhex(?, '-'), 'bench', 'read,trade', '', '', 0, 'operator', 0, 0)`,
    );
    for (const id of users) user.run(id, `${id}@bench.example`);
    for (const maker of this.#makers) key.run(maker.key, maker.userId);
    const requesterKey = uuidv7();
    key.run(requesterKey, requester);
    await fund(this.#d1 as unknown as Database, users, ["usdc", this.#asset], 10 ** 12);
    for (let from = 0; from < REQUESTS; from += GROUP)
      await this.#openRequests(requester, requesterKey, this.#requests.slice(from, from + GROUP));
    for (let open = 0; open < OPEN; open += GROUP) await this.#commit(this.#quotes());
  }

  async #openRequests(
    requester: string,
    key: string,
    requestIds: readonly string[],
  ): Promise<void> {
    await this.#commit(
      requestIds.map((requestId) =>
        openRequest(
          {
            op: "open_request",
            requestId,
            actor: actorOf({ userId: requester, key }),
            receivedAt: now(),
            ...openRequestTerms({
              asset: this.#asset,
              amount: String(AMOUNT),
              expiresInSecs: LIFE_SECS,
            }),
          },
          this.#settings,
        ),
      ),
    );
  }

  /** Of the next makers in turn, each on another request. */
  #quotes(): Operation[] {
    return Array.from({ length: GROUP }, () => {
      const n = this.#placed++;
      const maker = this.#makers[n % this.#makers.length];
      if (maker === undefined) throw new Error("no maker");
      // In each turn a maker meets other requests.
      const turn = Math.floor(n / this.#makers.length);
      return placeQuote(
        {
          op: "place_quote",
          quoteId: uuidv7(),
          ...placeQuoteTerms({
            requestId: this.#requests[(n + turn) % REQUESTS] ?? "",
            expiresInSecs: 300,
          }),
          actor: actorOf(maker),
          receivedAt: now(),
          idempotency: { key: uuidv7(), terms: "{}" },
        },
        { asset: this.#asset, amount: BigInt(AMOUNT), usdcAmount: null, side: "Bid" },
        this.#settings,
      );
    });
  }

  async #commit(operations: readonly Operation[]): Promise<void> {
    // As a book does, which knows what is due.
    const outcome = await commitOperations(this.#d1, this.#asset, operations, { due: [] });
    if (!outcome.committed) throw outcome.cause;
    const { requests, quotes } = outcome.effects;
    if (requests.size + quotes.size !== operations.length) throw new Error("a guard rejected");
  }

  /** The part of D1 that a group uses. */
  get #d1(): D1Database {
    type Bound = { readonly text: string; readonly params: SQLInputValue[] };
    const prepare = (text: string) => ({
      bind: (...params: SQLInputValue[]): Bound => ({ text, params }),
    });
    const batch = (statements: readonly Bound[]) => {
      // Prepared before the clock starts, because D1 caches statements.
      const prepared = statements.map(({ text }) => this.#prepare(text));
      const before = process.cpuUsage();
      this.#sqlite.exec("BEGIN");
      const results = prepared.map((statement, index) => ({
        results: statement.all(...(statements[index]?.params ?? [])),
      }));
      this.#sqlite.exec(this.#keeps ? "COMMIT" : "ROLLBACK");
      const { user, system } = process.cpuUsage(before);
      this.#micros += user + system;
      return Promise.resolve(results);
    };
    return { prepare, batch } as unknown as D1Database;
  }

  readonly #cache = new Map<string, ReturnType<DatabaseSync["prepare"]>>();

  #prepare(text: string): ReturnType<DatabaseSync["prepare"]> {
    const statement = this.#cache.get(text) ?? this.#sqlite.prepare(text);
    this.#cache.set(text, statement);
    return statement;
  }
}

function actorOf({ userId, key }: { readonly userId: string; readonly key: string }) {
  return {
    userId,
    scopes: ["read", "trade"],
    credential: { kind: "api_key", apiKeyId: key },
  } as const;
}
