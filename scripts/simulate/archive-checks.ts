/**
 * What must hold between the database and the archive at a quiet point, and whenever the database
 * deletes a transfer.
 */
import { keyOf } from "../../src/archive/seal-store.ts";
import { decodeSeal } from "../../src/archive/seal-format.ts";
import type { SealedTransfer } from "../../src/archive/sealed-columns.ts";
import type { Bucket } from "./bucket.ts";
import type { Database } from "./database.ts";
import type { JournalModel, Posted } from "./journal-model.ts";
import { Violation } from "./violation.ts";

/** Longer than a round between reading an object and deleting its transfers. */
const ROUND_MS = 60_000;
/** A seal is released seconds after its delivery. */
const RELEASED_AFTER_MS = 65_000;
/** Alerts that close once the archive is well. */
const HALTS = ["sealer_failing", "seal_mismatch", "archive_damaged", "journal_restored"];
/**
 * The ids of what the seals must contain. A match reserves the requester's side (reason 4).
 */
const ENDED = {
  requests: "SELECT request_id AS id FROM every_requests WHERE ended_group <= :group",
  quotes: "SELECT quote_id AS id FROM every_quotes WHERE ended_group <= :group",
  matches: `SELECT m.match_id AS id FROM every_matches m JOIN every_transfers t ON t.ref = m.match_id
    WHERE t.reason = 4 AND t.transfer_id <= :transfer`,
} as const;
type Table = keyof typeof ENDED;

/** A seal of the valid chain as it was written. */
type Sealed = {
  readonly sha256: string;
  readonly transfers: readonly SealedTransfer[];
  readonly ids: Readonly<Record<Table, readonly string[]>>;
};

export class ArchiveChecks {
  readonly #database: Database;
  readonly #bucket: Bucket;
  readonly #model: JournalModel;
  readonly #sealed = new Map<string, Sealed>();

  constructor(database: Database, bucket: Bucket, model: JournalModel) {
    this.#database = database;
    this.#bucket = bucket;
    this.#model = model;
  }

  /**
   * A transfer is deleted only if the archive had it when its seal was released. The release may
   * hold it, then it is deleted later.
   */
  checkDeletion(transferId: number): void {
    const [row] = this.#database.rows(
      `SELECT epoch, number, released_at FROM journal_seals WHERE up_to_transfer >= ?
        ORDER BY number LIMIT 1`,
      transferId,
    );
    const key = keyOf({ epoch: Number(row?.["epoch"]), number: Number(row?.["number"]) });
    const released = Number(row?.["released_at"] ?? Number.POSITIVE_INFINITY);
    const since = this.#bucket.damagedSince(key);
    if (!this.#bucket.keys().includes(key) || (since !== undefined && since < released - ROUND_MS))
      throw new Violation("deleted_while_archived", `transfer ${transferId} of ${key}`);
  }

  /** Everything from before `calmSince` is sealed, and what is due is released. */
  checkProgress(calmSince: number, now: number): void {
    const unsealed = this.#database.count(
      `SELECT count(*) FROM transfers WHERE at < ? AND transfer_id > coalesce((SELECT up_to_transfer
        FROM journal_seals WHERE delivered_at IS NOT NULL ORDER BY number DESC LIMIT 1), 0)`,
      calmSince,
    );
    if (unsealed > 0) throw new Violation("sealing_goes_on", `${unsealed} transfers`);
    const due = this.#database.count(
      "SELECT count(*) FROM journal_seals WHERE released_at IS NULL AND delivered_at < ?",
      now - RELEASED_AFTER_MS,
    );
    if (due > 0) throw new Violation("release_goes_on", `${due} seals are not released`);
    const halted = this.#database.rows(
      `SELECT kind, detail FROM alerts WHERE resolved_at IS NULL
        AND kind IN (SELECT value FROM json_each(?))`,
      JSON.stringify(HALTS),
    );
    if (halted.length > 0) throw new Violation("sealer_well", JSON.stringify(halted));
  }

  /** Every transfer is once in the archive or above it, with what was posted. */
  async checkContent(): Promise<void> {
    const rows = this.#database.rows(
      `SELECT number, epoch, lower(hex(sha256)) AS sha256, up_to_transfer, up_to_group
        FROM journal_seals ORDER BY number`,
    );
    const seals: Sealed[] = [];
    for (const row of rows) seals.push(await this.#read(row));
    const last = rows.at(-1);
    const upTo = Number(last?.["up_to_transfer"] ?? 0);
    const archived = seals.flatMap(({ transfers }) => transfers.map(textOf));
    const posted = this.#model.transfers();
    const expected = posted.filter(({ transfer_id: id }) => id <= upTo).map(textOf);
    const different = archived.findIndex((text, index) => text !== expected[index]);
    if (different >= 0 || archived.length !== expected.length)
      throw new Violation(
        "sealed_once",
        `${archived[different] ?? "nothing"} is sealed, ${expected[different] ?? "nothing"} was posted`,
      );
    this.#checkBalances(upTo);
    const group = Number(last?.["up_to_group"] ?? 0);
    this.#checkRecords(seals, { transfer: upTo, group });
  }

  /** Each balance is what the seals leave and what was posted since. */
  #checkBalances(upTo: number): void {
    const wrong = this.#database.rows(
      `SELECT a.account_id FROM accounts a
        LEFT JOIN sealed_balances s ON s.account_id = a.account_id
        LEFT JOIN (SELECT account_id, sum(delta) AS moved FROM (
          SELECT from_account AS account_id, -amount AS delta FROM transfers WHERE transfer_id > :id
          UNION ALL SELECT to_account, amount FROM transfers WHERE transfer_id > :id)
          GROUP BY account_id) h ON h.account_id = a.account_id
        WHERE a.balance <> coalesce(s.balance, 0) + coalesce(h.moved, 0)`.replaceAll(
        ":id",
        String(upTo),
      ),
    );
    if (wrong.length > 0) throw new Violation("balance_is_seal_and_hot", JSON.stringify(wrong));
  }

  /** Each ended record is sealed once, and deleted only then. */
  #checkRecords(
    seals: readonly Sealed[],
    { transfer, group }: { transfer: number; group: number },
  ): void {
    for (const table of ["requests", "quotes", "matches"] as const) {
      const ids = seals.flatMap((seal) => seal.ids[table]);
      const unique = new Set(ids);
      if (unique.size !== ids.length) throw new Violation("record_sealed_once", table);
      const ended = ENDED[table]
        .replace(":group", String(group))
        .replace(":transfer", String(transfer));
      const expected = this.#database.rows(`SELECT lower(hex(id)) AS id FROM (${ended})`);
      const missing = expected.find((row) => !unique.has(String(row["id"])));
      if (missing !== undefined)
        throw new Violation("record_sealed", `${table} ${String(missing["id"])}`);
    }
  }

  async #read(row: Readonly<Record<string, unknown>>): Promise<Sealed> {
    const key = keyOf({ epoch: Number(row["epoch"]), number: Number(row["number"]) });
    let sealed = this.#sealed.get(key);
    if (sealed === undefined) {
      const bytes = this.#bucket.written(key);
      if (bytes === undefined) throw new Violation("archived", `${key} is missing`);
      const sha256 = String(row["sha256"]);
      const { seal } = decodeSeal(bytes, sha256);
      const ids = {
        requests: seal.requests.map(({ request_id: id }) => id),
        quotes: seal.quotes.map(({ quote_id: id }) => id),
        matches: seal.matches.map(({ match_id: id }) => id),
      };
      sealed = { sha256, transfers: seal.transfers, ids };
      this.#sealed.set(key, sealed);
    }
    if (sealed.sha256 !== row["sha256"]) throw new Violation("archived", `${key} is another one`);
    return sealed;
  }
}

function textOf(transfer: Posted): string {
  const { transfer_id: id, asset, amount, reason, step, line, ref, at } = transfer;
  const from = [transfer.from_owner, transfer.from_kind, transfer.from_balance];
  const to = [transfer.to_owner, transfer.to_kind, transfer.to_balance];
  return [id, ...from, ...to, asset, amount, reason, step, line, ref, at].join(" ");
}
