/**
 * The tables of one owner's history. Transfers and matches have the columns and indexes of the
 * journal's own tables, so the SQL that reads the journal reads them too. A test compares both.
 */
import { reasonNumber } from "../ledger/codes.ts";
import { readTable, writeTable } from "./column-text.ts";
import { BLOCK, type FooterBlock, PLACE, type SealId } from "./footer.ts";
import { MATCHES, type Owner, type SealedMatch, type SealedTransfer } from "./sealed-columns.ts";

/** The owner's accounts of all assets as one, for the indexes of runs. Others' have no number. */
const SUB_ACCOUNTS: Readonly<Record<string, number>> = { available: 2, pending: 3 };
/** The account of everybody else. It has no row, because no read shows it. */
const OTHERS = 0;
/** As the trigger `transfers_fill` of the journal. Other credits are found by their debit. */
const INDEXED_CREDITS: ReadonlySet<number> = new Set([
  reasonNumber("deposit"),
  reasonNumber("trade"),
]);

export const STATEMENTS = [
  // The index of blocks that was kept here before rows were.
  ...["seals", "blocks", "scans"].map((table) => `DROP TABLE IF EXISTS ${table}`),
  `CREATE TABLE IF NOT EXISTS accounts (account_id INTEGER PRIMARY KEY NOT NULL,
    owner BLOB NOT NULL, asset TEXT NOT NULL, kind TEXT NOT NULL, sub_account INTEGER) STRICT`,
  "CREATE UNIQUE INDEX IF NOT EXISTS accounts_owner ON accounts (owner, asset, kind)",
  `CREATE TABLE IF NOT EXISTS transfers (transfer_id INTEGER PRIMARY KEY NOT NULL,
    from_account INTEGER NOT NULL, to_account INTEGER NOT NULL, amount INTEGER NOT NULL,
    reason INTEGER NOT NULL, ref BLOB NOT NULL, step INTEGER NOT NULL, line INTEGER NOT NULL,
    at INTEGER NOT NULL, from_balance INTEGER, to_balance INTEGER, from_sub_account INTEGER,
    to_sub_account INTEGER) STRICT`,
  "CREATE UNIQUE INDEX IF NOT EXISTS transfers_once ON transfers (ref, step, line)",
  `CREATE INDEX IF NOT EXISTS transfers_from_sub_account ON transfers (from_sub_account, reason)
    WHERE from_sub_account IS NOT NULL`,
  `CREATE INDEX IF NOT EXISTS transfers_to_sub_account ON transfers (to_sub_account, reason)
    WHERE to_sub_account IS NOT NULL`,
  "CREATE INDEX IF NOT EXISTS transfers_from ON transfers (from_account, reason)",
  `CREATE INDEX IF NOT EXISTS transfers_to ON transfers (to_account, reason)
    WHERE reason NOT BETWEEN 3 AND 5`,
  `CREATE TABLE IF NOT EXISTS matches (match_id BLOB PRIMARY KEY NOT NULL,
    request_id BLOB NOT NULL, quote_id BLOB NOT NULL, requester_id BLOB NOT NULL,
    maker_id BLOB NOT NULL, asset TEXT NOT NULL, side TEXT NOT NULL, amount INTEGER NOT NULL,
    price INTEGER NOT NULL, usdc_amount INTEGER NOT NULL, taker_fee INTEGER NOT NULL,
    maker_fee INTEGER NOT NULL, at INTEGER NOT NULL, matched_group INTEGER NOT NULL,
    requester_label TEXT, maker_label TEXT, complement TEXT) STRICT, WITHOUT ROWID`,
  "CREATE UNIQUE INDEX IF NOT EXISTS matches_request_id_unique ON matches (request_id)",
  "CREATE UNIQUE INDEX IF NOT EXISTS matches_quote_id_unique ON matches (quote_id)",
  "CREATE INDEX IF NOT EXISTS matches_requester ON matches (requester_id, at, match_id)",
  "CREATE INDEX IF NOT EXISTS matches_maker ON matches (maker_id, at, match_id)",
  `CREATE INDEX IF NOT EXISTS matches_requester_label
    ON matches (requester_id, requester_label, at, match_id) WHERE requester_label IS NOT NULL`,
  `CREATE INDEX IF NOT EXISTS matches_maker_label
    ON matches (maker_id, maker_label, at, match_id) WHERE maker_label IS NOT NULL`,
  // The owner's deposits, because the ledger shows their transactions, which no seal names.
  `CREATE TABLE IF NOT EXISTS deposits (deposit_id BLOB PRIMARY KEY NOT NULL,
    transaction_hash BLOB NOT NULL, user_id BLOB NOT NULL) STRICT, WITHOUT ROWID`,
  "CREATE INDEX IF NOT EXISTS deposits_hash ON deposits (user_id, transaction_hash)",
  // Blocks of requests and quotes, which stay in R2. Instants are those of their openings.
  `CREATE TABLE IF NOT EXISTS exported (kind TEXT NOT NULL, last_at INTEGER NOT NULL,
    first_at INTEGER NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL,
    block TEXT NOT NULL, PRIMARY KEY (kind, last_at, first_at, number)) STRICT, WITHOUT ROWID`,
  // Seals whose rows are here, with the owner's last transfer. The chain from each one is complete.
  `CREATE TABLE IF NOT EXISTS taken (number INTEGER NOT NULL, epoch INTEGER NOT NULL,
    last_at INTEGER NOT NULL, PRIMARY KEY (number, epoch)) STRICT, WITHOUT ROWID`,
  // Seals that were found on the way down the chain, and the owner's blocks of each.
  `CREATE TABLE IF NOT EXISTS found (number INTEGER NOT NULL, epoch INTEGER NOT NULL,
    blocks TEXT NOT NULL, PRIMARY KEY (number, epoch)) STRICT, WITHOUT ROWID`,
  // The way down that the last call could not end.
  "CREATE TABLE IF NOT EXISTS ways (one INTEGER PRIMARY KEY CHECK (one = 1), way TEXT NOT NULL)",
];

/**
 * A way down the chain: from `top`, and now at `at`; null: before the first seal. `ended`: all
 * seals down to one that was taken are found, and wait to be taken.
 */
export type Way = {
  readonly owner: Owner;
  readonly top: SealId;
  readonly at: SealId | null;
  readonly ended: boolean;
};

/** A seal, and the owner's blocks in it. */
export type FoundSeal = { readonly id: SealId; readonly blocks: readonly FooterBlock[] };

/** What a seal adds to the owner's rows. */
export type TakenRows = {
  readonly transfers: readonly SealedTransfer[];
  readonly matches: readonly SealedMatch[];
  /** Transaction hashes by the ids of deposits, in hexadecimal. */
  readonly hashes: ReadonlyMap<string, string>;
};

type Value = string | number | null;

const INDEXED = { ...BLOCK, ...PLACE };
// Safe cast: the keys of the object.
const MATCH_COLUMNS = Object.keys(MATCHES.columns) as (keyof SealedMatch)[];
const INSERT_MATCH = `INSERT INTO matches (${MATCH_COLUMNS.join(", ")}) VALUES (${MATCH_COLUMNS.map(
  (name) => (MATCHES.columns[name].readAs === "hex" ? "unhex(?)" : "?"),
).join(", ")})`;
const INSERT_ACCOUNT = `INSERT OR IGNORE INTO accounts (owner, asset, kind, sub_account)
  VALUES (unhex(?), ?, ?, ?)`;
const READ_ACCOUNT = `SELECT account_id AS id FROM accounts
  WHERE owner = unhex(?) AND asset = ? AND kind = ?`;
const INSERT_DEPOSIT = "INSERT OR IGNORE INTO deposits VALUES (unhex(?), unhex(?), unhex(?))";
const INSERT_BLOCK = "INSERT INTO exported VALUES (?, ?, ?, ?, ?, ?)";
const INSERT_TRANSFER = `INSERT INTO transfers (transfer_id, from_account, to_account, amount,
    reason, ref, step, line, at, from_balance, to_balance, from_sub_account, to_sub_account)
  VALUES (?, ?, ?, ?, ?, unhex(?), ?, ?, ?, ?, ?, ?, ?)`;

export class HistoryTables {
  readonly #storage: Pick<DurableObjectStorage, "sql" | "transactionSync">;

  constructor(storage: Pick<DurableObjectStorage, "sql" | "transactionSync">) {
    this.#storage = storage;
    for (const statement of STATEMENTS) this.#run(statement);
  }

  #run<Row extends Record<string, SqlStorageValue>>(text: string, ...params: Value[]): Row[] {
    return this.#storage.sql.exec<Row>(text, ...params).toArray();
  }

  isTaken({ number, epoch }: SealId): boolean {
    return (
      this.#run("SELECT 1 FROM taken WHERE number = ? AND epoch = ?", number, epoch).length > 0
    );
  }

  /** The last seal above another one whose rows are here. */
  takenAbove(number: number): SealId | undefined {
    const later = "SELECT number, epoch FROM taken WHERE number > ? ORDER BY number DESC LIMIT 1";
    return this.#run<SealId>(later, number)[0];
  }

  way(): Way | null {
    const [row] = this.#run<{ way: string }>("SELECT way FROM ways");
    // Safe cast: only `keep` writes these texts.
    return row === undefined ? null : (JSON.parse(row.way) as Way);
  }

  keep(way: Way): Way {
    this.#run("INSERT OR REPLACE INTO ways VALUES (1, ?)", JSON.stringify(way));
    return way;
  }

  /** What a way that could not be ended has found may be of lost seals. */
  endWay(): void {
    this.#run("DELETE FROM found");
    this.#run("DELETE FROM ways");
  }

  addFound({ id: { number, epoch }, blocks }: FoundSeal): void {
    const text = writeTable(INDEXED, blocks);
    this.#run("INSERT OR IGNORE INTO found VALUES (?, ?, ?)", number, epoch, text);
  }

  /** The oldest one, because rows in their order take the least room. */
  nextFound(): FoundSeal | undefined {
    const [row] = this.#run<SealId & { blocks: string }>(
      "SELECT * FROM found ORDER BY number LIMIT 1",
    );
    if (row === undefined) return undefined;
    const { number, epoch, blocks } = row;
    return { id: { number, epoch }, blocks: readTable(INDEXED, blocks) };
  }

  /** Adds the rows of a seal once, and that it was taken in, in one transaction. */
  take(owner: Owner, { id: { number, epoch }, blocks }: FoundSeal, rows: TakenRows): void {
    this.#storage.transactionSync(() => {
      this.#run("DELETE FROM found WHERE number = ? AND epoch = ?", number, epoch);
      if (this.isTaken({ number, epoch })) return;
      const accounts = new Map<string, number>();
      for (const row of rows.transfers) this.#addTransfer(owner, row, accounts);
      for (const match of rows.matches)
        this.#run(INSERT_MATCH, ...MATCH_COLUMNS.map((name) => valueOf(match[name])));
      for (const [id, hash] of rows.hashes) this.#run(INSERT_DEPOSIT, id, hash, owner);
      for (const block of blocks)
        if (block.kind === "requests" || block.kind === "quotes") {
          const { kind, lastAt: last, firstAt: first } = block;
          const text = writeTable(INDEXED, [block]);
          this.#run(INSERT_BLOCK, kind, last, first, number, epoch, text);
        }
      const lastAt = rows.transfers.at(-1)?.at ?? 0;
      this.#run("INSERT INTO taken VALUES (?, ?, ?)", number, epoch, lastAt);
    });
  }

  #addTransfer(owner: Owner, row: SealedTransfer, accounts: Map<string, number>): void {
    const [from, to] = [
      this.#endOf(owner, row, "from", accounts),
      this.#endOf(owner, row, "to", accounts),
    ];
    const { transfer_id: id, amount, reason, ref, step, line, at } = row;
    const end = [from.balance, to.balance, from.sub, INDEXED_CREDITS.has(reason) ? to.sub : null];
    const moved = [from.account, to.account, String(amount), reason, ref, step, line, at];
    this.#run(INSERT_TRANSFER, id, ...moved, ...end);
  }

  /** One end of a transfer. */
  #endOf(owner: Owner, row: SealedTransfer, side: "from" | "to", accounts: Map<string, number>) {
    const kind = row[`${side}_kind`];
    const sub = row[`${side}_owner`] === owner ? SUB_ACCOUNTS[kind] : undefined;
    if (sub === undefined) return { account: OTHERS, balance: null, sub: null };
    const account = this.#accountOf([owner, row.asset, kind], sub, accounts);
    return { account, balance: String(row[`${side}_balance`]), sub };
  }

  #accountOf(
    [owner, asset, kind]: readonly [Owner, string, string],
    sub: number,
    known: Map<string, number>,
  ): number {
    const name = `${kind} ${asset}`;
    const found = known.get(name);
    if (found !== undefined) return found;
    this.#run(INSERT_ACCOUNT, owner, asset, kind, sub);
    const account = this.#run<{ id: number }>(READ_ACCOUNT, owner, asset, kind)[0]?.id ?? OTHERS;
    known.set(name, account);
    return account;
  }

  /** Forgets the seals above one. A seal ends between two instants, so its last one divides rows. */
  forgetAbove(number: number): void {
    if (this.takenAbove(number) === undefined) return;
    this.#storage.transactionSync(() => {
      const newest = "SELECT max(last_at) AS at FROM taken WHERE number <= ?";
      const at = this.#run<{ at: number | null }>(newest, number)[0]?.at ?? 0;
      for (const table of ["transfers", "matches"])
        this.#run(`DELETE FROM ${table} WHERE at > ?`, at);
      for (const table of ["exported", "taken"])
        this.#run(`DELETE FROM ${table} WHERE number > ?`, number);
    });
  }
}

/** A block of `exported`. */
export function readIndexed(text: string): FooterBlock {
  const [block] = readTable(INDEXED, text);
  if (block === undefined) throw new Error("the history has no block");
  return block;
}

function valueOf(value: SealedMatch[keyof SealedMatch]): Value {
  return typeof value === "bigint" ? String(value) : value;
}
