/** Random sequences of everything the service and the admin do, beside a model of a few lines. */
import fc from "fast-check";
import type { Address, Hex } from "viem";
import { toHex } from "viem";
import { expect, it } from "vitest";
import { type Chain, KIND, REASON, STATE, deployFactory, outcomesOf, vaultWorld } from "./chain.ts";

const WINDOW = 86_400n;
const LIMIT = 500n;
const IDS = Array.from({ length: 10 }, (_, index) => toHex(index + 1, { size: 32 }));
const SALTS = IDS.slice(0, 3);
const ASSETS = ["usdc", "outcome", "liar"] as const;
type AssetName = (typeof ASSETS)[number];

type Pay = { id: number; asset: AssetName; amount: bigint; good: boolean };
type Step =
  | { do: "pay"; payments: Pay[] }
  | { do: "void"; ids: number[] }
  | { do: "deposit"; salt: number; asset: "usdc" | "outcome"; amount: bigint }
  | { do: "sweep"; items: { salt: number; asset: "usdc" | "outcome"; minAmount: bigint }[] }
  | { do: "limit"; asset: AssetName; amount: bigint }
  | { do: "pause" | "unpause" }
  | { do: "wait"; seconds: number };

const amount = fc.bigInt({ min: 0n, max: 300n });
const index = (length: number) => fc.nat({ max: length - 1 });
const holdable = fc.constantFrom("usdc" as const, "outcome" as const);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("pay" as const),
      payments: fc.array(
        fc.record({
          id: index(IDS.length),
          asset: fc.constantFrom(...ASSETS),
          amount,
          good: fc.boolean(),
        }),
        { minLength: 1, maxLength: 5 },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("void" as const),
      ids: fc.array(index(IDS.length), { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("deposit" as const),
      salt: index(SALTS.length),
      asset: holdable,
      amount,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("sweep" as const),
      items: fc.array(
        fc.record({ salt: index(SALTS.length), asset: holdable, minAmount: amount }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("limit" as const),
      asset: fc.constantFrom(...ASSETS),
      amount: fc.bigInt({ min: 0n, max: 1_000n }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom("pause" as const, "unpause" as const) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      seconds: fc.integer({ min: 1, max: 40_000 }),
    }),
  },
);

type Bucket = { cap: bigint; used: bigint; touched: bigint };

class Model {
  paused = false;
  batchNo = 1n;
  states = IDS.map((): number => STATE.none);
  vault: Record<AssetName, bigint> = { usdc: 400n, outcome: 400n, liar: 400n };
  deposits = SALTS.map(() => ({ usdc: 0n, outcome: 0n }));
  limits: Record<AssetName, Bucket> = {
    usdc: { cap: LIMIT, used: 0n, touched: 0n },
    outcome: { cap: LIMIT, used: 0n, touched: 0n },
    liar: { cap: LIMIT, used: 0n, touched: 0n },
  };

  used(asset: AssetName, now: bigint): bigint {
    const { cap, used, touched } = this.limits[asset];
    const leaked = (cap * (now - touched)) / WINDOW;
    return used > leaked ? used - leaked : 0n;
  }

  pay({ id, asset, amount: value, good }: Pay, now: bigint): string {
    if (this.states[id] !== STATE.none) return `Skipped:${REASON.alreadyDone}`;
    if (value === 0n) return `Skipped:${REASON.invalid}`;
    const used = this.used(asset, now);
    if (used + value > this.limits[asset].cap) return `Skipped:${REASON.overLimit}`;
    if (this.vault[asset] < value) return `Skipped:${REASON.short}`;
    if (asset === "liar") return `Skipped:${REASON.refused}`;
    if (!good) {
      this.states[id] = STATE.failed;
      return "Failed";
    }
    this.states[id] = STATE.paid;
    this.vault[asset] -= value;
    this.limits[asset] = { cap: this.limits[asset].cap, used: used + value, touched: now };
    return "Paid";
  }
}

async function modelWorld(chain: Chain) {
  const world = await vaultWorld(chain, { limit: LIMIT, rich: 400n });
  const liar = await world.hostile("LIES", 400n);
  await chain.send(chain.admin, world.vault, "setLimit", [
    liar.address,
    KIND.erc20Transaction,
    0n,
    LIMIT,
  ]);
  await chain.send(chain.admin, world.vault, "setLimit", [liar.address, KIND.erc20, 0n, LIMIT]);
  // A limit of the id's own, so that raising and lowering it is the same for all three.
  await chain.send(chain.admin, world.vault, "setLimit", [
    world.outcomes.address,
    KIND.erc1155,
    7n,
    LIMIT,
  ]);
  const factory = await deployFactory(chain, world.vault);
  const assets = {
    usdc: { token: world.usdc.address, kind: KIND.erc20, tokenId: 0n },
    outcome: { token: world.outcomes.address, kind: KIND.erc1155, tokenId: 7n },
    liar: { token: liar.address, kind: KIND.erc20, tokenId: 0n },
  };
  const accounts = await Promise.all(
    SALTS.map((salt) => chain.read<Address>(factory, "addressOf", [salt])),
  );
  return { ...world, liar, factory, assets, accounts };
}
type World = Awaited<ReturnType<typeof modelWorld>>;

async function runStep(chain: Chain, world: World, model: Model, step: Step): Promise<void> {
  switch (step.do) {
    case "pay": {
      const payments = step.payments.map(({ id, asset, amount: value, good }) => ({
        ...world.inUsdc(value),
        ...world.assets[asset],
        id: IDS[id] as Hex,
        ...(good ? {} : { to: world.vault.address }),
      }));
      const result = await chain.trySend(
        chain.payer,
        world.vault,
        "pay",
        await world.batchArgs(payments),
      );
      expect(result.ok).toBe(!model.paused);
      if (model.paused) return;
      const now = await chain.now();
      expect(outcomesOf(result)).toEqual(step.payments.map((payment) => model.pay(payment, now)));
      model.batchNo += 1n;
      return;
    }
    case "void": {
      const { events } = await chain.send(chain.payer, world.vault, "void", [
        step.ids.map((id) => IDS[id]),
      ]);
      const told = step.ids.map((id) => {
        const before = model.states[id];
        if (before === STATE.none) model.states[id] = STATE.voided;
        return before === STATE.none
          ? ["Voided", { id: IDS[id] }]
          : ["AlreadyDone", { id: IDS[id], state: before }];
      });
      expect(events.map(({ eventName, args }) => [eventName, args])).toEqual(told);
      return;
    }
    case "deposit": {
      const to = world.accounts[step.salt];
      if (step.asset === "usdc")
        await chain.send(chain.stranger, world.usdc, "mint", [to, step.amount]);
      else await chain.send(chain.stranger, world.outcomes, "mint", [to, 7n, step.amount]);
      model.deposits[step.salt]![step.asset] += step.amount;
      return;
    }
    case "sweep": {
      const items = step.items.map(({ salt, asset, minAmount }) => ({
        salt: SALTS[salt],
        ...world.assets[asset],
        minAmount,
      }));
      const { events } = await chain.send(chain.sweeper, world.factory, "sweep", [items]);
      const told = step.items.map(({ salt, asset, minAmount }) => {
        const held = model.deposits[salt]![asset];
        if (held === 0n || held < minAmount) return ["SweepSkipped", held];
        model.deposits[salt]![asset] = 0n;
        model.vault[asset] += held;
        return ["Swept", held];
      });
      expect(
        events.map(({ eventName, args }) => [eventName, args["amount"] ?? args["held"]]),
      ).toEqual(told);
      return;
    }
    case "limit": {
      const { token, kind, tokenId } = world.assets[step.asset];
      await chain.send(chain.admin, world.vault, "setLimit", [token, kind, tokenId, step.amount]);
      const now = await chain.now();
      model.limits[step.asset] = {
        cap: step.amount,
        used: model.used(step.asset, now),
        touched: now,
      };
      return;
    }
    case "pause":
    case "unpause": {
      const result = await chain.trySend(
        step.do === "pause" ? chain.pauser : chain.admin,
        world.vault,
        step.do,
      );
      expect(result.ok).toBe(model.paused === (step.do === "unpause"));
      model.paused = step.do === "pause";
      return;
    }
    case "wait":
      await chain.pass(step.seconds);
  }
}

async function expectSame(chain: Chain, world: World, model: Model): Promise<void> {
  expect(await chain.read(world.vault, "states", [IDS])).toEqual(model.states);
  expect(await chain.read(world.vault, "nextBatchNo")).toBe(model.batchNo);
  expect(await chain.read(world.vault, "paused")).toBe(model.paused);
  expect({
    usdc: await world.usdcOf(world.vault.address),
    outcome: await world.outcomeOf(world.vault.address),
    liar: await chain.read(world.liar, "trueBalanceOf", [world.vault.address]),
  }).toEqual(model.vault);
  for (const [salt, account] of world.accounts.entries()) {
    expect({ usdc: await world.usdcOf(account), outcome: await world.outcomeOf(account) }).toEqual(
      model.deposits[salt],
    );
  }
}

export function modelTests(chain: Chain): void {
  it(
    "pay, void, sweep, pause and limits in any order do what a plain model does",
    { timeout: 60_000 },
    async () => {
      // One world, put back after every sequence: deploying it would take longer than the sequence.
      const world = await modelWorld(chain);
      let sequences = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 25 }), async (steps) => {
          const id = await chain.client.snapshot();
          const model = new Model();
          try {
            for (const one of steps) await runStep(chain, world, model, one);
            await expectSame(chain, world, model);
          } finally {
            await chain.client.revert({ id });
          }
          sequences += 1;
        }),
        { numRuns: 30, interruptAfterTimeLimit: 4_500, endOnFailure: true },
      );
      expect(sequences).toBeGreaterThan(0);
    },
  );
}
