/** Readers of the ledger, whose pages must be those of the model, wherever the entries are. */
import { oldRows } from "../../src/archive/ask-history.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { type EntryPage, type EntryRow, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { REASONS } from "../../src/ledger/codes.ts";
import { Problem } from "../../src/platform/problem.ts";
import type { Dice } from "../actors/dice.ts";
import type { JournalModel } from "./journal-model.ts";
import type { Scene } from "./scene.ts";
import { Violation } from "./violation.ts";

/** Pages that one check of a user reads. */
const MAX_PAGES = 1_000;

export class Reading {
  readonly #scene: Scene;
  readonly #model: JournalModel;
  pages = 0;
  refused = 0;

  constructor(scene: Scene, model: JournalModel) {
    this.#scene = scene;
    this.#model = model;
  }

  /**
   * Reads one page while everything goes on. Entries below a transfer that exists never change, so
   * the page has one right content.
   */
  read(name: string, dice: Dice): void {
    const { userId } = dice.pick(this.#scene.people.all);
    const { start, database } = this.#scene;
    const last = database.count("SELECT max(transfer_id) FROM transfers");
    const filter = filterOf(dice, this.#scene.time.now);
    const at = dice.chance(0.5) ? last : dice.between(1, last);
    const page = { before: BigInt(2 * at + 2), limit: dice.between(1, 60) };
    start(name, dice, async () => {
      try {
        const read = await this.#scene.calls.count("read_ledger", () =>
          this.#page(userId, filter, page),
        );
        this.#compare(userId, filter, page, read);
        this.pages++;
      } catch (error) {
        if (!(error instanceof Problem) || error.data.code !== "unavailable") throw error;
        this.refused++;
      }
    });
  }

  /** Reads everything of each user while nothing fails. */
  async checkAll(dice: Dice): Promise<void> {
    for (const { userId } of this.#scene.people.all) {
      await this.#readAll(userId, {}, dice.between(20, 200));
      const refId = dice.pick(this.#model.transfers()).ref;
      const filter = dice.chance(0.3) ? { refId } : filterOf(dice, this.#scene.time.now);
      await this.#readAll(userId, filter, dice.between(5, 50));
    }
  }

  async #readAll(userId: string, filter: LedgerFilter, limit: number): Promise<void> {
    for (let before = NEWEST, pages = 0; pages < MAX_PAGES; pages++) {
      const page = { before, limit };
      const read = await this.#page(userId, filter, page);
      this.#compare(userId, filter, page, read);
      if (read.next === null) return;
      before = read.next;
    }
    throw new Violation("pages_end", userId);
  }

  #page(
    userId: string,
    filter: LedgerFilter,
    page: { readonly before: bigint; readonly limit: number },
  ): Promise<EntryPage> {
    const { DB: db, HISTORY: history } = this.#scene.env;
    return readEntries(
      db,
      userId,
      filter,
      page,
      oldRows((name) => history.getByName(name), userId),
    );
  }

  #compare(
    userId: string,
    filter: LedgerFilter,
    { before, limit }: { readonly before: bigint; readonly limit: number },
    { rows, next }: EntryPage,
  ): void {
    const all = this.#model.entries(userId, filter, before);
    // A page with a filter may end early, at its cursor.
    const expected = all
      .filter(({ entry_id }) => BigInt(entry_id) >= (next ?? 0n))
      .slice(0, limit)
      .map(textOf);
    const read = rows.map(textOf);
    const wrong = read.findIndex((text, index) => text !== expected[index]);
    const mayContinue = all.length > limit || (Object.keys(filter).length > 0 && next !== null);
    const continues = (next !== null) === mayContinue;
    if (wrong < 0 && read.length === expected.length && continues) return;
    const about = JSON.stringify(filter, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    throw new Violation(
      "page_is_the_journal",
      `${userId} ${about} below ${before}: ${read.length} entries of ${expected.length}, then ` +
        `${next === null ? "none" : "more"}; ${read[wrong] ?? ""} instead of ${expected[wrong] ?? ""}`,
    );
  }
}

function filterOf(dice: Dice, now: number): LedgerFilter {
  switch (dice.between(0, 7)) {
    case 0:
      return { account: dice.pick(["available", "pending"] as const) };
    case 1:
      return { direction: dice.pick(["credit", "debit"] as const) };
    case 2:
      return { reasons: [dice.pick(REASONS), dice.pick(REASONS)] };
    case 3:
      return { usdc: dice.chance(0.5) };
    case 4:
      return { minAmount: BigInt(dice.between(0, 5_000_000)), maxAmount: 50_000_000n };
    case 5:
      return { from: now - dice.between(0, 900_000), to: now - dice.between(0, 300_000) };
    default:
      return {};
  }
}

function textOf(row: EntryRow): string {
  const { entry_id: id, account, asset, delta, reason, ref, balance_after: after, at } = row;
  return [id, account, asset, delta, reason, ref, after, at].join(" ");
}
