/**
 * Time from a request's commit to its arrival at every socket of its book, compared with a bare
 * broadcast of the same bytes by a Durable Object in the same workerd. Also the cost of idle
 * sockets.
 *
 * Both clocks start inside the object: when the book's batch has returned from D1 (the probe
 * records it), and when the peer has read its message. Objects report whole milliseconds, rounded
 * down. That hides the difference if both times are small, so a row has the mean less half a
 * millisecond. The rows from created_at start at D1's clock inside the batch.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bench, type Figure, mean, number, percentile } from "./figures.ts";
import { httpRequest, run } from "./load.ts";
import { streamTargets, succeeded } from "./market.ts";
import { makePeople, newToken, type Person, signed } from "./people.ts";
import { type BenchSocket, openSocket } from "./sockets.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const SOCKETS = [1, 100, 1_000] as const;
/** The default limit per user. */
const SOCKETS_PER_USER = 20;
const TICKETS_AT_ONCE = 200;
/** So many that p99 does not hang on three or four garbage collections. */
const EVENTS = 1_200;
/** Objects round milliseconds down, on average by this much. */
const ROUNDING_MS = 0.5;
/** Objects hibernate after 10 s without an event. */
const ASLEEP_MS = 15_000;
const IDLE_MS = 5_000;
const ARRIVAL_TIMEOUT_MS = 20_000;

export const benchStreams: Bench = async ({ quick, say, onStop }) => {
  const figures: Figure[] = [];
  for (const count of SOCKETS) {
    const events = quick ? 10 : EVENTS;
    const { ours, peer, fromClock, storedPeer } = await arrivals(count, events, onStop);
    const label = `a request to ${number(count)} ${count === 1 ? "socket" : "sockets"}`;
    say(
      `  ${label}: p50 ${number(percentile(ours.all, 0.5))} ms, bare ` +
        `${number(percentile(peer.all, 0.5))} ms`,
    );
    const pair = (pick: (one: Arrivals) => number) => ({
      unit: "ms",
      ours: pick(ours),
      peer: { name: "bare broadcast", value: pick(peer) },
    });
    figures.push(
      {
        what: `${label}, p50`,
        ...pair((one) => percentile(one.all, 0.5)),
        target: { atMost: 1.5 },
      },
      {
        what: "  p99",
        ...pair((one) => percentile(one.all, 0.99)),
        target: { atMost: count === 1_000 ? 1.3 : 1.5 },
      },
      ...(count === 1
        ? []
        : [{ what: "  the last socket, p50", ...pair((one) => percentile(one.last, 0.5)) }]),
      {
        what: "  processor time of workerd per event",
        unit: "ms",
        ours: mean(ours.cpuMs),
        peer: { name: "bare broadcast", value: mean(peer.cpuMs) },
        note: "ours includes the commit",
      },
      {
        what: "  mean, less the half millisecond",
        unit: "ms",
        ours: mean(ours.all) - ROUNDING_MS,
        peer: { name: "bare broadcast", value: mean(peer.all) - ROUNDING_MS },
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
    const subscribers = await openSubscribers(stack, count, assetId);
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
      let got = collect(subscribers);
      const response = await post(stack.port, request);
      const received = await got;
      const cpuOurs = stack.cpuMs() - cpu;
      const opened = JSON.parse(response) as { created_at: string };
      const committedAt = await lastBatch(stack, asset);

      // The peer sends the same bytes as the event had.
      const message = httpRequest({ method: "POST", target: "/?name=peer", body: received.text });
      cpu = stack.cpuMs();
      got = collect(bare);
      const sent = JSON.parse(await post(stack.peerPort, message)) as { at: number };
      const echoed = await got;
      const cpuPeer = stack.cpuMs() - cpu;
      got = collect(bare);
      const stored = JSON.parse(
        await post(
          stack.peerPort,
          httpRequest({ method: "POST", target: "/?name=peer&stored=1", body: received.text }),
        ),
      ) as { at: number };
      const echoedAgain = await got;
      if (!keep) continue;
      note(ours, received.at, committedAt, cpuOurs);
      note(peer, echoed.at, sent.at, cpuPeer);
      storedPeer.push(...echoedAgain.at.map((at) => at - stored.at));
      fromClock.push(...received.at.map((at) => at - Date.parse(opened.created_at)));
    }
    for (const socket of [...subscribers, ...bare]) socket.close();
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

async function openSubscribers(
  stack: BenchStack,
  count: number,
  assetId: string,
): Promise<BenchSocket[]> {
  const users = await makePeople(stack, Math.ceil(count / SOCKETS_PER_USER), []);
  const sockets: BenchSocket[] = [];
  // A ticket ends after 30 s, in which a busy machine opens only some of the sockets.
  for (let from = 0; from < count; from += TICKETS_AT_ONCE) {
    const owners = Array.from(
      { length: Math.min(TICKETS_AT_ONCE, count - from) },
      (_, index) => users[(from + index) % users.length] as Person,
    );
    const targets = await streamTargets(stack, owners, assetId);
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let target = targets.pop(); target !== undefined; target = targets.pop())
          sockets.push(await openSocket(stack.port, target));
      }),
    );
  }
  // The last sockets have yet to receive their hello and snapshot.
  await sleep(300);
  return sockets;
}

/** When each socket received its next message, in Unix milliseconds, and the message's text. */
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

/** When the book's latest batch returned, by the object's clock. */
async function lastBatch(stack: BenchStack, book: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${stack.port}/bench/batches?book=${book}`);
  const batches = (await response.json()) as { at: number; first?: string }[];
  const groups = batches.filter(({ first }) => first?.startsWith("INSERT INTO commit_groups"));
  if (groups.length !== 1) throw new Error(`${groups.length} commit groups for one request`);
  return groups[0]?.at ?? 0;
}

/**
 * Memory and processor time of idle sockets. Ours and the bare ones run in separate workerds,
 * because a process seldom returns memory. Opening a socket leaves garbage (tickets, D1 batches)
 * that is not a cost of the socket, so a second figure counts the sockets that are opened when the
 * heap has grown already.
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
  const ours = await measured(openSubscribers);
  const bare = await measured((stack, howMany, name) =>
    Promise.all(
      Array.from({ length: howMany }, () => openSocket(stack.peerPort, `/?name=${name}`)),
    ),
  );
  const pair = (pick: (one: typeof ours) => number) => ({
    ours: pick(ours),
    peer: { name: "bare sockets", value: pick(bare) },
  });
  return [
    {
      what: `memory of workerd with ${number(count)} idle sockets of one book`,
      unit: "MB",
      ...pair((one) => one.first),
    },
    {
      what: `  each of the next ${number(2 * count)}`,
      unit: "KB",
      ...pair((one) => one.each),
    },
    {
      what: `  processor time in ${IDLE_MS / 1_000} s of idleness`,
      unit: "ms",
      ...pair((one) => one.idleCpu),
    },
  ];
}
