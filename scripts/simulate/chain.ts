/** A simulated chain: blocks, transactions that wait for one, and reorganisations. */
import { createHash } from "node:crypto";
import { type Address, getAddress, type Hex, keccak256, parseTransaction } from "viem";
import type { Dice } from "../actors/dice.ts";
import { type Asset, type ContractState, type ModelLog, Revert } from "./ledger-of-chain.ts";

export type Block = {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  readonly timestamp: bigint;
  readonly state: ContractState;
  readonly transactions: readonly Transaction[];
  readonly logs: readonly (ModelLog & { readonly transactionHash: Hex })[];
};

export type Deposit = {
  readonly kind: "deposit";
  readonly hash: Hex;
  readonly asset: Asset;
  readonly amount: bigint;
  readonly to: Address;
};
type Operation = {
  readonly kind: "operation";
  readonly hash: Hex;
  readonly nonce: number;
  readonly to: Address;
  readonly data: Hex;
  readonly maxFee: bigint;
};
export type Transaction = Deposit | Operation;

export const BASE_FEE = 30_000_000_000n;
/** Replacements must offer this much more, in percent. */
const PRICE_BUMP = 110n;

export class Chain {
  readonly #blocks = new Map<Hex, Block>();
  readonly #dice: Dice;
  readonly #now: () => number;
  /** The canonical chain by number. */
  canonical: Block[] = [];
  #deposits: Deposit[] = [];
  /** Attempts by nonce, in the order of their arrival. */
  #operations = new Map<number, Operation[]>();
  #forks = 0;

  constructor(dice: Dice, now: () => number, genesis: ContractState) {
    this.#dice = dice;
    this.#now = now;
    this.#append([], genesis, []);
  }

  get head(): Block {
    return this.canonical.at(-1)!;
  }

  block(hash: Hex): Block | undefined {
    return this.#blocks.get(hash);
  }

  deposit(deposit: Deposit): void {
    this.#deposits.push(deposit);
  }

  /** A signed transaction of the operator account. Throws what a node answers. */
  send(raw: Hex): Hex {
    const { nonce = 0, to, data = "0x", maxFeePerGas = 0n } = parseTransaction(raw);
    const hash = keccak256(raw);
    if (nonce < this.head.state.nonces) throw new Error("nonce too low");
    const attempts = this.#operations.get(nonce) ?? [];
    if (attempts.some((known) => known.hash === hash)) throw new Error("already known");
    const highest = attempts.reduce((max, { maxFee }) => (maxFee > max ? maxFee : max), 0n);
    if (maxFeePerGas * 100n < highest * PRICE_BUMP)
      throw new Error("replacement transaction underpriced");
    attempts.push({
      kind: "operation",
      hash,
      nonce,
      to: getAddress(to ?? "0x"),
      data,
      maxFee: maxFeePerGas,
    });
    this.#operations.set(nonce, attempts);
    return hash;
  }

  /** Nodes forget what waits for a block. */
  evict(): void {
    this.#operations.clear();
  }

  setPaused(paused: boolean): void {
    const state = this.head.state.copy();
    state.paused = paused;
    this.#append([], state, []);
  }

  mine(): void {
    const state = this.head.state.copy();
    const timestamp = this.#timestamp();
    const logs: (ModelLog & { transactionHash: Hex })[] = [];
    const mined: Transaction[] = [];
    const take = (transaction: Transaction, made: readonly ModelLog[]) => {
      mined.push(transaction);
      for (const log of made) logs.push({ ...log, transactionHash: transaction.hash });
    };
    this.#deposits = this.#deposits.filter((deposit) => {
      if (this.#dice.chance(0.2)) return true;
      take(deposit, [state.mint(deposit.asset, deposit.amount, deposit.to)]);
      return false;
    });
    for (
      let attempts = this.#operations.get(state.nonces);
      attempts !== undefined && !this.#dice.chance(0.15);
      attempts = this.#operations.get(state.nonces)
    ) {
      // Mostly the last attempt, but a miner may have an earlier one.
      const operation = this.#dice.chance(0.9) ? attempts.at(-1)! : this.#dice.pick(attempts);
      this.#operations.delete(state.nonces);
      state.nonces++;
      take(operation, logsOf(state, operation, timestamp));
    }
    this.#append(mined, state, logs);
  }

  /** Replaces the last blocks. Their transactions wait again; some deposits never come back. */
  reorganise(depth: number): void {
    const kept = Math.max(1, this.canonical.length - depth);
    const removed = this.canonical.splice(kept);
    for (const { transactions } of removed) {
      for (const transaction of transactions) {
        if (transaction.kind === "operation")
          this.#operations.set(transaction.nonce, [
            ...(this.#operations.get(transaction.nonce) ?? []),
            transaction,
          ]);
        else if (!this.#dice.chance(0.1)) this.#deposits.push(transaction);
      }
    }
    this.#forks++;
    for (let count = 0; count <= removed.length; count++) this.mine();
  }

  #timestamp(): bigint {
    return BigInt(Math.floor(this.#now() / 1_000));
  }

  #append(transactions: readonly Transaction[], state: ContractState, logs: Block["logs"]): void {
    const parent = this.canonical.at(-1);
    const parentHash = parent?.hash ?? `0x${"00".repeat(32)}`;
    const number = this.canonical.length;
    const digest = createHash("sha256").update(`${parentHash} ${number} ${this.#forks}`);
    const hash: Hex = `0x${digest.digest("hex")}`;
    const timestamp = this.#timestamp();
    const block = { number, hash, parentHash, timestamp, state, transactions, logs };
    this.#blocks.set(hash, block);
    this.canonical.push(block);
  }
}

/** A reverted transaction uses its nonce and leaves nothing else. */
function logsOf(state: ContractState, { to, data }: Operation, timestamp: bigint): ModelLog[] {
  try {
    return state.execute(to, data, timestamp);
  } catch (error) {
    if (error instanceof Revert) return [];
    throw error;
  }
}
