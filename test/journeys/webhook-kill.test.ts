/** Kills workerd and a receiver at random while the account's events are delivered. */
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { AccountEvent } from "../../packages/client/src/index.ts";
import { Dice } from "../../scripts/actors/dice.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import {
  type Market,
  openMarket,
  quotedBid,
  startTestStack,
  type TestStack,
  until,
} from "../support/node/stack.ts";

const EVENTS = 1_000;
const KILLS = 10;
/** Of a kill, beside the receipt of a delivery. */
const MOMENTS = ["before", "unanswered", "answered", "later"] as const;
const LANES = 4;
/** Longer than the wait after a failed attempt, so that some fail twice. */
const LONGEST_AWAY_MS = 12_000;
const PATIENCE_MS = 600_000;

type Kill = { readonly end: () => Promise<void>; readonly moment: (typeof MOMENTS)[number] };
type Delivery = { readonly id: string; readonly body: string };

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** A receiver that is killed, or kills, at the requests that `kills` names. */
async function startReceiver(kills: ReadonlyMap<number, Kill>, dice: Dice) {
  const port = await freePort();
  const received: (Delivery & { readonly headers: Record<string, string> })[] = [];
  let requests = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await textOf(request);
    const kill = kills.get(++requests);
    if (kill?.moment === "before") return kill.end();
    // Safe cast: no header is sent twice.
    const headers = request.headers as Record<string, string>;
    received.push({ id: headers["webhook-id"] ?? "", body, headers });
    if (kill?.moment === "unanswered") return kill.end();
    response.end();
    if (kill?.moment === "later") await sleep(dice.between(0, LONGEST_AWAY_MS));
    await kill?.end();
  };
  const server = createServer((request, response) => void answer(request, response));
  const listen = () => new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  await listen();
  const die = async () => {
    if (!server.listening) return;
    stop();
    await sleep(dice.between(0, LONGEST_AWAY_MS));
    await listen();
  };
  return { url: `http://127.0.0.1:${port}/`, received, die, stop };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
  return text;
}

/** As many matches, although calls fail while workerd is away. */
async function trade(market: Market): Promise<void> {
  let left = EVENTS;
  const lane = async () => {
    while (left-- > 0) {
      const traded = await quotedBid(market, 1_000n)
        .then(({ quote }) => market.requester.client.rfq.accept(quote))
        .catch(() => null);
      if (traded !== null) continue;
      left++;
      await sleep(200);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

it(
  "a webhook receives every event in order although both sides are killed",
  { timeout: PATIENCE_MS },
  async () => {
    const seed = randomBytes(4).toString("hex");
    console.log(`seed ${seed}`);
    const dice = new Dice(seed);
    const kills = new Map<number, Kill>();
    const receiver = await startReceiver(kills, dice);
    const ends = [stack.killWorkerd, receiver.die].flatMap((end) =>
      Array.from({ length: KILLS }, (_, n) => ({ end, moment: MOMENTS[n % 4] ?? "before" })),
    );
    for (const kill of ends) {
      let at = dice.between(2, EVENTS - 50);
      while (kills.has(at)) at++;
      kills.set(at, kill);
    }
    const market = await openMarket(stack, 1_000n * BigInt(EVENTS));
    const { session, password, client } = market.maker;
    const { secret, types } = await session.createWebhook({ url: receiver.url, password });

    await trade(market);
    const events: AccountEvent[] = [];
    for (let since = 0, last = 1; since < last;) {
      const page = await client.accountEvents({ since, types: types as [], limit: 500 });
      events.push(...page.items);
      [since, last] = [page.next_since, page.last_seq];
    }
    const created = events.findIndex(
      ({ type, data }) => type === "account.notice" && data.kind === "webhook_created",
    );
    const expected = events.slice(created).map(({ seq }) => seq);
    const seqs = () => [...new Set(receiver.received.map(seqOf))];
    await until("the last event", PATIENCE_MS, async () =>
      seqs().at(-1) === expected.at(-1) ? true : null,
    );
    receiver.stop();
    expect(seqs(), `seed ${seed}`).toEqual(expected);
    expect(seqs().length).toBeGreaterThanOrEqual(EVENTS);
    expect(receiver.received.length).toBeGreaterThan(seqs().length);
    const bodies = new Map(receiver.received.map(({ id, body }) => [id, body]));
    expect(bodies.size).toBe(seqs().length);
    for (const { id, body, headers } of receiver.received) {
      expect(body).toBe(bodies.get(id));
      expect(() => new Webhook(secret).verify(body, headers)).not.toThrow();
    }
  },
);

function seqOf(delivery: Delivery | undefined): number {
  return (JSON.parse(delivery?.body ?? "{}") as { seq: number }).seq;
}
