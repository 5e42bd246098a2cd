/** Injects faults during a soak, one after the other and sometimes two at once. */
import { setTimeout as sleep } from "node:timers/promises";
import { order as orderOnce } from "../operator/carry-out.ts";
import type { ServiceStatus } from "../operator/results.ts";
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";
import { ASSETS } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { newKey } from "./people.ts";
import { withSession, type World } from "./world.ts";
import type { Lie } from "./lies.ts";
import { type Gate, RPC_FAULTS, type RpcProxy } from "./rpc-proxy.ts";
import { depositWithSweep } from "./sweep-block.ts";

export type Faults = World & {
  proxies: readonly RpcProxy[];
  /** In front of the proxies. */
  gate: Gate;
  /** The same endpoint for the whole run, because two that omit the same log would agree. */
  liar: RpcProxy;
  confirmations: number;
};

const WEIGHTS = {
  kill: 3,
  reorg: 5,
  "RPC, one of two": 6,
  "RPC, both": 2,
  "one endpoint lies": 5,
  "mempool lost": 3,
  "wake-up doubled": 3,
  "no blocks": 2,
  "deposit in the sweep's block": 4,
  "fee spike": 2,
  "withdrawals paused": 1,
  "user frozen": 2,
  "key revoked": 2,
} as const;

const LONGEST_MS = 6_000;
const GWEI = 10n ** 9n;

export async function breakThings(world: Faults, dice: Dice): Promise<void> {
  const running = new Set<Promise<void>>();
  while (!world.ended()) {
    await sleep(dice.between(200, 2_500));
    if (world.ended()) break;
    const fault = dice.weighted(WEIGHTS);
    world.tally.count("fault", fault);
    const done = BREAK[fault](world, dice).catch(
      (error: unknown) => void world.tally.odd.push(`${fault}: ${String(error)}`),
    );
    running.add(done);
    void done.then(() => running.delete(done));
    if (dice.chance(0.6)) await done;
  }
  await Promise.all(running);
}

const BREAK: Readonly<Record<keyof typeof WEIGHTS, (world: Faults, dice: Dice) => Promise<void>>> =
  {
    kill: ({ stack }) => stack.killWorkerd(),
    reorg: ({ chain, gate, people, confirmations }, dice) => {
      const rival = {
        asset: dice.pick(ASSETS),
        to: dice.pick(dice.pick(people).addresses),
        amount: BigInt(dice.between(1, 1_000_000)),
      };
      const depth = dice.between(1, confirmations - 1);
      const instead = dice.chance(0.5) ? rival : null;
      return gate.closeWhile(() => chain.reorg(depth, instead));
    },
    "RPC, one of two": ({ proxies }, dice) => failFor([dice.pick(proxies)], dice),
    "RPC, both": ({ proxies }, dice) => failFor(proxies, dice),
    "one endpoint lies": async (world, dice) => {
      world.liar.lie(await inventLie(world, dice));
      await sleep(dice.between(500, LONGEST_MS));
      world.liar.lie(null);
    },
    "mempool lost": async ({ chain }) => {
      await chain.rpc("anvil_dropAllTransactions");
      await chain.sendAgain();
    },
    "wake-up doubled": doubleDoorbell,
    "no blocks": ({ chain }, dice) => chain.still(() => sleep(dice.between(1_000, LONGEST_MS))),
    "deposit in the sweep's block": depositWithSweep,
    "fee spike": ({ chain }, dice) =>
      chain.client.setNextBlockBaseFeePerGas({ baseFeePerGas: BigInt(dice.between(5, 60)) * GWEI }),
    "withdrawals paused": async (world, dice) => {
      await order(world, "withdrawals pause");
      await sleep(dice.between(500, LONGEST_MS));
      await order(world, "withdrawals resume");
    },
    "user frozen": async (world, dice) => {
      const options = { email: dice.pick(world.people).email };
      await order(world, "user freeze", options);
      await sleep(dice.between(500, LONGEST_MS));
      await order(world, "user unfreeze", options);
    },
    "key revoked": async (world, dice) => {
      const person = dice.pick(world.people);
      await order(world, "api-key revoke", { id: person.apiKeyId });
      await sleep(dice.between(0, 1_000));
      // A kill may lose the response. An extra key is harmless.
      for (let tries = 0; ; tries++) {
        try {
          const { codes } = person;
          const made = await withSession(person, (session) =>
            newKey(world.stack, { session, codes }),
          );
          return void Object.assign(person, made);
        } catch (error) {
          if (tries === ORDER_TRIES) throw error;
          await sleep(500);
        }
      }
    },
  };

const ORDER_TRIES = 20;

/** Repeats the command until it gets a response. All of them may run twice. */
export function order(
  { stack }: Pick<World, "stack">,
  words: string,
  options: Record<string, string> = {},
): Promise<unknown> {
  const operator = async (request: OperatorRequest): Promise<OperatorResponse> => {
    for (let tries = 0; ; tries++) {
      try {
        const response = await stack.operator(request);
        if (response.ok || tries === ORDER_TRIES) return response;
      } catch (error) {
        if (tries === ORDER_TRIES) throw error;
      }
      await sleep(500);
    }
  };
  return orderOnce({ operator }, words, options);
}

export async function serviceStatus(world: Pick<World, "stack">): Promise<ServiceStatus> {
  // Safe cast: the result of the command.
  return (await order(world, "chain status")) as ServiceStatus;
}

async function failFor(proxies: readonly RpcProxy[], dice: Dice): Promise<void> {
  for (const proxy of proxies) proxy.fail(dice.pick(RPC_FAULTS));
  await sleep(dice.between(500, LONGEST_MS));
  for (const proxy of proxies) proxy.fail(null);
}

async function inventLie(
  { chain, people, stack, confirmations }: Faults,
  dice: Dice,
): Promise<Lie> {
  const kind = dice.pick(["invented_logs", "omitted_logs", "other_head"] as const);
  if (kind === "omitted_logs") return { kind };
  if (kind === "invented_logs") {
    const to = dice.pick(dice.pick(people).addresses);
    return { kind, usdc: stack.deployment.usdc, to, amount: BigInt(dice.between(1, 1_000_000)) };
  }
  // Sometimes below the confirmed block, which looks like a deep reorg.
  const fork = Number(await chain.client.getBlockNumber()) - dice.between(0, 2 * confirmations);
  return { kind, fork, ahead: dice.between(0, confirmations) };
}

/**
 * Wake-ups that arrive twice, together, and after their withdrawal has ended, and an invalid one.
 */
async function doubleDoorbell({ stack, people }: Faults, dice: Dice): Promise<void> {
  const { items } = await dice
    .pick(people)
    .client.custody.withdrawals({ limit: 10 })
    .page()
    .catch(() => ({ items: [] }));
  const messages = items.map(({ withdrawal_id, chain }) => ({ withdrawal_id, chain }));
  const poison = { withdrawal_id: "none", chain: "nowhere" };
  await Promise.all([
    stack.sendWakeUps([...messages, ...messages, poison]),
    stack.sendWakeUps([...messages, poison]),
  ]).catch(() => {});
}
