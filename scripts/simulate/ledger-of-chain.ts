/**
 * The contracts of a simulated chain as a small model: token balances, the vault's batches and
 * outcomes, and sweeps of deposit addresses. It follows contracts/Vault.sol and DepositFactory.sol.
 */
import {
  type Address,
  concatHex,
  decodeFunctionData,
  encodeAbiParameters,
  encodeEventTopics,
  encodeFunctionResult,
  getAddress,
  type Hex,
  numberToHex,
  pad,
  parseAbi,
} from "viem";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { cloneAddress } from "../../src/chain/addresses.ts";
import { ERC20 } from "../../src/chain/token.ts";
import { PAYMENT_STATE } from "../../src/chain/vault-calls.ts";

export type Asset = { readonly kind: number; readonly token: Address; readonly tokenId: bigint };
export type ModelLog = { readonly address: Address; readonly topics: Hex[]; readonly data: Hex };

/** A call that reverts as a whole. */
export class Revert extends Error {}

const tokenAbi = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)",
]);

/** Values of `Skipped.reason` in Vault.sol. */
const SKIPPED = { alreadyDone: 1, short: 2, invalid: 4 } as const;

export class ContractState {
  readonly vault: Address;
  readonly factory: Address;
  /** Recipients to whom tokens refuse transfers. */
  readonly refusing: ReadonlySet<string>;
  #balances = new Map<string, bigint>();
  #outcomes = new Map<Hex, number>();
  nextBatchNo = 1n;
  nonces = 0;
  paused = false;

  constructor(contracts: {
    readonly vault: Address;
    readonly factory: Address;
    readonly refusing: ReadonlySet<string>;
  }) {
    this.vault = contracts.vault;
    this.factory = contracts.factory;
    this.refusing = contracts.refusing;
  }

  copy(): ContractState {
    const copy = new ContractState(this);
    copy.#balances = new Map(this.#balances);
    copy.#outcomes = new Map(this.#outcomes);
    copy.nextBatchNo = this.nextBatchNo;
    copy.nonces = this.nonces;
    copy.paused = this.paused;
    return copy;
  }

  balanceOf({ token, tokenId }: Omit<Asset, "kind">, holder: Address): bigint {
    return this.#balances.get(keyOf(token, tokenId, holder)) ?? 0n;
  }

  outcomeOf(id: Hex): number {
    return this.#outcomes.get(id) ?? PAYMENT_STATE.none;
  }

  mint(asset: Asset, amount: bigint, to: Address): ModelLog {
    this.#add(asset, to, amount);
    return transferLog(asset, to, amount, this.factory);
  }

  /** A transaction of the operator account. Returns its logs, or throws `Revert`. */
  execute(to: Address, data: Hex, timestamp: bigint): ModelLog[] {
    return to === this.vault ? this.#vaultCall(data, timestamp) : this.#factoryCall(data);
  }

  /** What a call of a view returns, or of a transaction that is only tried. */
  view(to: Address, data: Hex, timestamp: bigint): Hex {
    if (to === this.factory) return this.#factoryView(data);
    const { functionName, args } = decodeFunctionData({ abi: vaultAbi, data });
    const result = <Name extends "nextBatchNo" | "paused">(name: Name, value: bigint | boolean) =>
      encodeFunctionResult({ abi: vaultAbi, functionName: name, result: value } as never);
    switch (functionName) {
      case "nextBatchNo":
        return result("nextBatchNo", this.nextBatchNo);
      case "paused":
        return result("paused", this.paused);
      case "states":
        return encodeFunctionResult({
          abi: vaultAbi,
          functionName,
          result: args[0].map((id) => this.outcomeOf(id)),
        });
      case "paymentLimitOf":
        return concatHex([word(2n ** 256n - 1n), word(2n ** 256n - 1n)]);
      default:
        this.copy().#vaultCall(data, timestamp);
        return "0x";
    }
  }

  #factoryView(data: Hex): Hex {
    const { functionName } = decodeFunctionData({ abi: depositFactoryAbi, data });
    if (functionName === "vault") return pad(this.vault);
    this.copy().#factoryCall(data);
    return "0x";
  }

  #vaultCall(data: Hex, timestamp: bigint): ModelLog[] {
    const { functionName, args } = decodeFunctionData({ abi: vaultAbi, data });
    if (functionName === "void") return args[0].map((id) => this.#void(id));
    if (functionName !== "pay") throw new Revert(`${functionName} is not in the model`);
    const [batchNo, deadline, payments] = args;
    if (this.paused) throw new Revert("EnforcedPause");
    if (batchNo !== this.nextBatchNo) throw new Revert("WrongBatch");
    if (timestamp > deadline) throw new Revert("DeadlinePassed");
    this.nextBatchNo++;
    return payments.flatMap((payment) => this.#pay(batchNo, payment));
  }

  #pay(
    batchNo: bigint,
    { id, amount, to, ...asset }: Asset & { id: Hex; amount: bigint; to: Address },
  ): ModelLog[] {
    const skip = (reason: number) => [
      this.#event("Skipped", { id, batchNo }, ["uint8"], [BigInt(reason)]),
    ];
    if (this.outcomeOf(id) !== PAYMENT_STATE.none) return skip(SKIPPED.alreadyDone);
    if (amount === 0n) return skip(SKIPPED.invalid);
    if (this.balanceOf(asset, this.vault) < amount) return skip(SKIPPED.short);
    if (this.refusing.has(to.toLowerCase())) {
      this.#outcomes.set(id, PAYMENT_STATE.failed);
      return [this.#event("Failed", { id, batchNo }, ["bytes32"], [0n])];
    }
    this.#outcomes.set(id, PAYMENT_STATE.paid);
    this.#add(asset, this.vault, -amount);
    this.#add(asset, to, amount);
    return [
      transferLog(asset, to, amount, this.vault),
      this.#event(
        "Paid",
        { id, batchNo },
        ["address", "uint256", "uint256", "address"],
        [BigInt(asset.token), asset.tokenId, amount, BigInt(to)],
      ),
    ];
  }

  #void(id: Hex): ModelLog {
    const done = this.outcomeOf(id);
    if (done !== PAYMENT_STATE.none)
      return this.#event("AlreadyDone", { id }, ["uint8"], [BigInt(done)]);
    this.#outcomes.set(id, PAYMENT_STATE.voided);
    return this.#event("Voided", { id }, [], []);
  }

  #factoryCall(data: Hex): ModelLog[] {
    const { functionName, args } = decodeFunctionData({ abi: depositFactoryAbi, data });
    if (functionName !== "sweep") throw new Revert(`${functionName} is not in the model`);
    return args[0].flatMap(({ salt, ...asset }) => {
      const account = cloneAddress(this.factory, salt);
      const amount = this.balanceOf(asset, account);
      if (amount === 0n) return [];
      this.#add(asset, account, -amount);
      this.#add(asset, this.vault, amount);
      const swept = {
        address: this.factory,
        topics: encodeEventTopics({
          abi: depositFactoryAbi,
          eventName: "Swept",
          args: { salt, account, token: asset.token },
        }) as Hex[],
        data: concatHex([word(asset.tokenId), word(amount)]),
      };
      return [transferLog(asset, this.vault, amount, account), swept];
    });
  }

  #event(
    eventName: "Paid" | "Failed" | "Skipped" | "Voided" | "AlreadyDone",
    args: { readonly id: Hex; readonly batchNo?: bigint },
    _types: readonly string[],
    words: readonly bigint[],
  ): ModelLog {
    return {
      address: this.vault,
      topics: encodeEventTopics({ abi: vaultAbi, eventName, args } as never) as Hex[],
      data: concatHex(words.map(word)),
    };
  }

  #add({ token, tokenId }: Asset, holder: Address, amount: bigint): void {
    const key = keyOf(token, tokenId, holder);
    this.#balances.set(key, (this.#balances.get(key) ?? 0n) + amount);
  }
}

function transferLog(
  { kind, token, tokenId }: Asset,
  to: Address,
  amount: bigint,
  from: Address,
): ModelLog {
  if (kind === ERC20)
    return {
      address: token,
      topics: topicsOf("Transfer", { from, to }),
      data: word(amount),
    };
  return {
    address: token,
    topics: topicsOf("TransferSingle", { operator: from, from, to }),
    data: encodeAbiParameters([{ type: "uint256" }, { type: "uint256" }], [tokenId, amount]),
  };
}

function topicsOf(eventName: "Transfer" | "TransferSingle", args: object): Hex[] {
  return encodeEventTopics({ abi: tokenAbi, eventName, args } as never) as Hex[];
}

function keyOf(token: Address, tokenId: bigint, holder: Address): string {
  return `${token.toLowerCase()} ${tokenId} ${getAddress(holder)}`;
}

function word(value: bigint): Hex {
  return numberToHex(value, { size: 32 });
}
