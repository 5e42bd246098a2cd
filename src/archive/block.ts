/**
 * The block of one owner in a sealed object: the transfers of the owner's accounts, and the owner's
 * records. A transfer between two owners is in both blocks, and each has the balance of its side.
 *
 * A balance is stored as its difference from the one before plus the transfer, which is 0 in a
 * sound journal.
 */
import { reasonNumber } from "../ledger/codes.ts";
import { ACCOUNT_KINDS, type AccountKind } from "../ledger/tables.ts";
import { ByteReader, ByteWriter, requireCanonical, SealMalformed } from "./bytes.ts";
import {
  amount,
  collectIds,
  id,
  name,
  number,
  readIds,
  readTable,
  rising,
  type RowOf,
  writeIds,
  writeTable,
} from "./columns.ts";
import { MATCHES, QUOTES, type Records, REQUESTS, type SealedTransfer } from "./records.ts";

/** A side that belongs to another owner has neither kind nor balance. */
export type Side = { readonly kind: AccountKind; readonly balance: bigint } | null;

export type BlockTransfer = Omit<SealedTransfer, "from" | "to" | "fromBalance" | "toBalance"> & {
  readonly from: Side;
  readonly to: Side;
};

/** Transfers in the order of their ids, records in the order of theirs. */
export type Block = Records & { readonly transfers: readonly BlockTransfer[] };

/** A transfer. `from` and `to` are kinds of the owner's accounts, or empty. */
const MOVES = {
  transfer_id: rising,
  from: name,
  to: name,
  asset: name,
  amount,
  reason: number,
  step: number,
  line: number,
  ref: id,
  at: rising,
};

type Move = RowOf<typeof MOVES>;

export function encodeBlock(block: Block): Uint8Array<ArrayBuffer> {
  const moves = block.transfers.map(moveOf);
  const found = new Set<string>();
  collectIds(MOVES, moves, found);
  collectIds(REQUESTS.columns, block.requests, found);
  collectIds(QUOTES.columns, block.quotes, found);
  collectIds(MATCHES.columns, block.matches, found);
  const ids = [...found].toSorted();
  const writer = new ByteWriter();
  writeIds(writer, ids);
  writeTable(writer, MOVES, moves, ids);
  const balances = new RunningBalances();
  for (const transfer of block.transfers) {
    for (const side of sidesOf(transfer))
      writer.bigint(side.balance - balances.expect(side, transfer.asset, side.delta));
  }
  writeTable(writer, REQUESTS.columns, block.requests, ids);
  writeTable(writer, QUOTES.columns, block.quotes, ids);
  writeTable(writer, MATCHES.columns, block.matches, ids);
  return writer.finish();
}

/** Throws `SealMalformed` unless the bytes are exactly those that `encodeBlock` writes. */
export function decodeBlock(bytes: Uint8Array): Block {
  const reader = new ByteReader(bytes);
  const block = readWhole(reader);
  requireCanonical(reader, bytes, () => encodeBlock(block));
  return block;
}

/**
 * The same without proof that this service wrote it, which takes five times as long and memory for
 * a second copy. The caller has compared its hash.
 */
export function decodeProven(bytes: Uint8Array): Block {
  return readWhole(new ByteReader(bytes));
}

function readWhole(reader: ByteReader): Block {
  const ids = readIds(reader);
  return {
    transfers: readTransfers(reader, ids),
    requests: readTable(reader, REQUESTS.columns, ids),
    quotes: readTable(reader, QUOTES.columns, ids),
    matches: readTable(reader, MATCHES.columns, ids),
  };
}

/** What a page of the ledger needs of a block. */
export type BlockEntries = Pick<Block, "transfers" | "matches">;

/**
 * As `decodeProven`, without the other records, which are most of a block. Matches are read if a
 * transfer is a trade.
 */
export function decodeEntries(bytes: Uint8Array): BlockEntries {
  const reader = new ByteReader(bytes);
  const ids = readIds(reader);
  const transfers = readTransfers(reader, ids);
  if (transfers.every(({ reason }) => reason !== reasonNumber("trade")))
    return { transfers, matches: [] };
  readTable(reader, REQUESTS.columns, ids);
  readTable(reader, QUOTES.columns, ids);
  return { transfers, matches: readTable(reader, MATCHES.columns, ids) };
}

function readTransfers(reader: ByteReader, ids: readonly string[]): BlockTransfer[] {
  const moves = readTable(reader, MOVES, ids);
  const balances = new RunningBalances();
  return moves.map((move) => transferOf(move, reader, balances));
}

function moveOf(transfer: BlockTransfer): Move {
  return {
    transfer_id: transfer.transferId,
    from: transfer.from?.kind ?? "",
    to: transfer.to?.kind ?? "",
    asset: transfer.asset,
    amount: transfer.amount,
    reason: transfer.reason,
    step: transfer.step,
    line: transfer.line,
    ref: transfer.ref,
    at: transfer.at,
  };
}

function transferOf(move: Move, reader: ByteReader, balances: RunningBalances): BlockTransfer {
  const side = (kindName: string, delta: bigint): Side => {
    if (kindName === "") return null;
    const kind = ACCOUNT_KINDS.find((known) => known === kindName);
    if (kind === undefined) throw new SealMalformed("an account is of no known kind");
    const balance = reader.bigint() + balances.last(kind, move.asset) + delta;
    balances.set(kind, move.asset, balance);
    return { kind, balance };
  };
  const from = side(move.from, -move.amount);
  const to = side(move.to, move.amount);
  if (from === null && to === null) throw new SealMalformed("a transfer is not the owner's");
  return {
    transferId: move.transfer_id,
    from,
    to,
    asset: move.asset,
    amount: move.amount,
    reason: move.reason,
    step: move.step,
    line: move.line,
    ref: move.ref,
    at: move.at,
  };
}

/** The newest balance of each account, as the block's transfers pass. */
class RunningBalances {
  readonly #balances = new Map<string, bigint>();

  last(kind: AccountKind, asset: string): bigint {
    return this.#balances.get(`${kind} ${asset}`) ?? 0n;
  }

  set(kind: AccountKind, asset: string, balance: bigint): void {
    this.#balances.set(`${kind} ${asset}`, balance);
  }

  /** What a sound journal would contain. Continues from what this one contains. */
  expect(side: NonNullable<Side>, asset: string, delta: bigint): bigint {
    const expected = this.last(side.kind, asset) + delta;
    this.set(side.kind, asset, side.balance);
    return expected;
  }
}

function sidesOf({ from, to, amount: moved }: BlockTransfer) {
  return [
    ...(from === null ? [] : [{ ...from, delta: -moved }]),
    ...(to === null ? [] : [{ ...to, delta: moved }]),
  ];
}
