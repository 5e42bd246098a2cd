import { type Hex } from "viem";
import { expect, it } from "vitest";
import {
  type Chain,
  KIND,
  type Payment,
  type Result,
  type VaultWorld,
  deployFactory,
  handOver,
  id32,
  outcomesOf,
  vaultWorld,
} from "./chain.ts";

const QUARTER_OF_A_BLOCK = 30_000_000n / 4n;
/** EIP-7825: no transaction may have more. */
const MAX_TRANSACTION_GAS = 1n << 24n;
/** Between two gas limits that are tried, and near the lowest one that suffices. */
const STEP = 6_007n;
const EDGE_STEP = 193n;

/** Tries a transaction with each gas limit from the same state. */
async function scan(
  chain: Chain,
  limits: Iterable<bigint>,
  run: (gas: bigint) => Promise<Result>,
  check: (result: Result, gas: bigint) => Promise<void>,
) {
  for (const gas of limits) {
    const id = await chain.client.snapshot();
    await check(await run(gas), gas);
    await chain.client.revert({ id });
  }
}

function* range(from: bigint, to: bigint, step: bigint): Generator<bigint> {
  for (let gas = from; gas <= to; gas += step) yield gas;
}

export function gasTests(chain: Chain): void {
  const { payer, sweeper } = chain;

  it("no gas limit, from too low to enough, marks a good payment Failed: all or nothing", async () => {
    const world = await vaultWorld(chain);
    // These give up early and cheaply when starved, which leaves enough gas to record it as their
    // failure.
    const recipient = await world.recipient("NEEDS_GAS");
    const token = await world.hostile("NEEDS_GAS");
    const payments = [
      world.inUsdc(1n),
      world.inOutcome(2n, { to: recipient.address }),
      world.inUsdc(3n, { token: token.address }),
    ];
    const limit = await chain.read<bigint>(world.vault, "payGasLimit", [2n, 1n]);
    const args = await world.batchArgs(payments);
    const seen = new Set<string>();
    let lowest = limit;
    const run = (gas: bigint) => chain.trySend(payer, world.vault, "pay", args, gas);
    const check = async (result: Result, gas: bigint) => {
      const outcome = result.ok ? outcomesOf(result).join() : "reverted";
      seen.add(outcome);
      if (result.ok && gas < lowest) lowest = gas;
      if (!result.ok) expect(await chain.read(world.vault, "nextBatchNo")).toBe(1n);
    };
    await scan(chain, range(60_000n, limit, STEP), run, check);
    await scan(chain, range(lowest - STEP, lowest + 500n, EDGE_STEP), run, check);
    expect([...seen].toSorted()).toEqual(["Paid,Paid,Paid", "reverted"]);
    expect(lowest).toBeLessThan(limit);
  });

  it("no gas limit makes a refused payment anything but Failed", async () => {
    const world = await vaultWorld(chain);
    const token = await world.hostile("NEEDS_GAS");
    const recipient = await world.recipient("REVERTS");
    const payments = [
      world.inUsdc(1n, { token: token.address }),
      world.inOutcome(2n, { to: recipient.address }),
    ];
    await chain.send(chain.admin, token, "setBlacklisted", [payments[0]!.to, true]);
    const limit = await chain.read<bigint>(world.vault, "payGasLimit", [1n, 1n]);
    const args = await world.batchArgs(payments);
    const seen = new Set<string>();
    await scan(
      chain,
      range(60_000n, limit, STEP),
      (gas) => chain.trySend(payer, world.vault, "pay", args, gas),
      async (result) => {
        seen.add(result.ok ? outcomesOf(result).join() : "reverted");
      },
    );
    expect([...seen].toSorted()).toEqual(["Failed,Failed", "reverted"]);
  });

  /** The third vault in a row: asking about an id asks two predecessors. */
  async function thirdVault(options: { rich?: bigint } = {}) {
    const first = await vaultWorld(chain, { rich: 0n });
    const second = await vaultWorld(chain, { predecessor: first.vault.address, rich: 0n });
    const third = await vaultWorld(chain, { predecessor: second.vault.address, ...options });
    await handOver(chain, first.vault, second.vault);
    await handOver(chain, second.vault, third.vault);
    return third;
  }
  /** Pays with the gas limit that the vault computes, and no more. */
  async function payExactly(world: VaultWorld, erc20: bigint, payments: Payment[]) {
    const gas = await chain.read<bigint>(world.vault, "payGasLimit", [
      erc20,
      BigInt(payments.length) - erc20,
    ]);
    const args = await world.batchArgs(payments);
    return outcomesOf(await chain.trySend(payer, world.vault, "pay", args, gas));
  }

  it.each([
    ["BURNS_GAS", 50n, "Skipped:5"],
    ["BALANCE_BURNS_GAS", 50n, "Skipped:2"],
    ["HONEST", 1n, "Paid"],
    ["BURNS_GAS", 1n, "Skipped:5"],
  ])("payGasLimit suffices for ERC-20 that %s × %i", async (mode, count, outcome) => {
    const world = await thirdVault();
    const token = await world.hostile(mode);
    const payments = Array.from({ length: Number(count) }, () =>
      world.inUsdc(3n, { token: token.address }),
    );
    expect(await payExactly(world, count, payments)).toEqual(payments.map(() => outcome));
  });

  it.each([
    ["HONEST", "Paid"],
    ["BURNS_GAS", "Skipped:5"],
  ])("payGasLimit suffices for many different tokens that %s", async (mode, outcome) => {
    const world = await thirdVault();
    const payments: Payment[] = [];
    for (let index = 0; index < 50; index++) {
      const token = await world.hostile(mode);
      payments.push(world.inUsdc(3n, { token: token.address }));
    }
    const count = BigInt(payments.length);
    expect(await payExactly(world, count, payments)).toEqual(payments.map(() => outcome));
  });

  it("payGasLimit suffices for four probes that burn their gas and one payment each", async () => {
    const world = await thirdVault();
    const payments: Payment[] = [];
    for (let index = 0; index < 4; index++) {
      const token = await world.hostile("BURNS_GAS");
      payments.push(world.inUsdc(3n, { token: token.address }));
    }
    expect(await payExactly(world, 4n, payments)).toEqual(payments.map(() => "Skipped:5"));
  });

  // The most expensive batch: every id is new to the contract, the limits and the predecessors, and
  // every recipient is new or burns its gas.
  it.each(["BURNS_GAS", "ACCEPTS", "BURNS_MOST"])(
    "payGasLimit suffices for 50 unseen ERC-1155 ids whose recipient %s",
    async (mode) => {
      const world = await thirdVault({ rich: 0n });
      const tokenIds = Array.from({ length: 50 }, (_, index) => (1n << 255n) + BigInt(index));
      await chain.send(chain.stranger, world.outcomes, "mintBatch", [
        world.vault.address,
        tokenIds,
        tokenIds.map(() => 5n),
      ]);
      const recipient = await world.recipient(mode);
      const payments = tokenIds.map((tokenId): Payment =>
        world.inOutcome(5n, { tokenId, to: recipient.address }),
      );
      expect(await payExactly(world, 0n, payments)).toEqual(
        payments.map(() => (mode === "BURNS_GAS" ? "Failed" : "Paid")),
      );
    },
  );

  it("50 payments of either kind stay under a quarter of a block, and every limit under EIP-7825's", async () => {
    const { vault } = await vaultWorld(chain, { rich: 0n });
    const constant = (name: string) => chain.read<bigint>(vault, name);
    const [base, g20, r20, g1155, r1155] = [
      await constant("PAY_BASE_GAS"),
      await constant("ERC20_GAS"),
      await constant("ERC20_RESERVE"),
      await constant("ERC1155_GAS"),
      await constant("ERC1155_RESERVE"),
    ];
    expect(50n * (g20 + r20)).toBeLessThan(QUARTER_OF_A_BLOCK);
    expect(50n * (g1155 + r1155)).toBeLessThan(QUARTER_OF_A_BLOCK);
    expect(await chain.read(vault, "payGasLimit", [3n, 2n])).toBe(
      base + 3n * (g20 + r20) + 2n * (g1155 + r1155),
    );
    const factory = await deployFactory(chain, vault);
    expect(
      await chain.read<bigint>(factory, "sweepGasLimit", [await chain.read(factory, "MAX_ITEMS")]),
    ).toBeLessThan(MAX_TRANSACTION_GAS);
    expect(
      await chain.read<bigint>(vault, "voidGasLimit", [await constant("MAX_VOIDS")]),
    ).toBeLessThan(QUARTER_OF_A_BLOCK);
  });

  it("voidGasLimit suffices for 1 and for 200 new ids behind two predecessors", async () => {
    const { vault } = await thirdVault({ rich: 0n });
    for (const count of [1, 200]) {
      const gas = await chain.read<bigint>(vault, "voidGasLimit", [BigInt(count)]);
      const result = await chain.trySend(
        payer,
        vault,
        "void",
        [Array.from({ length: count }, id32)],
        gas,
      );
      expect(result.events.length).toBe(count);
    }
  });

  it("no gas limit makes a good sweep item SweepFailed, and sweepGasLimit suffices for 75 burning items", async () => {
    const world = await vaultWorld(chain, { rich: 0n });
    const factory = await deployFactory(chain, world.vault);
    const item = async (token: Hex, salt = id32()) => {
      const account = await chain.read(factory, "addressOf", [salt]);
      return { account, item: { salt, token, kind: KIND.erc20, tokenId: 0n, minAmount: 1n } };
    };
    const careful = await world.hostile("NEEDS_GAS", 0n);
    const good = await Promise.all([item(careful.address), item(careful.address)]);
    for (const { account } of good)
      await chain.send(chain.stranger, careful, "mint", [account, 4n]);
    const limit = await chain.read<bigint>(factory, "sweepGasLimit", [2n]);
    const items = good.map((one) => one.item);
    const seen = new Set<string>();
    await scan(
      chain,
      range(60_000n, limit, 2n * STEP),
      (gas) => chain.trySend(sweeper, factory, "sweep", [items], gas),
      async (result) => {
        seen.add(result.ok ? result.events.map(({ eventName }) => eventName).join() : "reverted");
      },
    );
    expect([...seen].toSorted()).toEqual(["Swept,Swept", "reverted"]);

    const token = await world.hostile("BURNS_GAS", 0n);
    const burning = await Promise.all(Array.from({ length: 75 }, () => item(token.address)));
    for (const { account } of burning)
      await chain.send(chain.stranger, token, "mint", [account, 1n]);
    const result = await chain.trySend(
      sweeper,
      factory,
      "sweep",
      [burning.map((one) => one.item)],
      await chain.read(factory, "sweepGasLimit", [75n]),
    );
    expect(result.events.map(({ eventName }) => eventName)).toEqual(
      burning.map(() => "SweepFailed"),
    );
  });
}
