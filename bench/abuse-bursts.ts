/**
 * What a bystander notices in the moment of a burst: one balance read, sent right behind 600 quotes
 * that are refused, which one user sends at once over sockets of six books. Each burst is of
 * another user, because nobody may have so many refused commands twice in ten seconds.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { from, newPerson, openSockets, type Stage } from "./abuse-stage.ts";
import { type Figure, number, percentile } from "./figures.ts";
import { run } from "./load.ts";
import { openMarket, openRequests, quoteFields } from "./market.ts";
import { signed } from "./people.ts";

const BOOKS = 6;
const FRAMES_PER_SOCKET = 100;
const BURSTS = 20;
const ALONE = 60;
const PAUSE_MS = 700;
const AT_MOST_MS = 60;

type Book = { readonly assetId: string; readonly requestId: string };

/** Names of bursts, and the request that a frame quotes on. */
const BURSTS_OF: Readonly<Record<string, (book: Book) => string>> = {
  "600 quotes on open requests": ({ requestId }) => requestId,
  "600 quotes on unknown requests": () => randomUUID(),
};
export const BURST_NAMES = Object.keys(BURSTS_OF);

export async function benchBursts(
  stage: Stage,
  { quick, only, say }: { quick: boolean; only: string; say: (line: string) => void },
): Promise<Figure[]> {
  const books = await Promise.all(
    Array.from({ length: BOOKS }, async (): Promise<Book> => {
      const market = await openMarket(stage.stack, 0);
      const [requestId = ""] = await openRequests(stage.stack, market, 1, 3_600);
      return { assetId: market.assetId, requestId };
    }),
  );
  const figures: Figure[] = [];
  for (const [name, requestOf] of Object.entries(BURSTS_OF).filter(([one]) => one.includes(only))) {
    const alone = await balances(stage, quick ? 10 : ALONE);
    const [during, busyMs]: [number[], number[]] = [[], []];
    const told: Record<string, number> = {};
    for (let n = 0; n < (quick ? 3 : BURSTS); n++) {
      const burst = await prepareBurst(stage, books, told);
      const read = await balanceRead(stage);
      const busyFrom = stage.stack.cpuMs();
      burst.send(requestOf);
      during.push(await timeOf(stage, read));
      await sleep(PAUSE_MS);
      busyMs.push(stage.stack.cpuMs() - busyFrom);
      burst.close();
    }
    say(
      `  ${name}: attacker ${JSON.stringify(told)}, ` +
        `${number(percentile(busyMs, 0.5))} ms of workerd a burst`,
    );
    figures.push({
      what: `${name}: a balance, p50`,
      unit: "ms",
      ours: percentile(during, 0.5),
      target: { atMost: AT_MOST_MS },
      note:
        `alone ${number(percentile(alone, 0.5))} ms, ` +
        `slowest ${number(percentile(during, 1))} ms`,
    });
  }
  return figures;
}

/** Adds the codes of the attacker's answers to `told`. */
async function prepareBurst(stage: Stage, books: readonly Book[], told: Record<string, number>) {
  const attacker = await newPerson(stage);
  const sockets = await openSockets(
    stage.stack,
    attacker,
    books.map(({ assetId }) => assetId),
  );
  for (const socket of sockets) {
    socket.onText = (text) => {
      const { type, data } = JSON.parse(text) as { type: string; data?: { code?: string } };
      if (type === "error") told[data?.code ?? type] = (told[data?.code ?? type] ?? 0) + 1;
    };
  }
  return {
    send: (requestOf: (book: Book) => string) => {
      for (const [index, socket] of sockets.entries()) {
        const book = books[index] as Book;
        for (let n = 0; n < FRAMES_PER_SOCKET; n++)
          socket.send(JSON.stringify({ id: `${n}`, op: "quote", ...quoteFields(requestOf(book)) }));
      }
    },
    close: () => {
      for (const socket of sockets) socket.close();
    },
  };
}

async function balances(stage: Stage, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < count; n++) times.push(await timeOf(stage, await balanceRead(stage)));
  return times;
}

function balanceRead({ requester }: Stage): Promise<Uint8Array> {
  const address = from("192.0.2.2");
  return signed(requester, "GET", "/custody/get-usdc-balance", undefined, address);
}

async function timeOf({ stack }: Stage, request: Uint8Array): Promise<number> {
  const { latencies } = await run({ port: stack.port, lanes: [[request]] });
  return latencies[0] ?? Number.NaN;
}
