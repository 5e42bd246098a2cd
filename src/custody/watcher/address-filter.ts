/**
 * Says which receivers cannot be deposit addresses, so that D1 is not asked about every transfer of
 * a busy token. A Bloom filter: it never denies a deposit address, and it lets 0.2 % of the others
 * through at a million addresses.
 */
import { all, sql } from "../../platform/sql.ts";

/** 2 MiB, whatever the number of addresses. */
const SLOTS = 2 ** 24;
/** An address is a hash, so its own digits are the slots: four times 24 bits. */
const DIGITS_PER_SLOT = 6;
const SLOTS_PER_ADDRESS = 4;
const ROWS_PER_PAGE = 5_000;

type Row = { readonly row: number; readonly chain: string; readonly address: string };

export class AddressFilter {
  readonly #bits = new Uint8Array(SLOTS / 8);
  #lastRow = 0;

  /**
   * Adds the addresses that are new since the last call. Call it after the logs were read: a user
   * learns an address only once it is stored, so no transfer to a new one can be missed.
   */
  async refresh(db: D1Database, chain: string): Promise<void> {
    for (;;) {
      // NOT INDEXED: by row number, so that a call reads only rows that are new.
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

  /** `address` in lower case without `0x`. False: it is certainly no deposit address. */
  mayContain(address: string): boolean {
    return slotsOf(address).every((slot) => (this.#byte(slot) & bit(slot)) !== 0);
  }

  #byte(slot: number): number {
    return this.#bits[slot >> 3] ?? 0;
  }

  /** After a restore, when rows may have gone and their numbers are given out again. */
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
