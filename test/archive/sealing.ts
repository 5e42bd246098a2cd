/** A journal in a database of its own, its archive, and sealers that tests run round by round. */
import { applyD1Migrations, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Histories, oldRows, type OwnRecords } from "../../src/archive/ask-history.ts";
import { type FollowLimits, OwnHistory } from "../../src/archive/own-history.ts";
import type { SealId } from "../../src/archive/footer.ts";
import type { History } from "../../src/archive/history-object.ts";
import { OwnerMemory } from "../../src/archive/owner-memory.ts";
import type { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { ownersIn, type Seal } from "../../src/archive/seal-format.ts";
import { readOwnerRows } from "../../src/archive/seal-row.ts";
import { type Round, type RoundContext, sealRound } from "../../src/archive/seal-round.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import { FIRST_MEMORY, type SealerMemory } from "../../src/archive/sealer-memory.ts";
import { scanRecent } from "../../src/reconcile/reconcile.ts";
import { all, raw, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { newAsset } from "../support/ledger.ts";
import { command, commitCommand, matchOf } from "../support/market.ts";
import { newUser } from "../support/users.ts";
import { settings } from "../support/http.ts";

export type Overrides = Partial<Pick<RoundContext, "bucket" | "failpoint" | "db" | "remember">> & {
  readonly limit?: number;
  readonly everyMs?: number;
  readonly hotMs?: number;
};

/** The tests of a database share its archive, beside the one of the database of other tests. */
function bucketOf(name: string): SealBucket {
  return new Proxy(env.ARCHIVE, {
    get:
      (target, method: "get" | "put" | "head") =>
      (key: string, ...rest: unknown[]) =>
        Reflect.apply(Reflect.get(target, method), target, [`${name}/${key}`, ...rest]),
  });
}

/** An archive of which some calls do something else. Safe cast: nothing calls other methods. */
export function bucketWith(
  { get, put, head }: SealBucket,
  changes: { readonly get?: unknown; readonly put?: unknown },
): SealBucket {
  return { get, put, head, ...changes } as SealBucket;
}

/** A sealer with a memory of its own. Its rounds see everything that was committed before. */
export class Sealing {
  memory: SealerMemory = FIRST_MEMORY;
  readonly #object = env.SEALER.getByName(uuidv7());
  readonly journal: SealedJournal;
  readonly bucket: SealBucket;

  constructor(journal: SealedJournal) {
    this.journal = journal;
    this.bucket = journal.bucket;
  }

  async round(overrides: Overrides = {}): Promise<Round> {
    return this.withOwners((owners) => this.#round(owners, overrides));
  }

  withOwners<Result>(use: (owners: OwnerMemory) => Promise<Result>): Promise<Result> {
    return runInDurableObject(this.#object, (_sealer: Sealer, { storage }) =>
      use(new OwnerMemory(storage.sql)),
    );
  }

  #round(owners: OwnerMemory, overrides: Overrides): Promise<Round> {
    const { limit = 10_000, everyMs = 0, hotMs = 0, ...rest } = overrides;
    return sealRound({
      owners,
      db: this.journal.db,
      bucket: this.bucket,
      macKeys: settings(),
      scan: (chunks) => scanRecent(this.journal.db, { macKeys: settings() }, chunks),
      memory: this.memory,
      remember: async (memory) => {
        this.memory = memory;
      },
      options: { hotMs, limit, everyMs },
      ...rest,
    });
  }

  /** The links of a seal that is not stored yet. */
  async links(seal: Seal): Promise<Map<string, SealId>> {
    const listed = sql`SELECT unhex(value) FROM json_each(${JSON.stringify([...ownersIn(seal)])})`;
    const { owners } = await readOwnerRows(this.journal.db, sql`o.owner IN (${listed})`);
    return new Map(owners.map(({ owner, ends }) => [owner, ends.last]));
  }

  /** Seals everything that was committed before. */
  async sealAll(overrides: Overrides = {}): Promise<Round[]> {
    await this.journal.scanned();
    const rounds: Round[] = [];
    for (;;) {
      const round = await this.round(overrides);
      rounds.push(round);
      if (round.status !== "sealed") return rounds;
    }
  }
}

export class SealedJournal {
  readonly db: D1Database;
  readonly bucket: SealBucket;

  constructor(db: D1Database, name: string) {
    this.db = db;
    this.bucket = bucketOf(name);
  }

  /** The histories of this database, in objects of their own. */
  histories(
    bucket: Pick<SealBucket, "get"> = this.bucket,
    limits?: Partial<FollowLimits>,
  ): Histories {
    const { db } = this;
    return (name) => ({
      query: (owner, newest, statements) =>
        runInDurableObject(env.HISTORY.getByName(name), (_history: History, { storage }) =>
          new OwnHistory(storage, { db, bucket }, limits).query(owner, newest, statements),
        ),
    });
  }

  records(userId: string, ...history: Parameters<SealedJournal["histories"]>): OwnRecords {
    return { db: this.db, old: oldRows(this.histories(...history), userId) };
  }

  async open(): Promise<void> {
    await applyD1Migrations(this.db, env.TEST_MIGRATIONS);
  }

  /**
   * Has the reconciliation scan everything, and lets an instant pass, so that all of it is cold.
   */
  async scanned(): Promise<void> {
    await scanRecent(this.db, { macKeys: settings() });
    await scheduler.wait(5);
  }

  async count(from: string): Promise<number> {
    const [row] = await all<{ n: number }>(this.db, sql`SELECT count(*) AS n FROM ${raw(from)}`);
    return row?.n ?? 0;
  }

  /**
   * Trades on a book of its own: a match, and quotes that were rejected, cancelled and are open.
   */
  async trade() {
    const { db } = this;
    const { key: book } = newAsset("venue_two");
    const requester = await newUser({ usdc: 10_000n }, db);
    const maker = await newUser({ [book]: 10_000n }, db);
    const request = command.openRequest(requester, book, { amount: 1_000n });
    const later = command.openRequest(requester, book, { amount: 500n });
    await commitCommand(book, request, db);
    await commitCommand(book, later, db);
    const quoted = async (requestId: string, price: number) => {
      const quote = command.placeQuote(maker, requestId, price, 300);
      await commitCommand(book, quote, db);
      return quote.quoteId;
    };
    const accepted = await quoted(request.requestId, 700_000);
    const rejected = await quoted(request.requestId, 800_000);
    const cancelled = await quoted(later.requestId, 810_000);
    const open = await quoted(later.requestId, 820_000);
    await commitCommand(book, command.cancelQuote(maker, cancelled), db);
    const match = matchOf(await commitCommand(book, command.accept(requester, accepted), db));
    return {
      book,
      requester,
      maker,
      requestId: request.requestId,
      openRequestId: later.requestId,
      matchId: match.match_id,
      quotes: { accepted, rejected, cancelled, open },
    };
  }
}
