/**
 * Verifies the archive from its first seal to the newest transfer of the database, in parts that a
 * Worker can read in one call (verify-journal.ts). The operator's tool runs this, so that the
 * balances of all accounts are kept outside the service. Pure.
 */

/** What a part moved on one account. Balances are decimal. */
export type Moved = {
  /** Owner, kind and asset. */
  readonly account: string;
  readonly before: string;
  readonly after: string;
};

export type Discrepancy = {
  readonly seal: number;
  /**
   * `missing`, `malformed`, `changed`: the object, or the row of a seal whose event exists.
   * `chain`: the row does not continue the one before. `unsigned`: no genuine audit event states
   * this hash, so this service did not make the seal. `balance`: a balance does not follow from the
   * one before, or differs from the database's.
   */
  readonly kind: "missing" | "malformed" | "changed" | "chain" | "unsigned" | "balance";
  readonly detail: string;
};

type Head = { readonly epoch: number; readonly number: number; readonly sha256: string };

export type SealsPart = {
  /** Seals whose object, place in the chain and balances are right. */
  readonly verified: number;
  readonly transfers: number;
  readonly bytes: number;
  /** The last seal that was read, and the last transfer that it covers. */
  readonly head: (Head & { readonly upTo: number }) | null;
  /** Whether a further seal exists. */
  readonly more: boolean;
  readonly moved: readonly Moved[];
  readonly discrepancies: readonly Discrepancy[];
};

export type TransfersPart = {
  /** The last transfer that was read. */
  readonly upTo: number;
  /** Whether transfers of the range had left the database. Then it is in seals that are stored. */
  readonly left: boolean;
  readonly moved: readonly Moved[];
};

export type AccountsPart = {
  /** The newest seal and transfer when the accounts were read. */
  readonly seal: number;
  readonly transfer: number;
  readonly accounts: readonly {
    readonly id: number;
    readonly account: string;
    readonly balance: string;
    /** As recorded with the last seal. */
    readonly sealed: string;
  }[];
};

export type Source = {
  /** Seals from a number on, at most so many if that is given. */
  readonly seals: (from: number, most?: number) => Promise<SealsPart>;
  /** Transfers of the database that are in no seal. */
  readonly transfers: (after: number, upTo: number) => Promise<TransfersPart>;
  readonly accounts: (after: number) => Promise<AccountsPart>;
};

export type JournalReport = {
  readonly ok: boolean;
  readonly verified: number;
  readonly transfers: number;
  readonly bytes: number;
  /** The last seal that was read. Compare it with the line `journal_sealed` of the logs. */
  readonly head: Head | null;
  /** Accounts whose balances were compared with the database's. */
  readonly accounts: number;
  /**
   * Accounts that no seal from `--from` on has moved. Only a run from the first seal knows them.
   */
  readonly unknown: number;
  readonly discrepancies: readonly Discrepancy[];
};

const MAX_LISTED = 100;

/**
 * A run from the first seal knows that every account starts at zero. A later one takes the first
 * balance of each account as given.
 */
export function verifyWhole(
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
  /** After `#readUpTo`, of accounts that moved since that seal. */
  readonly #later = new Map<string, bigint>();
  readonly #discrepancies: Discrepancy[] = [];
  readonly #sums = { verified: 0, transfers: 0, bytes: 0, accounts: 0, unknown: 0 };
  #head: SealsPart["head"] = null;
  #readUpTo = 0;

  constructor(source: Source, from: number, onProgress: (where: string) => void) {
    this.#source = source;
    this.#from = from;
    this.#onProgress = onProgress;
  }

  async run(): Promise<JournalReport> {
    await this.#readSeals();
    if (this.#from === 1 || this.#head !== null) await this.#compareAccounts();
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
      const at = part.head?.number ?? next - 1;
      for (const { account, before, after } of part.moved) {
        const expected = this.#balance(this.#sealed, account);
        if (expected !== undefined && expected !== BigInt(before))
          this.#differs(at, `${account} begins with ${before}; expected ${expected}`);
        this.#sealed.set(account, BigInt(after));
      }
      for (const one of part.discrepancies) this.#add(one);
      this.#sums.verified += part.verified;
      this.#sums.transfers += part.transfers;
      this.#sums.bytes += part.bytes;
      this.#head = part.head ?? this.#head;
      this.#onProgress(`at seal ${at}`);
      ({ more } = part);
    }
    // What was read of the database may be older than the last seal now.
    if ((this.#head?.upTo ?? 0) >= this.#readUpTo) this.#later.clear();
  }

  /** Whether all transfers up to this one could be read. If not, they are in seals. */
  async #readTransfers(upTo: number): Promise<boolean> {
    for (;;) {
      const after = Math.max(this.#readUpTo, this.#head?.upTo ?? 0);
      if (after >= upTo) return true;
      const part = await this.#source.transfers(after, upTo);
      if (part.left) return false;
      for (const { account, before, after: left } of part.moved) {
        const expected = this.#latest(account);
        if (expected !== undefined && expected !== BigInt(before))
          this.#differs(
            this.#number,
            `${account} goes on with ${before} after the seals; expected ${expected}`,
          );
        this.#later.set(account, BigInt(left));
      }
      this.#readUpTo = part.upTo;
      this.#onProgress(`at transfer ${part.upTo}`);
    }
  }

  /** Each page is compared with what the archive and the journal say of the instant it was read. */
  async #compareAccounts(): Promise<void> {
    const seen = new Set<string>();
    for (let after = 0; ;) {
      const page = await this.#source.accounts(after);
      const last = page.accounts.at(-1);
      if (last === undefined) break;
      await this.#readSeals(page.seal);
      if (!(await this.#readTransfers(page.transfer))) {
        const known = this.#number;
        await this.#readSeals();
        if (this.#number === known) throw new Error("transfers have left that are in no seal");
        continue;
      }
      for (const one of page.accounts) {
        seen.add(one.account);
        this.#compare(one);
      }
      after = last.id;
      this.#onProgress(`at account ${after}`);
    }
    for (const account of this.#sealed.keys())
      if (!seen.has(account)) this.#differs(this.#number, `the database has no ${account}`);
  }

  #compare({ account, balance, sealed }: AccountsPart["accounts"][number]): void {
    const [atSeal, latest] = [this.#balance(this.#sealed, account), this.#latest(account)];
    if (latest === undefined) this.#sums.unknown++;
    else this.#sums.accounts++;
    const fits = (found: string, expected = BigInt(found)) => BigInt(found) === expected;
    if (fits(balance, latest) && fits(sealed, atSeal)) return;
    this.#differs(
      this.#number,
      `${account} has ${balance} and is recorded as ${sealed} after the seal; the transfers leave ` +
        `${latest ?? "an unknown balance"} and ${atSeal ?? "an unknown one"}`,
    );
  }

  #balance(of: ReadonlyMap<string, bigint>, account: string): bigint | undefined {
    return of.get(account) ?? (this.#from === 1 ? 0n : undefined);
  }

  #latest(account: string): bigint | undefined {
    return this.#later.get(account) ?? this.#balance(this.#sealed, account);
  }

  get #number(): number {
    return this.#head?.number ?? this.#from - 1;
  }

  #differs(seal: number, detail: string): void {
    this.#add({ seal, kind: "balance", detail });
  }

  #add(one: Discrepancy): void {
    if (this.#discrepancies.length < MAX_LISTED) this.#discrepancies.push(one);
  }
}
