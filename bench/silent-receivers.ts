/**
 * Accepts, and deliveries to webhooks whose receivers answer, beside 1 000 webhooks whose receivers
 * never do. The peer is a stack without these. Rounds alternate: in the first minute, in which
 * each of the 1 000 waits for an answer or tries again after some seconds, and when they have been
 * silent for minutes. One thread of workerd runs what Cloudflare spreads over many machines.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { newWebhookSecret, sealWebhook } from "../src/auth/webhook-secrets.ts";
import { WEBHOOK_TYPES } from "../src/feeds/event-views.ts";
import { commitOrThrow, newGroup } from "../src/platform/commit.ts";
import { sql, uuid } from "../src/platform/sql.ts";
import { uuidv7 } from "../src/platform/uuid.ts";
import { announceNotice } from "../src/streams/notice.ts";
import { type Bench, type Figure, percentile } from "./figures.ts";
import { drive } from "./load.ts";
import { acceptsOf, openMarket, openRequests, quoteEach, succeeded } from "./market.ts";
import { makePeople, type Person } from "./people.ts";
import type { BenchStack } from "./stack.ts";

const EVERY_MS = 10;
/** After it most of the silent ones wait for five minutes. */
const SILENT_MS = 330_000;
const DELIVERED_WITHIN_MS = 120_000;
/** Webhooks that one batch makes. */
const PER_COMMIT = 20;

/** Milliseconds of each accept, and from each commit to the receipt of its event. */
type Times = { readonly accepts: number[]; readonly deliveries: number[] };

export const benchSilentReceivers: Bench = async ({ quick, say, start, onStop }) => {
  const [rounds, accepts, silent] = quick ? [1, 50, 50] : [3, 300, 1_000];
  const receiver = await startReceiver();
  onStop(receiver.stop);
  const settings = { WEBHOOK_LOOPBACK: "on" };
  const stacks = [await start({ settings }), await start({ settings })] as const;
  const measure = async (when: string): Promise<Figure[]> => {
    const before = receiver.silenced();
    const ours: Times = { accepts: [], deliveries: [] };
    const alone: Times = { accepts: [], deliveries: [] };
    for (let round = 0; round < rounds; round++)
      for (const [stack, times] of [
        [stacks[0], ours],
        [stacks[1], alone],
      ] as const) {
        const { accepts: each, deliveries } = await acceptEach(stack, receiver, accepts);
        times.accepts.push(...each);
        times.deliveries.push(...deliveries);
      }
    say(`  ${when}: ${receiver.silenced() - before} deliveries got no answer`);
    return [
      ...figuresOf(`an accept, ${when}`, ours.accepts, alone.accepts),
      ...figuresOf(`a delivery to others, ${when}`, ours.deliveries, alone.deliveries),
    ];
  };
  // Not counted, because the first calls of a stack are slow.
  for (const stack of stacks) await acceptEach(stack, receiver, accepts);
  await addWebhooks(stacks[0], await makePeople(stacks[0], silent, []), `${receiver.url}silent`);
  const since = Date.now();
  const figures = await measure("first minute");
  if (quick) return figures;
  await sleep(since + SILENT_MS - Date.now());
  return [...figures, ...(await measure("later"))];
};

function figuresOf(what: string, ours: readonly number[], alone: readonly number[]): Figure[] {
  const figure = (name: string, share: number): Figure => ({
    what: name,
    unit: "ms",
    ours: percentile(ours, share),
    peer: { name: "no silent receivers", value: percentile(alone, share) },
  });
  return [figure(`${what}, p50`, 0.5), { ...figure("  p99", 0.99), target: { atMost: 1.05 } }];
}

/** Of one maker with a webhook, one after the other. */
async function acceptEach(stack: BenchStack, receiver: Receiver, count: number): Promise<Times> {
  const market = await openMarket(stack, 1);
  await addWebhooks(stack, market.makers, `${receiver.url}answers`);
  const quotes = await quoteEach(stack, market, await openRequests(stack, market, count));
  const delivered = receiver.next(count);
  const { latencies } = succeeded(
    await drive({
      port: stack.port,
      lanes: [await acceptsOf(market, quotes)],
      everyMs: EVERY_MS,
    }),
  );
  return { accepts: [...latencies], deliveries: await delivered };
}

/** Inserted into D1, because creating them hashes passwords. Each has a notice to deliver. */
async function addWebhooks(stack: BenchStack, people: readonly Person[], url: string) {
  // Safe cast: `commit` calls nothing else.
  const db = stack.db as unknown as D1Database;
  for (let from = 0; from < people.length; from += PER_COMMIT) {
    const group = newGroup();
    const added = await Promise.all(
      people.slice(from, from + PER_COMMIT).map(async ({ userId }) => {
        const terms = { endpointId: uuidv7(), userId, url, types: WEBHOOK_TYPES.join(",") };
        const secrets = [newWebhookSecret()];
        return { ...terms, ...(await sealWebhook(stack.masterKeys, secrets, terms)) };
      }),
    );
    const statements = added.flatMap(({ endpointId, userId, types, sealed, masterKeyId }) => [
      sql`INSERT INTO webhook_endpoints (endpoint_id, user_id, url, types, secrets_sealed,
          master_key_id, after_seq, created_at)
        VALUES (${uuid(endpointId)}, ${uuid(userId)}, ${url}, ${types}, ${sealed},
          ${masterKeyId}, 0, ${group.at})`,
      ...announceNotice(group, { userId, kind: "webhook_created", subjectId: null }),
    ]);
    await commitOrThrow(db, group, statements);
    await Promise.all(added.map(({ endpointId }) => stack.wakeWebhook(endpointId)));
  }
}

type Receiver = Awaited<ReturnType<typeof startReceiver>>;

async function startReceiver() {
  let silenced = 0;
  let wanted: { left: number; times: number[]; done: (times: number[]) => void } | undefined;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === "/silent") return void silenced++;
    const { type, at } = JSON.parse(await textOf(request)) as { type: string; at: string };
    response.end();
    if (type !== "match.created" || wanted === undefined) return;
    wanted.times.push(Date.now() - Date.parse(at));
    if (wanted.times.length === wanted.left) wanted.done(wanted.times);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  // Safe cast: a server of TCP has such an address.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    silenced: () => silenced,
    /** The times of the next matches that are delivered. */
    next: (count: number) =>
      new Promise<number[]>((done, failed) => {
        const late = () => failed(new Error("a match was not delivered in time"));
        const timer = setTimeout(late, DELIVERED_WITHIN_MS);
        wanted = { left: count, times: [], done: (times) => (clearTimeout(timer), done(times)) };
      }),
    stop: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
  return text;
}
