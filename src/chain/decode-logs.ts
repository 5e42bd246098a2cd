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
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";

/**
 * Position of a log. `ordinal` counts the decoded logs of the same contract within the transaction,
 * from 0. Unlike `logIndex` it stays the same when a reorg mines the transaction again.
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

/** Events of the vault that decide a payment. `AlreadyDone`: a void of an id that was decided. */
const VAULT_EVENTS = ["Paid", "Failed", "Skipped", "Voided", "AlreadyDone"] as const;

export type VaultEvent = LogPlace & {
  /** The vault that emitted it. */
  readonly vault: Address;
  readonly kind: (typeof VAULT_EVENTS)[number];
  readonly id: Hex;
  /** The batch that paid, failed or skipped it. */
  readonly batchNo?: number;
  /** The reason of `Skipped`. */
  readonly reason?: number;
  /** The payment of `Paid`. */
  readonly paid?: Pick<TokenTransfer, "token" | "amount" | "to"> & { readonly tokenId: bigint };
};

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

const batchAbi = parseAbi([
  "event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)",
]);
const TRANSFER = toEventSelector("Transfer(address,address,uint256)");
const TRANSFER_SINGLE = toEventSelector("TransferSingle(address,address,address,uint256,uint256)");
const TRANSFER_BATCH = toEventSelector(batchAbi[0]);

const WATCHED: ReadonlySet<string> = new Set([...VAULT_EVENTS, "Swept", "SweepFailed"]);

/** Topics of the decoded events, so that nodes omit the many other events of a busy contract. */
export const WATCHED_TOPICS: readonly Hex[] = [
  TRANSFER,
  TRANSFER_SINGLE,
  TRANSFER_BATCH,
  ...[...vaultAbi, ...depositFactoryAbi].flatMap((item) =>
    item.type === "event" && WATCHED.has(item.name) ? [toEventSelector(item)] : [],
  ),
];

export type Contracts = {
  readonly erc20: Address;
  readonly erc1155: readonly Address[];
  /** The chain's vault and the ones before it. */
  readonly vaults: readonly Address[];
  readonly factory: Address;
};
type Decoded = {
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
    const place = {
      blockNumber: Number(log.blockNumber),
      blockHash: log.blockHash,
      transactionHash: log.transactionHash,
      ordinal: counts.get(key) ?? 0,
      logIndex: log.logIndex,
    };
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
    if (contracts.vaults.includes(address)) return decodeVault(log, address, place, out);
    if (address === contracts.factory) return decodeFactory(log, place, out);
    return false;
  } catch {
    // An event with the same topic and other arguments, so not one of ours.
    return false;
  }
}

/** By hand, as for TransferSingle: a busy token has thousands of logs in a range. */
function decodeErc20(log: MinedLog, token: Address, place: LogPlace, out: Decoded): boolean {
  const [selector, from, to] = log.topics;
  if (selector !== TRANSFER || from === undefined || to === undefined) return false;
  const parties = { from: addressIn(from), to: addressIn(to) };
  const amount = wordAt(log.data, 0);
  out.transfers.push({ ...place, token, ...parties, tokenId: null, amount, position: 0 });
  return true;
}

function decodeErc1155(log: MinedLog, token: Address, place: LogPlace, out: Decoded): boolean {
  if (log.topics[0] === TRANSFER_SINGLE) {
    const [, , from, to] = log.topics;
    if (from === undefined || to === undefined) return false;
    const parties = { from: addressIn(from), to: addressIn(to) };
    const [tokenId, amount] = [wordAt(log.data, 0), wordAt(log.data, 1)];
    out.transfers.push({ ...place, token, ...parties, tokenId, amount, position: 0 });
    return true;
  }
  const { args } = decodeEventLog({ abi: batchAbi, data: log.data, topics: log.topics });
  const { from, to, ids, values } = args;
  if (ids.length !== values.length) return false;
  ids.forEach((tokenId, position) => {
    const amount = values[position] ?? 0n;
    out.transfers.push({ ...place, token, from, to, tokenId, amount, position });
  });
  return true;
}

/** The address in an indexed argument, in lower case. */
function addressIn(topic: Hex): Address {
  return `0x${topic.slice(-40).toLowerCase()}`;
}

/** The 32-byte word at this place in a log's data. Throws if the data is too short. */
function wordAt(data: Hex, index: number): bigint {
  const word = data.slice(2 + 64 * index, 2 + 64 * (index + 1));
  if (word.length !== 64) throw new Error("the data is too short");
  return BigInt(`0x${word}`);
}

function decodeVault(log: MinedLog, vault: Address, place: LogPlace, out: Decoded): boolean {
  const event = decodeEventLog({ abi: vaultAbi, data: log.data, topics: log.topics });
  const kind = VAULT_EVENTS.find((name) => name === event.eventName);
  if (kind === undefined || !("id" in event.args)) return false;
  const { args } = event;
  out.vaultEvents.push({
    ...place,
    vault,
    kind,
    id: args.id,
    ...("batchNo" in args && { batchNo: Number(args.batchNo) }),
    // `Failed` has a reason too, which is what the token returned.
    ...(event.eventName === "Skipped" && { reason: event.args.reason }),
    ...(event.eventName === "Paid" && { paid: paymentOf(event.args) }),
  });
  return true;
}

function paymentOf({ token, tokenId, amount, to }: NonNullable<VaultEvent["paid"]>) {
  return { token, tokenId, amount, to };
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
