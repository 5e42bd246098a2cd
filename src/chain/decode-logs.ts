/** Decodes raw logs into token transfers, vault events and sweeps. Pure. */
import {
  type Address,
  decodeEventLog,
  getAddress,
  type Hex,
  type Log,
  parseAbi,
  toEventSelector,
} from "viem";
import { depositFactoryAbi } from "./abi/deposit-factory.ts";
import { vaultAbi } from "./abi/vault.ts";

/**
 * Position of a log. `ordinal` counts the decoded logs of the same contract within the transaction,
 * from 0. It stays the same when a reorg mines the transaction in another block, `logIndex` does
 * not.
 */
type LogPlace = {
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly transactionHash: Hex;
  readonly ordinal: number;
  /** Position in the block; it changes when the block is mined again. */
  readonly logIndex: number;
};

export type TokenTransfer = LogPlace & {
  readonly token: Address;
  readonly from: Address;
  readonly to: Address;
  /** Null for ERC-20. */
  readonly tokenId: bigint | null;
  readonly amount: bigint;
  /** Position within an ERC-1155 batch. */
  readonly position: number;
};

export type VaultEvent = LogPlace &
  (
    | {
        readonly kind: "Paid";
        readonly id: Hex;
        readonly batchNo: number;
        readonly amount: bigint;
        readonly to: Address;
      }
    | { readonly kind: "Failed"; readonly id: Hex; readonly batchNo: number }
    | {
        readonly kind: "Skipped";
        readonly id: Hex;
        readonly batchNo: number;
        readonly reason: number;
      }
    | { readonly kind: "Voided"; readonly id: Hex }
  );

export type Swept = LogPlace & {
  readonly account: Address;
  readonly token: Address;
  readonly tokenId: bigint;
};
/** A deposit address that the factory could not sweep, named by its salt. */
export type SweepFailed = LogPlace & {
  readonly salt: Hex;
  readonly token: Address;
  readonly tokenId: bigint;
};

const erc20Abi = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
]);
const erc1155Abi = parseAbi([
  "event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)",
  "event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)",
]);
const TRANSFER = toEventSelector(erc20Abi[0]);
const TRANSFER_SINGLE = toEventSelector(erc1155Abi[0]);
const TRANSFER_BATCH = toEventSelector(erc1155Abi[1]);

/**
 * Topics of the events that are decoded, so that nodes filter out a busy contract's other events.
 */
export const WATCHED_TOPICS: readonly Hex[] = [
  TRANSFER,
  TRANSFER_SINGLE,
  TRANSFER_BATCH,
  ...[...vaultAbi, ...depositFactoryAbi].flatMap((item) =>
    item.type === "event" &&
    ["Paid", "Failed", "Skipped", "Voided", "Swept", "SweepFailed"].includes(item.name)
      ? [toEventSelector(item)]
      : [],
  ),
];

export type Contracts = {
  readonly erc20: Address;
  readonly erc1155: readonly Address[];
  readonly vault: Address;
  readonly factory: Address;
};
export type Decoded = {
  readonly transfers: TokenTransfer[];
  readonly vaultEvents: VaultEvent[];
  readonly sweeps: Swept[];
  readonly sweepFailures: SweepFailed[];
};

export type MinedLog = Pick<
  Log<bigint, number, false>,
  "address" | "data" | "topics" | "blockNumber" | "blockHash" | "transactionHash" | "logIndex"
>;

export function decodeLogs(logs: readonly MinedLog[], contracts: Contracts): Decoded {
  const decoded: Decoded = { transfers: [], vaultEvents: [], sweeps: [], sweepFailures: [] };
  const counts = new Map<string, number>();
  const ordered = logs.toSorted(
    (a, b) => Number(a.blockNumber - b.blockNumber) || a.logIndex - b.logIndex,
  );
  const seen = new Set<string>();
  for (const log of ordered) {
    // A node may return the same log twice.
    const identity = `${log.blockHash}:${log.logIndex}`;
    if (seen.has(identity)) continue;
    seen.add(identity);
    const address = getAddress(log.address);
    const key = `${log.transactionHash}:${address}`;
    const place = placeOf(log, counts.get(key) ?? 0);
    if (decodeOne(log, address, place, contracts, decoded)) counts.set(key, place.ordinal + 1);
  }
  return decoded;
}

/** Appends to `out` and returns true if the log is one of ours, so that it takes an ordinal. */
function decodeOne(
  log: MinedLog,
  address: Address,
  place: LogPlace,
  contracts: Contracts,
  out: Decoded,
): boolean {
  try {
    if (address === contracts.erc20) return decodeErc20(log, address, place, out);
    if (contracts.erc1155.includes(address)) return decodeErc1155(log, address, place, out);
    if (address === contracts.vault) return decodeVault(log, place, out);
    if (address === contracts.factory) return decodeFactory(log, place, out);
    return false;
  } catch {
    // An event with the same topic and other arguments, so not one of ours.
    return false;
  }
}

function decodeErc20(log: MinedLog, token: Address, place: LogPlace, out: Decoded): boolean {
  if (log.topics[0] !== TRANSFER) return false;
  const { args } = decodeEventLog({ abi: erc20Abi, data: log.data, topics: log.topics });
  out.transfers.push({
    ...place,
    token,
    from: args.from,
    to: args.to,
    tokenId: null,
    amount: args.value,
    position: 0,
  });
  return true;
}

function decodeErc1155(log: MinedLog, token: Address, place: LogPlace, out: Decoded): boolean {
  const event = decodeEventLog({ abi: erc1155Abi, data: log.data, topics: log.topics });
  const { from, to } = event.args;
  if (event.eventName === "TransferSingle") {
    out.transfers.push({
      ...place,
      token,
      from,
      to,
      tokenId: event.args.id,
      amount: event.args.value,
      position: 0,
    });
    return true;
  }
  const { ids, values } = event.args;
  if (ids.length !== values.length) return false;
  ids.forEach((tokenId, position) => {
    out.transfers.push({
      ...place,
      token,
      from,
      to,
      tokenId,
      amount: values[position] ?? 0n,
      position,
    });
  });
  return true;
}

function decodeVault(log: MinedLog, place: LogPlace, out: Decoded): boolean {
  const event = decodeEventLog({ abi: vaultAbi, data: log.data, topics: log.topics });
  switch (event.eventName) {
    case "Paid": {
      const { id, batchNo, amount, to } = event.args;
      out.vaultEvents.push({ ...place, kind: "Paid", id, batchNo: Number(batchNo), amount, to });
      return true;
    }
    case "Failed":
      out.vaultEvents.push({
        ...place,
        kind: "Failed",
        id: event.args.id,
        batchNo: Number(event.args.batchNo),
      });
      return true;
    case "Skipped":
      out.vaultEvents.push({
        ...place,
        kind: "Skipped",
        id: event.args.id,
        batchNo: Number(event.args.batchNo),
        reason: event.args.reason,
      });
      return true;
    case "Voided":
      out.vaultEvents.push({ ...place, kind: "Voided", id: event.args.id });
      return true;
    default:
      return false;
  }
}

function decodeFactory(log: MinedLog, place: LogPlace, out: Decoded): boolean {
  const event = decodeEventLog({ abi: depositFactoryAbi, data: log.data, topics: log.topics });
  if (event.eventName === "SweepFailed") {
    const { salt, token, tokenId } = event.args;
    out.sweepFailures.push({ ...place, salt, token, tokenId });
    return true;
  }
  if (event.eventName !== "Swept") return false;
  const { account, token, tokenId } = event.args;
  out.sweeps.push({ ...place, account, token, tokenId });
  return true;
}

function placeOf(log: MinedLog, ordinal: number): LogPlace {
  return {
    blockNumber: Number(log.blockNumber),
    blockHash: log.blockHash,
    transactionHash: log.transactionHash,
    ordinal,
    logIndex: log.logIndex,
  };
}
