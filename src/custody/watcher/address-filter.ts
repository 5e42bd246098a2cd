/**
 * A Bloom filter of deposit addresses. It excludes receivers in memory, so that D1 does not look up
 * every transfer of a busy token. It never excludes a deposit address. With a million addresses it
 * lets 0.2 % of the others through.
 */
import { all, sql } from "../../platform/sql.ts";

/** Bits of the filter: 2 MiB, independent of the number of addresses. */
const SLOTS = 2 ** 24;
/** Four slots of 24 bits are taken from the address itself, because an address is a hash. */
const DIGITS_PER_SLOT = 6;
const SLOTS_PER_ADDRESS = 4;
const ROWS_PER_PAGE = 5_000;

type Row = { readonly row: number; readonly chain: string; readonly address: string };

export class AddressFilter {
  readonly #bits = new Uint8Array(SLOTS / 8);
  #lastRow = 0;

  /**
   * Adds the addresses that are new since the last call. It must be called after the logs were
   * read. A user receives an address only after it is stored, so then no transfer to it can be
   * missed.
   */
  async refresh(db: D1Database, chain: string): Promise<void> {
    for (;;) {
      // NOT INDEXED makes SQLite seek by rowid, so that only new rows are read.
      const rows = await all<Row>(
        db,
        sql`SELECT rowid AS row, chain, lower(hex(address)) AS address
          FROM deposit_addresses NOT INDEXED WHERE rowid > ${this.#lastRow}
          ORDER BY rowid LIMIT ${ROWS_PER_PAGE}`,
      );
      for (const row of rows) {
        if (row.chain === chain)
          for (const slot of slotsOf(row.address))
            this.#bits[slot >> 3] = this.#byte(slot) | bit(slot);
        this.#lastRow = row.row;
      }
      if (rows.length < ROWS_PER_PAGE) return;
    }
  }

  /** False if `address` is not a deposit address. It must be lower case without `0x`. */
  mayContain(address: string): boolean {
    return slotsOf(address).every((slot) => (this.#byte(slot) & bit(slot)) !== 0);
  }

  #byte(slot: number): number {
    return this.#bits[slot >> 3] ?? 0;
  }

  /** Empties the filter. Needed after a restore, which may have reused row numbers. */
  clear(): void {
    this.#bits.fill(0);
    this.#lastRow = 0;
  }
}

const bit = (slot: number): number => 1 << (slot & 7);

function slotsOf(address: string): number[] {
  return Array.from({ length: SLOTS_PER_ADDRESS }, (_, index) =>
    Number.parseInt(address.slice(index * DIGITS_PER_SLOT, (index + 1) * DIGITS_PER_SLOT), 16),
  );
}
