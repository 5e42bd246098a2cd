/** Deposits, withdrawals and the chain beneath them, with what must hold for them. */
import { type Address, getAddress, type Hex } from "viem";
import { tokenOf } from "../../src/chain/token.ts";
import { PAYMENT_STATE } from "../../src/chain/vault-calls.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { handleWithdrawalMessages } from "../../src/custody/payer/wake-payer.ts";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { fail, retry, setPaused } from "../../src/operator/withdrawals.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { type Config, config, defaultChain } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { notifyStreams } from "../../src/streams/notify.ts";
import { Dice } from "../actors/dice.ts";
import { Chain, type Deposit } from "./chain.ts";
import { ContractState } from "./ledger-of-chain.ts";
import { Nodes } from "./nodes.ts";
import { BOOKS, type Person } from "./people.ts";
import type { Scene } from "./scene.ts";
import { Violation } from "./violation.ts";

const BLOCK_MS = 5_000;
const ASSETS = ["usdc", ...BOOKS.map(({ asset }) => asset)];
/** Addresses to which withdrawals go. Tokens refuse the last one. */
export const RECIPIENTS = [1, 2, 3, 4, 5, 6].map((digit) =>
  getAddress(`0x${`${digit}e`.repeat(20)}`),
);
const REFUSED = RECIPIENTS.at(-1)!;
/** Of the funds that users have from the start, which no chain has seen. */
export const NO_ADDRESS = `0x${"00".repeat(20)}`;
/** A withdrawal may wait this long for blocks, sweeps and confirmations while nothing is broken. */
const MAX_OPEN_MS = 600_000;

/** A withdrawal as its sender knows it. All attempts have the same terms. */
type Order = {
  readonly person: Person;
  readonly clientWithdrawalId: string;
  readonly amount: bigint;
  readonly asset: string;
  readonly to: Address;
  accepted: boolean;
  /** An attempt ended without a clear answer. */
  unclear: boolean;
};

export class Custody {
  readonly #scene: Scene;
  readonly #settings: Config;
  readonly #chain: Chain;
  readonly nodes: Nodes;
  /** Deposit addresses by user id. */
  readonly #addresses = new Map<string, Address[]>();
  readonly #deposits: (Deposit & { readonly userId: string; readonly name: string })[] = [];
  readonly #orders: Order[] = [];
  #messages = 0;
  /** The last quiet point at which payments were stopped. */
  #stoppedAt = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#settings = config(scene.env);
    const chain = defaultChain(this.#settings);
    const genesis = new ContractState({
      vault: getAddress(chain.vault),
      factory: getAddress(chain.factory),
      refusing: new Set([REFUSED.toLowerCase()]),
    });
    const dice = new Dice(`${scene.seed}/chain`);
    this.#chain = new Chain(dice, () => scene.time.now, genesis);
    const hosts = chain.rpc_urls.map((url) => new URL(url).host);
    this.nodes = new Nodes(scene.time, this.#chain, hosts);
  }

  /** The vault holds at first what the journal has issued without a deposit on the chain. */
  fillVault(amounts: ReadonlyMap<string, bigint>): void {
    const chain = defaultChain(this.#settings);
    const state = this.#chain.head.state;
    for (const [asset, amount] of amounts)
      state.mint(tokenOf(this.#settings, chain, asset), amount, getAddress(chain.vault));
    this.#mineForEver();
  }

  #mineForEver(): void {
    this.#scene.time.after(BLOCK_MS, () => {
      this.#chain.mine();
      this.nodes.announce();
      this.#mineForEver();
    });
  }

  async newAddress(person: Person, actor: Actor): Promise<void> {
    const { env } = this.#scene;
    const chain = defaultChain(this.#settings);
    const created = await this.#scene.credentials.call("new_address", actor, () =>
      createDepositAddress(env.DB, this.#settings, {
        actor,
        chain,
        ip: undefined,
        remember: (record) => env.CHAIN_WATCHER.getByName(chain.chain).saveAddressRecord(record),
      }),
    );
    const known = this.#addresses.get(person.userId) ?? [];
    this.#addresses.set(person.userId, [...known, getAddress(created.address)]);
  }

  deposit(person: Person, dice: Dice): void {
    const addresses = this.#addresses.get(person.userId);
    if (addresses === undefined) return;
    const name = dice.pick(ASSETS);
    const deposit: Deposit = {
      kind: "deposit",
      hash: dice.hex(32),
      asset: tokenOf(this.#settings, defaultChain(this.#settings), name),
      amount: BigInt(dice.between(2_000_000, 900_000_000)),
      to: dice.pick(addresses),
    };
    this.#deposits.push({ ...deposit, userId: person.userId, name });
    this.#chain.deposit(deposit);
  }

  /** A new withdrawal, or one of the last again. */
  withdraw(name: string, person: Person, actor: Actor, dice: Dice): void {
    const again = dice.chance(0.2) ? this.#orders.at(-dice.between(1, 5)) : undefined;
    const order: Order =
      again?.person === person
        ? again
        : {
            person,
            clientWithdrawalId: dice.hex(8),
            amount: BigInt(dice.between(1_000_000, dice.chance(0.1) ? 2_000_000_000 : 50_000_000)),
            asset: dice.pick(ASSETS),
            to: dice.chance(0.05) ? REFUSED : dice.pick(RECIPIENTS),
            accepted: false,
            unclear: false,
          };
    if (order !== again) this.#orders.push(order);
    this.#scene.start(name, dice, () => this.#send(order, actor));
    if (!dice.chance(0.15)) return;
    this.#scene.time.after(dice.between(0, 3_000), () =>
      this.#scene.start(`cancel/${name}`, dice, () => this.#cancel(order, actor)),
    );
  }

  /** Races with the payer. It is refused if the payer has signed, or the order does not exist. */
  async #cancel(order: Order, actor: Actor): Promise<void> {
    const { env } = this.#scene;
    const id = { client_withdrawal_id: order.clientWithdrawalId };
    await this.#scene.credentials.tryCall("cancel_withdrawal", actor, async () => {
      const { events } = await cancelWithdrawal(env.DB, { actor, id, ip: undefined });
      await notifyStreams(env, events);
    });
  }

  async #send(order: Order, actor: Actor): Promise<void> {
    const { env } = this.#scene;
    const { clientWithdrawalId, amount, asset, to } = order;
    const { chain } = defaultChain(this.#settings);
    const wasUnclear = order.unclear;
    // Until it is answered: the process may be killed.
    order.unclear = true;
    try {
      const terms = { clientWithdrawalId, amount, asset, toAddress: to, chain };
      const { row, replayed, events } = await this.#scene.credentials.call("withdraw", actor, () =>
        withdraw(env.DB, this.#settings, { actor, terms, ip: undefined }),
      );
      order.accepted = true;
      if (replayed) return;
      const sent = env.WITHDRAWALS.send({ withdrawal_id: readUuid(row.withdrawal_id), chain });
      await Promise.all([notifyStreams(env, events), sent]);
    } catch (error) {
      const certain = error instanceof Problem && error.data.extensions?.["outcome"] !== "unknown";
      if (certain) order.unclear = wasUnclear;
    }
  }

  /** The queue: messages are lost, late and doubled. */
  queue(): { send: (body: unknown) => Promise<void> } {
    const { time, seed, start, env } = this.#scene;
    const deliver = (body: unknown, dice: Dice, attempts: number): void => {
      start(`queue@${++this.#messages}`, dice, async () => {
        let retried = false;
        const message = {
          id: `m${this.#messages}`,
          body,
          attempts,
          ack: () => {},
          retry: () => (retried = true),
        };
        await handleWithdrawalMessages(asBatch({ queue: "withdrawals", messages: [message] }), env);
        if (retried && attempts < 5) time.after(1_000, () => deliver(body, dice, attempts + 1));
      });
    };
    return {
      send: async (body) => {
        const dice = new Dice(`${seed}/message/${this.#messages++}`);
        const copies = dice.chance(0.1) ? 0 : dice.chance(0.1) ? 2 : 1;
        for (let copy = 0; copy < copies; copy++)
          time.after(dice.between(0, 2_000), () => deliver(body, dice, 1));
      },
    };
  }

  async operate(
    kind: "fail" | "retry" | "pause_withdrawals" | "resume_withdrawals",
    context: (options: Record<string, string>) => OperatorContext,
    dice: Dice,
  ): Promise<void> {
    const count = async (work: () => Promise<unknown>) =>
      void (await this.#scene.calls.count(kind, work));
    if (kind === "pause_withdrawals" || kind === "resume_withdrawals")
      return count(() => setPaused(context({}), kind === "pause_withdrawals"));
    const open = this.#scene.database.rows(
      `SELECT lower(hex(withdrawal_id)) AS id FROM withdrawals
        WHERE status IN ('queued', 'submitted') ORDER BY created_at DESC LIMIT 5`,
    );
    if (open.length === 0) return;
    const options = { id: readUuid(String(dice.pick(open)["id"])) };
    return count(() => (kind === "fail" ? fail : retry)(context(options)));
  }

  disturb(kind: "reorganise" | "node_away" | "evict" | "pause_vault", dice: Dice): void {
    const { confirmations } = defaultChain(this.#settings);
    switch (kind) {
      case "reorganise":
        this.#chain.reorganise(dice.between(1, confirmations - 1));
        return this.nodes.announce();
      case "node_away":
        return this.nodes.takeAway(dice.between(0, 2), dice.between(1_000, 60_000));
      case "evict":
        return this.#chain.evict();
      case "pause_vault":
        this.#chain.setPaused(true);
        this.#scene.time.after(dice.between(1_000, 60_000), () => this.#chain.setPaused(false));
    }
  }

  /** The faults end. A reorganisation may have removed the block that ended a pause. */
  heal(): void {
    if (this.#chain.head.state.paused) this.#chain.setPaused(false);
    this.nodes.heal();
  }

  /** At a quiet point. */
  check(): void {
    this.#checkHalts();
    this.#checkDeposits();
    this.#checkWithdrawals();
    this.#checkOrders();
  }

  #checkHalts(): void {
    const { database } = this.#scene;
    const halts = database.rows(
      `SELECT halt_reason FROM chain_cursors WHERE halted_at IS NOT NULL
        UNION ALL SELECT halt_reason FROM payer_leases WHERE halted_at IS NOT NULL`,
    );
    if (halts.length > 0) throw new Violation("never_halted", JSON.stringify(halts));
    const cursor = database.count("SELECT confirmed_number FROM chain_cursors");
    const behind = this.#chain.head.number - cursor;
    if (behind > 12) throw new Violation("chain_is_followed", `${behind} blocks behind the head`);
  }

  /** [D1, D2, D3] A confirmed deposit of the chain is credited once, and nothing else is. */
  #checkDeposits(): void {
    const { database } = this.#scene;
    const confirmed = database.count("SELECT confirmed_number FROM chain_cursors");
    const mined = new Set<Hex>();
    for (const block of this.#chain.canonical.slice(0, confirmed + 1))
      for (const { hash } of block.transactions) mined.add(hash);
    const credited = new Map(
      database
        .rows(
          `SELECT lower(hex(transaction_hash)) AS tx, count(*) AS times, min(amount) AS amount,
            min(asset) AS asset, lower(hex(min(user_id))) AS user
          FROM deposits WHERE status = 'credited' AND address <> zeroblob(20) GROUP BY 1`,
        )
        .map((row) => [`0x${String(row["tx"])}`, row]),
    );
    for (const { hash, amount, userId, name } of this.#deposits) {
      const row = credited.get(hash);
      credited.delete(hash);
      if (row === undefined) {
        if (mined.has(hash)) throw new Violation("deposit_credited [D1]", `${hash} is missing`);
        continue;
      }
      const same =
        row["times"] === 1 &&
        row["amount"] === amount.toString() &&
        row["asset"] === name &&
        row["user"] === userId.replaceAll("-", "");
      if (!mined.has(hash) || !same)
        throw new Violation("credit_has_log [D1]", `${hash}: ${JSON.stringify(row)}`);
    }
    if (credited.size > 0)
      throw new Violation("credit_has_log [D1]", `${[...credited.keys()][0]} is not on the chain`);
  }

  /** [W1, W4, W5, W8] */
  #checkWithdrawals(): void {
    const { database, time } = this.#scene;
    const { state } = this.#chain.head;
    if (database.count("SELECT count(*) FROM kill_switches") > 0) this.#stoppedAt = time.now;
    const rows = database.rows(
      `SELECT lower(hex(w.payment_id)) AS id, w.status, w.created_at, w.approved_at, w.not_before,
          (SELECT email FROM users u WHERE u.user_id = w.user_id) AS email,
          (SELECT frozen_at FROM users u WHERE u.user_id = w.user_id) AS frozen_at,
          (SELECT count(*) FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id
            AND m.purpose = 'pay') AS signed
        FROM withdrawals w`,
    );
    for (const row of rows) {
      const outcome = state.outcomeOf(`0x${String(row["id"])}`);
      const about = JSON.stringify({ ...row, outcome });
      if (row["status"] === "settled" && outcome !== PAYMENT_STATE.paid)
        throw new Violation("settled_means_paid [W4]", about);
      if (row["status"] === "failed") {
        if (outcome === PAYMENT_STATE.paid) throw new Violation("refund_is_safe [W5]", about);
        if (outcome === PAYMENT_STATE.none && row["signed"] !== 0)
          throw new Violation("refund_is_safe [W5]", about);
      }
      if (row["status"] === "cancelled" && (row["signed"] !== 0 || outcome !== PAYMENT_STATE.none))
        throw new Violation("cancelled_is_unsigned [W5]", about);
      const open = row["status"] === "queued" || row["status"] === "submitted";
      // Two freezes and an unfreeze in flight may end in any order, so the row decides.
      if (row["frozen_at"] !== null) continue;
      // Withdrawals of a frozen user wait, and so do all while withdrawals are paused.
      const person = this.#orders.find((order) => order.person.email === row["email"])?.person;
      const resumed = person?.frozen === false ? (person.frozenChangedAt ?? time.now) : time.now;
      const asked = Number(row["approved_at"] ?? row["created_at"]);
      const since = Math.max(asked, this.#stoppedAt, resumed);
      if (open && since < time.now - MAX_OPEN_MS && row["not_before"] === null)
        throw new Violation("none_forgotten [W8]", `${about}; alerts ${this.#alerts()}`);
    }
  }

  #alerts(): string {
    const { database } = this.#scene;
    return JSON.stringify(
      database.rows("SELECT kind, subject, detail FROM alerts WHERE resolved_at IS NULL"),
    );
  }

  /** [R4] An accepted order has one withdrawal, a rejected one has none. */
  #checkOrders(): void {
    for (const { person, clientWithdrawalId, accepted, unclear } of this.#orders.slice(-200)) {
      const count = this.#scene.database.count(
        "SELECT count(*) FROM withdrawals WHERE client_withdrawal_id = ? AND user_id = unhex(?)",
        clientWithdrawalId,
        person.userId.replaceAll("-", ""),
      );
      if ((accepted && count !== 1) || (!accepted && !unclear && count !== 0))
        throw new Violation(
          "none_means_no_effect [R4]",
          `withdrawal ${clientWithdrawalId}: ${count} rows, accepted: ${accepted}`,
        );
    }
  }
}

/** Safe cast: the consumer reads `queue`, and of each message what is given here. */
function asBatch(batch: object): MessageBatch {
  return batch as MessageBatch;
}
