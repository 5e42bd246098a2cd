/**
 * What a bystander notices while one user attacks: the time of a quote in the attacked book and of
 * a balance read, compared with the same calls without an attack, seconds before. Rate limits are
 * on. A control with as many cheap requests shows what the machine itself adds.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { BURST_NAMES, benchBursts } from "./abuse-bursts.ts";
import { benchLogins } from "./abuse-logins.ts";
import { readAttacks } from "./abuse-reads.ts";
import {
  ATTACKER,
  from,
  newPerson,
  openSockets,
  restFlood,
  type Stage,
  type Tally,
} from "./abuse-stage.ts";
import { type Bench, type Figure, number, percentile } from "./figures.ts";
import { drive, httpRequest, type LoadResult } from "./load.ts";
import { quoteFields, requestFields, sendAll } from "./market.ts";
import { loginRequest, makePeople, newToken, type Person, signed } from "./people.ts";
import type { BenchStack } from "./stack.ts";

/** The bystander's pace. At most 50 quotes of one maker may be open on a request. */
const EVERY_MS = 30;
const QUOTE_LIFE_SECS = 1;
/** The pace of each lane of the user who fills the streams that are not read. */
const BUSY_EVERY_MS = 50;
const SOCKETS = 10;
/** 350 frames a second, which is just allowed. More close the sockets, which ends the attack. */
const FRAMES_PER_BURST = 35;
/** Two bursts never fall into the service's same second. */
const BURST_EVERY_MS = 1_100;
const FRAMES_AT_ONCE = 200;
const BIG_FRAME_BYTES = 30 * 1_024 * 1_024;
const ASSETS = 3_000;
/** A body of 58 kB. */
const UNKNOWN_FIELDS = 7_500;

const BYSTANDER = from("192.0.2.1");

/**
 * Prepares an attack. The function it returns attacks for `ms` and returns what the attacker was
 * told, by status or code.
 */
type Attack = (stage: Stage) => Promise<(ms: number) => Promise<Tally>>;

const CONTROL = "control: GET /time";
/** Measured by its own tries of owners (abuse-logins.ts). */
const LOGINS = "logins of many accounts";
const ATTACKS: Readonly<Record<string, Attack>> = {
  [CONTROL]: async (stage) =>
    restFlood(stage, [httpRequest({ method: "GET", target: "/time", headers: ATTACKER })]),
  "frames: 2 000 refused quotes at once": (stage) =>
    frameFlood(stage, FRAMES_AT_ONCE, () => ({ op: "quote", ...quoteFields(stage.requestId) })),
  "frames: refused quotes": (stage) =>
    frameFlood(stage, FRAMES_PER_BURST, () => ({ op: "quote", ...quoteFields(stage.requestId) })),
  "frames: unknown ids": (stage) =>
    frameFlood(stage, FRAMES_PER_BURST, () => ({ op: "cancel_quote", quote_id: randomUUID() })),
  "frames: 30 MiB each": bigFrames,
  "sockets that do not read": slowReaders,
  "REST: refused quotes": async (stage) => {
    const quote = quoteFields(stage.requestId);
    const attacker = await newPerson(stage);
    return restFlood(stage, [await signed(attacker, "POST", "/rfq/quote", quote, ATTACKER)]);
  },
  "REST: unknown keys": async (stage) =>
    restFlood(
      stage,
      Array.from({ length: 500 }, () =>
        httpRequest({
          method: "GET",
          target: "/auth/whoami",
          headers: {
            ...ATTACKER,
            apikey: randomUUID(),
            "x-hmac-timestamp": String(Date.now()),
            "x-hmac-signature": "x",
          },
        }),
      ),
    ),
  "REST: unknown fields": async (stage) =>
    restFlood(stage, [
      loginRequest(
        Object.fromEntries(Array.from({ length: UNKNOWN_FIELDS }, (_, n) => [`k${n}`, 1])),
        ATTACKER,
      ),
    ]),
  "REST: logins from many networks": async (stage) =>
    restFlood(
      stage,
      Array.from({ length: 500 }, (_, n) =>
        loginRequest(
          { email: `${randomUUID()}@x.example`, password: "a wrong password" },
          from(`2001:db8:1:${n.toString(16)}::1`),
        ),
      ),
    ),
  "REST: tickets": async (stage) => {
    const target = "/auth/ws-ticket/signed";
    const attacker = await newPerson(stage);
    return restFlood(stage, [await signed(attacker, "POST", target, undefined, ATTACKER)]);
  },
  "REST: a ledger of many assets": async (stage) => {
    const assets = Array.from({ length: ASSETS }, () => newToken().asset);
    const [attacker] = (await makePeople(stage.stack, 1, assets, { units: 1 })) as [Person];
    const target = "/custody/get-ledger?limit=1";
    return restFlood(stage, [await signed(attacker, "GET", target, undefined, ATTACKER)]);
  },
};

export const benchAbuse: Bench = async ({ quick, only = "", say, start }) => {
  const ms = quick ? 2_000 : 8_000;
  const stack = await start({
    limits: true,
    inMemory: true,
    settings: {
      RATE_LIMITS: "on",
      STREAM_SOCKETS_PER_USER: "20",
      RFQ_OPEN_QUOTES_PER_USER: "1000",
    },
  });
  const figures: Figure[] = [];
  let control: Probed | undefined;
  const stage = await openStage(stack);
  await probe(stage, 1_000);
  for (const [name, attack] of Object.entries({ ...ATTACKS, ...readAttacks(quick) })) {
    if (name !== CONTROL && !name.includes(only)) continue;
    const idleFrom = stack.cpuMs();
    const alone = await probe(stage, ms);
    const idleMs = stack.cpuMs() - idleFrom;
    const begin = await attack(stage);
    const [rss, busyFrom] = [stack.rssMb(), stack.cpuMs()];
    const [during, told] = await Promise.all([probe(stage, ms), begin(ms)]);
    const each = (stack.cpuMs() - busyFrom - idleMs) / Math.max(1, total(told));
    say(
      `  ${name}: attacker ${tally(told)}, ${number(each)} ms of workerd each; ` +
        `bystander ${tally(during.statuses)}; ${number(rss)} → ${number(stack.rssMb())} MB`,
    );
    figures.push(...compare(name, { alone, during, control }));
    control ??= during;
    // The classes of ten seconds must not reach into the next attack.
    await sleep(quick ? 500 : 3_000);
  }
  if (BURST_NAMES.some((name) => name.includes(only)))
    figures.push(...(await benchBursts(stage, { quick, only, say })));
  if (LOGINS.includes(only)) figures.push(...(await benchLogins(stack, { quick, say })));
  return figures;
};

async function openStage(stack: BenchStack): Promise<Stage> {
  const { asset, assetId } = newToken();
  const [requester, maker] = (await makePeople(stack, 2, [asset, "usdc"])) as [Person, Person];
  const body = requestFields({ assetId });
  const [request] = await sendAll(stack, [await signed(requester, "POST", "/rfq/request", body)]);
  return { stack, assetId, requestId: String(request?.["request_id"]), requester, maker };
}

type Probed = {
  readonly quotes: LoadResult;
  readonly reads: LoadResult;
  readonly statuses: Readonly<Record<string, number>>;
};

/** A maker who quotes in the attacked book, and the requester who reads their balance. */
async function probe(
  { stack, requestId, requester, maker }: Stage,
  forMs: number,
): Promise<Probed> {
  const quote = quoteFields(requestId, QUOTE_LIFE_SECS);
  const paced = (request: Uint8Array) =>
    drive({ port: stack.port, lanes: [[request]], forMs, everyMs: EVERY_MS });
  const [quotes, reads] = await Promise.all([
    paced(await signed(maker, "POST", "/rfq/quote", quote, BYSTANDER)),
    paced(
      await signed(requester, "GET", "/custody/get-usdc-balance", undefined, from("192.0.2.2")),
    ),
  ]);
  const statuses: Record<string, number> = {};
  for (const result of [quotes, reads])
    for (const [status, count] of Object.entries(result.statuses))
      statuses[status] = (statuses[status] ?? 0) + count;
  return { quotes, reads, statuses };
}

function compare(
  name: string,
  { alone, during, control }: { alone: Probed; during: Probed; control: Probed | undefined },
): Figure[] {
  const row = (
    what: string,
    pick: (probed: Probed) => LoadResult,
    [share, atMost]: readonly [number, number],
  ): Figure => {
    const of = (probed: Probed) => percentile(pick(probed).latencies, share);
    return {
      what,
      unit: "ms",
      ours: of(during),
      peer: { name: "alone", value: of(alone) },
      target: { atMost },
      ...(control === undefined
        ? {}
        : { note: `${number(of(during) / of(control))}× the control` }),
    };
  };
  const [p50, p99] = [
    [0.5, 2],
    [0.99, 3],
  ] as const;
  return [
    row(`${name}: a quote in the book, p50`, ({ quotes }) => quotes, p50),
    row("  p99", ({ quotes }) => quotes, p99),
    row("  a balance, p50", ({ reads }) => reads, p50),
    row("  p99", ({ reads }) => reads, p99),
  ];
}

function ofBook({ assetId }: Stage, sockets: number): string[] {
  return Array.from({ length: sockets }, () => assetId);
}

/** Each socket sends a burst of commands about every second. */
async function frameFlood(stage: Stage, framesPerBurst: number, command: () => object) {
  const sockets = await openSockets(stage.stack, await newPerson(stage), ofBook(stage, SOCKETS));
  const told: Record<string, number> = {};
  for (const socket of sockets) {
    socket.onText = (text) => {
      const { type, data } = JSON.parse(text) as { type: string; data?: { code?: string } };
      if (type === "error") told[data?.code ?? type] = (told[data?.code ?? type] ?? 0) + 1;
    };
  }
  return async (ms: number) => {
    const until = performance.now() + ms;
    while (performance.now() < until) {
      for (const socket of sockets)
        for (let n = 0; n < framesPerBurst; n++)
          socket.send(JSON.stringify({ id: String(n), ...command() }));
      await sleep(BURST_EVERY_MS);
    }
    for (const socket of sockets) socket.close();
    return told;
  };
}

/** Each socket sends one frame. */
async function bigFrames(stage: Stage) {
  const sockets = await openSockets(stage.stack, await newPerson(stage), ofBook(stage, SOCKETS));
  const frame = "a".repeat(BIG_FRAME_BYTES);
  return async (ms: number) => {
    for (const socket of sockets) {
      socket.send(frame);
      await sleep(ms / SOCKETS);
    }
    for (const socket of sockets) socket.close();
    return { frames: sockets.length };
  };
}

/** The sockets read nothing while a user fills their stream with events. */
async function slowReaders(stage: Stage) {
  const sockets = await openSockets(
    stage.stack,
    await newPerson(stage),
    ofBook(stage, 2 * SOCKETS),
  );
  for (const socket of sockets) socket.stopReading();
  const busy = await newPerson(stage);
  const body = { ...requestFields(stage, 1), amount: "1" };
  const request = await signed(busy, "POST", "/rfq/request", body, from("192.0.2.3"));
  return async (ms: number) => {
    const { statuses } = await drive({
      port: stage.stack.port,
      lanes: [[request], [request]],
      forMs: ms,
      everyMs: BUSY_EVERY_MS,
    });
    for (const socket of sockets) socket.close();
    return statuses;
  };
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function tally(counts: Readonly<Record<string, number>>): string {
  const parts = Object.entries(counts).map(([name, count]) => `${name} × ${number(count)}`);
  return parts.length === 0 ? "was told nothing" : parts.join(", ");
}
