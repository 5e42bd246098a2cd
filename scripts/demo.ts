/**
 * `npm run demo` plays a deposit, a trade, a withdrawal and a market that pays through the public
 * interface, on a stack of its own. It exits with 0, or with 1 and the step that failed. It leaves
 * no process running.
 */
import { join } from "node:path";
import { checkBooks } from "./demo/books.ts";
import { deposit } from "./demo/deposits.ts";
import { Narrator, duration } from "./demo/narrator.ts";
import { findMarket } from "./demo/market.ts";
import { payMarket } from "./demo/pair.ts";
import { introduce, untilListening } from "./demo/people.ts";
import { acceptBetter, quoteTwice } from "./demo/trade.ts";
import { withdraw } from "./demo/withdrawal.ts";
import type { World } from "./demo/world.ts";
import { readArguments } from "./stack/arguments.ts";
import { openFaucet } from "./stack/faucet.ts";
import { freePort, portFrom } from "./stack/ports.ts";
import { runScript } from "./stack/shutdown.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";

const HOME = join(".stack", "demo");
const USAGE = `npm run demo -- [--dir <path>]

Plays a deposit, a trade, a withdrawal and a market that pays on a stack of its own, and ends.

  --dir <path>   the directory of state and logs (default: ${HOME})

It takes free ports, or PORT and RPC_PORT of the environment.`;

const { dir } = readArguments(USAGE, { dir: { type: "string", default: HOME } });

const tell = new Narrator();
const report = (error: unknown) => tell.failure(error, join(dir, "worker.log"));

await runScript(async (onStop) => {
  const startedAt = performance.now();
  const stack = await tell.step(1, "anvil, contracts, migrations, the Worker in workerd", () =>
    startOwnStack(dir),
  );
  onStop(() => stack.stop());
  await play(stack, onStop);
  tell.table();
  tell.line();
  tell.line(
    `Every step passed, in ${duration(performance.now() - startedAt)}. Try it by hand: npm run dev, ` +
      "and open http://127.0.0.1:8787/console/",
  );
  return 0;
}, report);

async function startOwnStack(stackDir: string): Promise<Stack> {
  // Free ports, so that the demo runs beside `npm run dev`.
  const port = portFrom("PORT", await freePort());
  const rpcPort = portFrom("RPC_PORT", await freePort());
  const stack = await startStack({ port, rpcPort, dir: stackDir, log: (line) => tell.note(line) });
  tell.fact(`${stack.baseUrl}, chain ${stack.rpcUrl}`);
  return stack;
}

async function play(stack: Stack, onStop: (stop: () => Promise<void>) => void): Promise<void> {
  const faucet = await openFaucet(stack);
  const streams: World["streams"] = [];
  onStop(async () => streams.forEach((stream) => stream.close()));
  const cast = await tell.step(2, "a taker and two makers get accounts and keys", async () => {
    const people = await introduce(stack, tell);
    const everyone = [people.taker, ...people.makers];
    streams.push(...everyone.map(({ account }) => account.stream));
    await tell.call(
      "POST /auth/ws-ticket/signed, GET /account/stream?ticket=… (each)",
      () => untilListening(everyone),
      () => "101 hello, three times",
    );
    return people;
  });
  const market = await tell.step(3, "the operator lists markets, and the taker finds one", () =>
    findMarket(stack, tell, cast.taker.client),
  );
  const asset = { venue_id: market.venue_id, asset_id: market.asset_id };
  const world: World = {
    stack,
    faucet,
    tell,
    asset,
    market,
    streams,
    ...cast,
  };
  await tell.step(4, "deposits: from the chain into the journal", () => deposit(world));
  const quoted = await tell.step(5, "makers receive a two-way request and quote it", () =>
    quoteTwice(world),
  );
  await tell.step(6, "the taker accepts the better quote", () => acceptBetter(world, quoted));
  await tell.step(7, "a withdrawal: paid by the vault, once", () => withdraw(world));
  await tell.step(8, "a market that pays: USDC alone makes a quote, and a result pays", () =>
    payMarket(world),
  );
  await tell.step(9, "the books: journal, balances and chain", () => checkBooks(world));
}
