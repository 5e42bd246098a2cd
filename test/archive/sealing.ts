/** A journal in a database of its own, its archive, and a sealer that tests run round by round. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Round, type RoundContext, sealRound } from "../../src/archive/seal-round.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import { FIRST_MEMORY, type SealerMemory } from "../../src/archive/sealer-memory.ts";
import { reconcile } from "../../src/ledger/reconcile.ts";
import { all, raw, sql } from "../../src/platform/sql.ts";
import { newAsset } from "../support/ledger.ts";
import { command, commitCommand, matchOf } from "../support/market.ts";
import { newUser } from "../support/users.ts";

export const db = env.SEALED_DB;

export async function openDatabase(): Promise<void> {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
}

/** Trades on a book of its own: a match, and quotes that were rejected, cancelled and are open. */
export async function trade() {
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

/** The archive of that database, beside the one of the database that other tests share. */
const bucket: SealBucket = new Proxy(env.ARCHIVE, {
  get:
    (target, method: "get" | "put") =>
    (key: string, ...rest: unknown[]) =>
      Reflect.apply(Reflect.get(target, method), target, [`sealed/${key}`, ...rest]),
});

export type Overrides = Partial<Pick<RoundContext, "bucket" | "failpoint" | "db">> & {
  readonly limit?: number;
  readonly everyMs?: number;
  readonly hotMs?: number;
};

/** A sealer's memory and archive. Its rounds see everything that was committed before. */
export class Sealing {
  memory: SealerMemory = FIRST_MEMORY;
  readonly bucket: SealBucket = bucket;

  async round(overrides: Overrides = {}): Promise<Round> {
    const { limit = 10_000, everyMs = 0, hotMs = 0, ...rest } = overrides;
    return sealRound({
      db,
      bucket: this.bucket,
      memory: this.memory,
      remember: async (memory) => {
        this.memory = memory;
      },
      options: { hotMs, limit, everyMs },
      ...rest,
    });
  }

  /** Seals everything that was committed before. */
  async sealAll(overrides: Overrides = {}): Promise<Round[]> {
    await walked();
    const rounds: Round[] = [];
    for (;;) {
      const round = await this.round(overrides);
      rounds.push(round);
      if (round.status !== "sealed") return rounds;
    }
  }
}

/** Has the reconciliation walk everything, and lets an instant pass, so that all of it is cold. */
export async function walked(): Promise<void> {
  await reconcile(db, { chains: [] });
  await scheduler.wait(5);
}

export async function count(from: string): Promise<number> {
  const [row] = await all<{ n: number }>(db, sql`SELECT count(*) AS n FROM ${raw(from)}`);
  return row?.n ?? 0;
}
