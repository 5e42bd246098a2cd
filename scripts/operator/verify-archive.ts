/**
 * Verifies the archive from its first seal to the last one, in parts that a Worker can read in one
 * call (src/archive/verify-journal.ts), and what the database states of them. So the balances of
 * all accounts are kept outside the service. What came after the last seal is compared by
 * `reconcile`. Pure.
 */
import type { SealId, SealRef } from "../../src/archive/footer.ts";
import {
  joinEnds,
  type OwnerEnds,
  type OwnerLink,
  rowDiffers,
  ownerEndsText,
  type Unread,
} from "../../src/archive/owner-ends.ts";
import {
  type AccountsPart,
  causesFirst,
  type CheckedSeal,
  type Discrepancy,
  type OwnersPart,
  type SealsPart,
} from "../../src/archive/verify-parts.ts";

export type Source = {
  /** Seals from a number on, at most so many if that is given. */
  readonly seals: (from: number, most?: number) => Promise<SealsPart>;
  readonly accounts: (after: number) => Promise<AccountsPart>;
  readonly owners: (after: string) => Promise<OwnersPart>;
};

export type JournalReport = {
  readonly ok: boolean;
  readonly verified: number;
  readonly transfers: number;
  readonly bytes: number;
  /** The last seal that was read. Compare it with the line `journal_sealed` of the logs. */
  readonly head: SealRef | null;
  /** Accounts whose balances were compared with the database's. */
  readonly accounts: number;
  /**
   * Accounts that no seal from `--from` on has moved, or none after one that could not be read.
   * Only a whole verification from the first seal knows them.
   */
  readonly unknown: number;
  /** Owners whose first and last seal were compared with the database's. */
  readonly owners: number;
  readonly discrepancies: readonly Discrepancy[];
};

/**
 * A verification from the first seal knows that every account starts at zero. A later one takes the
 * first balance of each account as given.
 */
export function verifyArchive(
  source: Source,
  { from = 1, onProgress = () => undefined }: VerifyOptions = {},
): Promise<JournalReport> {
  return new Verification(source, from, onProgress).run();
}

export type VerifyOptions = {
  readonly from?: number;
  readonly onProgress?: (where: string) => void;
};

class Verification {
  readonly #source: Source;
  readonly #from: number;
  readonly #onProgress: (where: string) => void;
  /** After the last seal that was read. */
  readonly #sealed = new Map<string, bigint>();
  /** Those that were to be read. */
  readonly #unread = new Set<number>();
  readonly #owners: OwnerChains;
  #discrepancies: readonly Discrepancy[] = [];
  readonly #sums = { verified: 0, transfers: 0, bytes: 0, accounts: 0, unknown: 0, owners: 0 };
  #head: CheckedSeal["head"] | null = null;

  constructor(source: Source, from: number, onProgress: (where: string) => void) {
    this.#source = source;
    this.#from = from;
    this.#onProgress = onProgress;
    const unread = this.#unread;
    this.#owners = new OwnerChains(
      from === 1 ? unread : { size: from, has: (number) => number < from || unread.has(number) },
    );
  }

  async run(): Promise<JournalReport> {
    await this.#readSeals();
    if (this.#from === 1 || this.#head !== null) {
      await this.#compareOwners();
      await this.#compareAccounts();
    }
    const discrepancies = this.#discrepancies;
    const head = this.#head && {
      epoch: this.#head.epoch,
      number: this.#head.number,
      sha256: this.#head.sha256,
    };
    return { ok: discrepancies.length === 0, ...this.#sums, head, discrepancies };
  }

  /** Up to a seal, or to the newest one. */
  async #readSeals(to = Infinity): Promise<void> {
    for (let more = true; more;) {
      const next = (this.#head?.number ?? this.#from - 1) + 1;
      if (next > to) return;
      const most = to === Infinity ? undefined : to - next + 1;
      const part = await this.#source.seals(next, most);
      for (const seal of part.seals) this.#followSeal(seal);
      this.#add(...part.missing);
      this.#onProgress(`at seal ${this.#number}`);
      ({ more } = part);
    }
  }

  #followSeal({ head, content, discrepancies }: CheckedSeal): void {
    this.#head = head;
    this.#sums.transfers += head.transfers;
    this.#sums.bytes += head.bytes;
    const found = [...discrepancies];
    const wrong = (kind: Discrepancy["kind"], detail: string) =>
      found.push({ seal: head.number, kind, detail });
    for (const link of content?.owners ?? []) {
      const detail = this.#owners.take(link);
      if (detail !== undefined) wrong("history", detail);
    }
    for (const { account, before, after } of content?.moved ?? []) {
      const expected = this.#expected(account);
      if (expected !== undefined && expected !== BigInt(before))
        wrong("balance", `${account} begins with ${before}; expected ${expected}`);
      this.#sealed.set(account, BigInt(after));
    }
    if (content === null) {
      // What it has moved is unknown, so balances start again after it.
      this.#unread.add(head.number);
      this.#sealed.clear();
      const detail = `balances restart after seal ${head.number}, which could not be read`;
      wrong("balance", detail);
    }
    if (found.length === 0) this.#sums.verified++;
    this.#add(...found);
  }

  /** Each page is compared with what the seals up to its instant say. */
  async #compareOwners(): Promise<void> {
    let since: number | undefined;
    for (let after: string | undefined = ""; after !== undefined;) {
      const page: OwnersPart = await this.#source.owners(after);
      await this.#readSeals(page.seal);
      since ??= page.seal;
      for (const { owner, ends } of page.owners)
        this.#addHistory(this.#owners.compare(owner, ends));
      this.#sums.owners += page.owners.length;
      after = page.owners.at(-1)?.owner;
      if (after !== undefined) this.#onProgress(`at owner ${after}`);
    }
    for (const wrong of this.#owners.withoutRow(since ?? 0)) this.#addHistory(wrong);
  }

  #addHistory(detail: string | undefined): void {
    if (detail !== undefined) this.#add({ seal: this.#number, kind: "history", detail });
  }

  /** Each page is compared with what the seals up to its instant say. */
  async #compareAccounts(): Promise<void> {
    const seen = new Set<string>();
    for (let after: number | undefined = 0; after !== undefined;) {
      const page: AccountsPart = await this.#source.accounts(after);
      await this.#readSeals(page.seal);
      for (const { account, sealed } of page.accounts) {
        seen.add(account);
        this.#compare(account, sealed);
      }
      after = page.accounts.at(-1)?.id;
      if (after !== undefined) this.#onProgress(`at account ${after}`);
    }
    for (const account of this.#sealed.keys())
      if (!seen.has(account)) this.#differs(`the database has no ${account}`);
  }

  #compare(account: string, recorded: string): void {
    const expected = this.#expected(account);
    if (expected === undefined) this.#sums.unknown++;
    else this.#sums.accounts++;
    if (expected !== undefined && expected !== BigInt(recorded))
      this.#differs(`${account} is recorded as ${recorded}; the seals leave ${expected}`);
  }

  /** Undefined: only a whole verification that read every seal knows it. */
  #expected(account: string): bigint | undefined {
    const isWhole = this.#from === 1 && this.#unread.size === 0;
    return this.#sealed.get(account) ?? (isWhole ? 0n : undefined);
  }

  get #number(): number {
    return this.#head?.number ?? this.#from - 1;
  }

  #differs(detail: string): void {
    this.#add({ seal: this.#number, kind: "balance", detail });
  }

  #add(...found: readonly Discrepancy[]): void {
    this.#discrepancies = causesFirst([...this.#discrepancies, ...found]);
  }
}

/** Follows each owner's chain of blocks. */
class OwnerChains {
  readonly #unread: Unread;
  readonly #read = new Map<string, OwnerEnds>();
  readonly #compared = new Set<string>();

  constructor(unread: Unread) {
    this.#unread = unread;
  }

  /** Returns what is wrong with the link to the blocks before. */
  take({ owner, previous, ends }: OwnerLink): string | undefined {
    const known = this.#read.get(owner);
    this.#read.set(owner, joinEnds(known, ends));
    const expected = known?.last ?? null;
    if (this.#follows(previous, expected)) return undefined;
    return `the block of ${owner} names ${nameOf(previous)} as the one before; expected ${nameOf(expected)}`;
  }

  /** The block before may be in a seal that was not read. */
  #follows(stated: SealId | null, last: SealId | null): boolean {
    if (stated !== null && this.#unread.has(stated.number))
      return stated.number > (last?.number ?? 0);
    return stated?.number === last?.number && stated?.epoch === last?.epoch;
  }

  /** Returns what is wrong with the row of an owner. */
  compare(owner: string, row: OwnerEnds): string | undefined {
    this.#compared.add(owner);
    const known = this.#read.get(owner);
    return rowDiffers(row, known, this.#unread) ? detailOf(owner, row, known) : undefined;
  }

  /** Owners that no row was compared for, although the seals up to this one have blocks of them. */
  withoutRow(upTo: number): string[] {
    return [...this.#read]
      .filter(([owner, { first }]) => first <= upTo && !this.#compared.has(owner))
      .map(([owner, ends]) => detailOf(owner, undefined, ends));
  }
}

function detailOf(owner: string, row: OwnerEnds | undefined, known: OwnerEnds | undefined): string {
  return `sealed_owners states of ${owner} ${ownerEndsText(row)}; the seals have ${ownerEndsText(known)}`;
}

function nameOf(id: SealId | null): string {
  return id === null ? "none" : `seal ${id.number}`;
}
