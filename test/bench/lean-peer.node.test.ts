import { randomBytes, randomUUID } from "node:crypto";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fillLeanPeer, joinLeanPeer } from "../../bench/lean-peer.ts";
import { run } from "../../bench/load.ts";
import { quoteFields } from "../../bench/market.ts";
import { type Person, signed } from "../../bench/people.ts";
import { driveSockets, openSocket } from "../../bench/sockets.ts";
import { type Database, peerWorker } from "../../bench/stack.ts";
import { importSecret } from "../../packages/client/src/sign.ts";
import { freePort } from "../../scripts/stack/ports.ts";

const RESERVE = 1_000;
let miniflare: Miniflare;
let peer: { peerDb: Database; peerPort: number };

beforeAll(async () => {
  const peerPort = await freePort();
  miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [peerWorker("lean", peerPort, "2026-10-20")],
    } as Parameters<typeof convertV4MiniflareOptions>[0]),
  );
  peer = { peerPort, peerDb: await miniflare.getD1Database("DB", "peer") };
  await fillLeanPeer(peer, 10);
});
afterAll(() => miniflare.dispose());

it("writes one row and one balance for a quote", async () => {
  const maker = await newMaker(10 * RESERVE);
  const socket = await openSocket(peer.peerPort, `/?maker=${maker.userId}`);
  const { results } = await driveSockets([socket], { each: 3, commandOf: () => quote() });
  socket.close();
  expect(results.flat()).toEqual(Array.from({ length: 3 }, () => expect.objectContaining(OPEN)));
  expect(await moneyOf(maker)).toEqual({ quotes: 3, promised: 3 * RESERVE });
});

it("refuses only the maker who lacks the money", async () => {
  const [poor, rich] = [await newMaker(RESERVE), await newMaker(10 * RESERVE)];
  const [refused, placed] = await Promise.all([call(poor, 2), call(rich, 2)]);
  expect([refused, placed]).toEqual([
    [{ quote: null }, { quote: null }],
    [{ quote: expect.objectContaining(OPEN) }, { quote: expect.objectContaining(OPEN) }],
  ]);
  expect(await moneyOf(poor)).toEqual({ quotes: 0, promised: 0 });
  expect(await moneyOf(rich)).toEqual({ quotes: 2, promised: 2 * RESERVE });
});

it("calls nothing without a valid signature", async () => {
  const maker = await newMaker(RESERVE);
  const other = await importSecret("x".repeat(43));
  const load = { port: peer.peerPort, collect: true };
  const statuses = async (person: Person) =>
    (await run({ ...load, lanes: [[await signed(person, "POST", "/rfq/quote", quote())]] }))
      .statuses;
  expect(await statuses(maker)).toEqual({ 200: 1 });
  expect(await statuses({ ...maker, key: other })).toEqual({ 401: 1 });
});

const OPEN = { status: "open", price: quoteFields("").price };
const quote = () => quoteFields(randomUUID());

async function newMaker(balance: number): Promise<Person> {
  const secret = randomBytes(32).toString("base64url");
  const key = await importSecret(secret);
  const maker = { userId: randomUUID(), apiKeyId: randomUUID(), secret, key };
  await joinLeanPeer(peer, [maker], balance);
  return maker;
}

async function call(maker: Person, count: number): Promise<unknown> {
  const quotes = Array.from({ length: count }, quote);
  const { bodies } = await run({
    port: peer.peerPort,
    lanes: [[await signed(maker, "POST", "/rfq/quotes", { quotes })]],
    collect: true,
  });
  return (JSON.parse(bodies[0]?.[0] ?? "") as { results: unknown }).results;
}

function moneyOf({ userId }: Person) {
  return peer.peerDb
    .prepare(
      `SELECT promised, (SELECT count(*) FROM quotes WHERE maker = owner) AS quotes FROM accounts
        WHERE owner = unhex(?, '-')`,
    )
    .bind(userId)
    .first();
}
