/**
 * From a request's commit to its arrival at every socket of its book, beside a bare broadcast of the same bytes by a
 * Durable Object in the same workerd; and what sockets cost while they idle.
 *
 * Both clocks start inside the object: when the book's batch came back from D1 (the probe notes it), and when the peer
 * has read what to send. Objects tell whole milliseconds, cut off, which hides the difference where both are small: hence
 * the mean less half of one. A third row starts at D1's clock inside the batch, where clients see created_at.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bench, type Figure, mean, number, percentile } from "./figures.ts";
import { httpRequest, run } from "./load.ts";
import { streamTargets, succeeded } from "./market.ts";
import { makePeople, newToken, type Person, signed } from "./people.ts";
import { type BenchSocket, openSocket } from "./sockets.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const SOCKETS = [1, 100, 1_000] as const;
/** A user may have 20 by default: so do these. */
const SOCKETS_PER_USER = 20;
/** Hibernation comes after 10 s without an event. */
/** Objects tell whole milliseconds, cut off: on average this much too early. */
const CUT_OFF_MS = 0.5;
const ASLEEP_MS = 15_000;
const IDLE_MS = 5_000;
const ARRIVAL_TIMEOUT_MS = 20_000;

export const benchStreams: Bench = async ({ quick, say, onStop }) => {
  const figures: Figure[] = [];
  for (const count of SOCKETS) {
    const events = quick ? 10 : count === 1_000 ? 250 : 400;
    const { ours, peer, fromClock, storedPeer } = await arrivals(count, events, onStop);
    const label = `a request to ${number(count)} ${count === 1 ? "socket" : "sockets"}`;
    say(
      `  ${label}: p50 ${number(percentile(ours.all, 0.5))} ms, bare ${number(percentile(peer.all, 0.5))} ms`,
    );
    const beside = (pick: (one: Arrivals) => number) => ({
      unit: "ms",
      ours: pick(ours),
      peer: { name: "bare broadcast", value: pick(peer) },
    });
    figures.push(
      {
        what: `${label}, p50`,
        ...beside((one) => percentile(one.all, 0.5)),
        target: { atMost: 1.5 },
      },
      { what: "  p99", ...beside((one) => percentile(one.all, 0.99)), target: { atMost: 1.5 } },
      ...(count === 1
        ? []
        : [{ what: "  the last of them, p50", ...beside((one) => percentile(one.last, 0.5)) }]),
      {
        what: "  processor time of workerd an event",
        unit: "ms",
        ours: mean(ours.cpuMs),
        peer: { name: "bare broadcast", value: mean(peer.cpuMs) },
        note: "ours with the commit itself",
      },
      {
        what: "  mean, less the half millisecond",
        unit: "ms",
        ours: mean(ours.all) - CUT_OFF_MS,
        peer: { name: "bare broadcast", value: mean(peer.all) - CUT_OFF_MS },
      },
      {
        what: "  from created_at, p50",
        unit: "ms",
        ours: percentile(fromClock, 0.5),
        peer: { name: "one INSERT, then the broadcast", value: percentile(storedPeer, 0.5) },
      },
      {
        what: "  from created_at, p99",
        unit: "ms",
        ours: percentile(fromClock, 0.99),
        peer: { name: "one INSERT, then the broadcast", value: percentile(storedPeer, 0.99) },
      },
    );
  }
  figures.push(...(await idleSockets(quick, onStop)));
  return figures;
};

type Arrivals = { readonly all: number[]; readonly last: number[]; readonly cpuMs: number[] };

async function arrivals(
  count: number,
  events: number,
  onStop: (stop: () => Promise<void>) => void,
) {
  const stack = await startBenchStack({ peer: "broadcast", probe: true });
  onStop(stack.stop);
  try {
    const { assetId, asset } = newToken();
    const [requester] = (await makePeople(stack, 1, [])) as [Person];
    const body = {
      venue_id: "venue_one",
      asset_id: assetId,
      amount: "1000",
      side: "Bid",
      expires_in_secs: 3_600,
    };
    const readers = await openReaders(stack, count, assetId);
    const bare = await Promise.all(
      Array.from({ length: count }, () => openSocket(stack.peerPort, "/?name=peer")),
    );
    const ours: Arrivals = { all: [], last: [], cpuMs: [] };
    const peer: Arrivals = { all: [], last: [], cpuMs: [] };
    const fromClock: number[] = [];
    const storedPeer: number[] = [];
    await stack.peerDb
      .prepare("CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
      .run();
    for (let event = -3; event < events; event++) {
      const keep = event >= 0;
      const request = await signed(requester, "POST", "/rfq/request", body);
      let cpu = stack.cpuMs();
      let got = collect(readers);
      const answer = await post(stack.port, request);
      const heard = await got;
      const cpuOurs = stack.cpuMs() - cpu;
      const opened = JSON.parse(answer) as { created_at: string };
      const committedAt = await lastBatch(stack, asset);

      // The very bytes of the event go over the peer's sockets.
      const message = httpRequest({ method: "POST", target: "/?name=peer", body: heard.text });
      cpu = stack.cpuMs();
      got = collect(bare);
      const sent = JSON.parse(await post(stack.peerPort, message)) as { at: number };
      const echoed = await got;
      const cpuPeer = stack.cpuMs() - cpu;
      got = collect(bare);
      const stored = JSON.parse(
        await post(
          stack.peerPort,
          httpRequest({ method: "POST", target: "/?name=peer&stored=1", body: heard.text }),
        ),
      ) as { at: number };
      const echoedAgain = await got;
      if (!keep) continue;
      note(ours, heard.at, committedAt, cpuOurs);
      note(peer, echoed.at, sent.at, cpuPeer);
      storedPeer.push(...echoedAgain.at.map((at) => at - stored.at));
      fromClock.push(...heard.at.map((at) => at - Date.parse(opened.created_at)));
    }
    for (const socket of [...readers, ...bare]) socket.close();
    return { ours, peer, fromClock, storedPeer };
  } finally {
    await stack.stop();
  }
}

function note(into: Arrivals, at: readonly number[], from: number, cpuMs: number): void {
  into.all.push(...at.map((instant) => instant - from));
  into.last.push(Math.max(...at) - from);
  into.cpuMs.push(cpuMs);
}

async function openReaders(
  stack: BenchStack,
  count: number,
  assetId: string,
): Promise<BenchSocket[]> {
  const users = await makePeople(stack, Math.ceil(count / SOCKETS_PER_USER), []);
  const targets = await streamTargets(
    stack,
    Array.from({ length: count }, (_, index) => users[index % users.length] as Person),
    assetId,
  );
  const sockets: BenchSocket[] = [];
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let target = targets.pop(); target !== undefined; target = targets.pop())
        sockets.push(await openSocket(stack.port, target));
    }),
  );
  // Hello and snapshot of the last of them are still on their way.
  await sleep(300);
  return sockets;
}

/** The instants at which each socket got its next message, in Unix milliseconds, and its text. */
function collect(sockets: readonly BenchSocket[]): Promise<{ at: number[]; text: string }> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error("an event did not reach every socket")),
      ARRIVAL_TIMEOUT_MS,
    );
    const at: number[] = [];
    for (const socket of sockets) {
      socket.onFrame = (bytes, instant) => {
        at.push(instant);
        if (at.length < sockets.length) return;
        clearTimeout(timer);
        resolve({ at, text: bytes.toString() });
      };
    }
  });
}

async function post(port: number, request: Uint8Array): Promise<string> {
  const { bodies } = succeeded(await run({ port, lanes: [[request]], collect: true }));
  return bodies[0]?.[0] ?? "";
}

/** When the book's latest batch came back, by the object's clock. */
async function lastBatch(stack: BenchStack, book: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${stack.port}/bench/batches?book=${book}`);
  const batches = (await response.json()) as { at: number; statements: number }[];
  const groups = batches.filter(({ statements }) => statements > 10);
  if (groups.length !== 1) throw new Error(`${groups.length} commit groups for one request`);
  return groups[0]?.at ?? 0;
}

/**
 * Ours and the bare ones in a workerd each: memory once taken is seldom given back. What opening a socket leaves behind
 * (tickets, batches of D1, whose garbage waits for room to run out) is no cost of the socket: hence a second figure, of
 * those that come when the heap has grown to its size.
 */
async function idleSockets(
  quick: boolean,
  onStop: (stop: () => Promise<void>) => void,
): Promise<Figure[]> {
  const count = quick ? 200 : 1_000;
  const measured = async (
    open: (stack: BenchStack, howMany: number, name: string) => Promise<BenchSocket[]>,
  ) => {
    const stack = await startBenchStack({ peer: "broadcast" });
    onStop(stack.stop);
    try {
      const book = newToken().assetId;
      const sockets = await open(stack, count, book);
      await sleep(quick ? 1_000 : ASLEEP_MS);
      const first = stack.rssMb();
      const cpuFrom = stack.cpuMs();
      await sleep(IDLE_MS);
      const idleCpu = stack.cpuMs() - cpuFrom;
      for (let more = 0; more < 2; more++) sockets.push(...(await open(stack, count, book)));
      await sleep(quick ? 1_000 : ASLEEP_MS);
      const all = stack.rssMb();
      for (const socket of sockets) socket.close();
      return { first, each: (1_024 * (all - first)) / (2 * count), idleCpu };
    } finally {
      await stack.stop();
    }
  };
  const ours = await measured(openReaders);
  const bare = await measured((stack, howMany, name) =>
    Promise.all(
      Array.from({ length: howMany }, () => openSocket(stack.peerPort, `/?name=${name}`)),
    ),
  );
  const beside = (pick: (one: typeof ours) => number) => ({
    ours: pick(ours),
    peer: { name: "bare sockets", value: pick(bare) },
  });
  return [
    {
      what: `memory of workerd with ${number(count)} idle sockets of one book`,
      unit: "MB",
      ...beside((one) => one.first),
    },
    {
      what: `  a socket of the next ${number(2 * count)}`,
      unit: "KB",
      ...beside((one) => one.each),
    },
    {
      what: `  processor time in ${IDLE_MS / 1_000} s of idling`,
      unit: "ms",
      ...beside((one) => one.idleCpu),
    },
  ];
}
