/** Writes sealed objects by the service's own writer, with their rows, and reads pages of them. */
import { setTimeout as sleep } from "node:timers/promises";
import { GENESIS, type SealId } from "../src/archive/footer.ts";
import type { SealedQuote, SealedTransfer } from "../src/archive/sealed-columns.ts";
import { encodeSeal, ownersIn } from "../src/archive/seal-format.ts";
import { keyOf } from "../src/archive/seal-store.ts";
import { run } from "./load.ts";
import { type Person, signed } from "./people.ts";
import type { BenchStack } from "./stack.ts";

const FOLLOWED_MS = 1_800_000;

type Content = {
  readonly transfers: readonly SealedTransfer[];
  readonly quotes: readonly SealedQuote[];
};

/** A chain of released seals. */
export class SealWriter {
  readonly #stack: BenchStack;
  readonly #links = new Map<string, SealId>();
  #sha256 = GENESIS;
  #number = 0;
  #upTo = 0;
  bytes = 0;

  constructor(stack: BenchStack) {
    this.#stack = stack;
  }

  async add({ transfers, quotes }: Content): Promise<void> {
    const after = this.#upTo;
    const upTo = transfers.at(-1)?.transfer_id ?? after;
    const id = { epoch: 1, number: ++this.#number };
    const ranges = { after, upTo, afterGroup: after, upToGroup: upTo };
    const seal = { ...id, ...ranges, transfers, quotes, requests: [], matches: [] };
    const { bytes, sha256 } = encodeSeal({ ...seal, previous: this.#sha256 }, this.#links);
    await this.#stack.archive.put(keyOf(id), bytes);
    const at = transfers.at(-1)?.at ?? 0;
    await this.#stack.db
      .prepare(
        `INSERT INTO journal_seals (number, epoch, after_transfer, up_to_transfer, after_group,
          up_to_group, transfers, requests, quotes, matches, last_at, bytes, previous, sha256,
          sealed_at, delivered_at, released_at, held)
        VALUES (?1, 1, ?2, ?3, ?2, ?3, ?4, 0, ?5, 0, ?6, ?7, unhex(?8), unhex(?9), ?6, ?6, ?6, 0)`,
      )
      .bind(
        id.number,
        after,
        upTo,
        transfers.length,
        quotes.length,
        at,
        bytes.length,
        this.#sha256,
        sha256,
      )
      .run();
    for (const owner of ownersIn(seal)) this.#links.set(owner, id);
    this.#sha256 = sha256;
    this.#upTo = upTo;
    this.bytes += bytes.length;
  }

  /** Names the last seal of each of these owners, whose blocks are in all seals. */
  async finish(owners: readonly string[]): Promise<void> {
    const { db } = this.#stack;
    await db.batch([
      // Otherwise a row begins with the newest seal.
      db.prepare("INSERT INTO owner_mends (one) VALUES (1)"),
      ...owners.map((owner) =>
        db
          .prepare(
            "INSERT INTO sealed_owners (owner, first_seal, last_seal) VALUES (unhex(?), 1, ?)",
          )
          .bind(owner, this.#number),
      ),
      db.prepare("DELETE FROM owner_mends"),
    ]);
  }
}

/** Milliseconds of one page. */
export async function timed(stack: BenchStack, person: Person, query: string): Promise<number> {
  const request = await signed(person, "GET", `/custody/get-ledger?${query}`);
  const { firstFailure, latencies } = await run({ port: stack.port, lanes: [[request]] });
  if (firstFailure !== null) throw new Error(`?${query}: ${firstFailure}`);
  return latencies[0] ?? Number.NaN;
}

/** In service a history follows each seal. One that was lost is completed by its alarm. */
export async function followAll(stack: BenchStack, reader: Person, cursor: number): Promise<void> {
  const query = `/custody/get-ledger?last_cursor=${cursor}`;
  for (const until = Date.now() + FOLLOWED_MS; Date.now() < until; await sleep(1_000)) {
    const request = await signed(reader, "GET", query);
    const { statuses } = await run({ port: stack.port, lanes: [[request]] });
    if (statuses[200] === 1) return;
  }
  throw new Error("the history does not become complete");
}
