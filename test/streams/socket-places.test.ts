/** The limit of a user's sockets counts over all streams. */
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { setClock } from "../../src/platform/time.ts";
import { accountStream, bookStream } from "../../src/streams/event-log.ts";
import { streamObject } from "../../src/streams/notify.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import { newAsset } from "../support/ledger.ts";
import { awakeAndEvicted, connect, evict } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

const LIMIT = config(env).STREAM_SOCKETS_PER_USER;
type User = Awaited<ReturnType<typeof newUser>>;

afterEach(() => setClock({}));

const newStream = () => bookStream(newAsset().key);

/** Opens sockets up to the limit, half of them on one stream. */
async function fillPlaces(user: User) {
  const streams = Array.from({ length: LIMIT }, newStream).fill(newStream(), 0, LIMIT / 2);
  const sockets = await Promise.all(streams.map((stream) => connect(user, stream)));
  return { streams, sockets };
}

async function upgradeStatus({ actor }: User, stream = newStream()): Promise<number> {
  const headers = { upgrade: "websocket", [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: null }) };
  const request = new Request("https://stream.internal/", { headers });
  const response = await streamObject(env, stream).fetch(request);
  response.webSocket?.accept();
  return response.status;
}

awakeAndEvicted("a user at the limit of sockets", (maybeEvict) => {
  it("is refused on every stream, and others are not", async () => {
    const user = await newUser();
    const { streams } = await fillPlaces(user);
    const account = accountStream(user.userId);
    await maybeEvict(account);
    for (const stream of [account, streams[0], newStream()])
      expect(await upgradeStatus(user, stream)).toBe(429);
    expect(await upgradeStatus(await newUser(), streams[0])).toBe(101);
  });

  it("takes no more places by parallel upgrades", async () => {
    const user = await newUser();
    await maybeEvict();
    const streams = [newStream(), newStream()];
    const statuses = await Promise.all(
      Array.from({ length: 2 * LIMIT }, (_, n) => upgradeStatus(user, streams[n % 2])),
    );
    expect(statuses.filter((status) => status === 101)).toHaveLength(LIMIT);
  });

  it("may open a socket after closing one", async () => {
    const user = await newUser();
    const { sockets, streams } = await fillPlaces(user);
    await maybeEvict(accountStream(user.userId), streams[0] ?? "");
    sockets[0]?.socket.close(1000);
    await expect.poll(() => upgradeStatus(user)).toBe(101);
    expect(await upgradeStatus(user)).toBe(429);
  });
});

it("frees the places of sockets that ended without notice", async () => {
  const user = await newUser();
  const { streams } = await fillPlaces(user);
  const [crashed = ""] = streams;
  await evict(crashed, "close");
  // An upgrade in flight could still need the places.
  expect(await upgradeStatus(user)).toBe(429);
  setClock({ now: () => Date.now() + 60_000 });
  expect(await upgradeStatus(user)).toBe(101);
  for (let n = 1; n < LIMIT / 2; n++) expect(await upgradeStatus(user)).toBe(101);
  expect(await upgradeStatus(user)).toBe(429);
});

it("closes the socket that has been silent longest, for at least two minutes", async () => {
  const user = await newUser();
  const opened = async (minutesAgo: number, count: number) => {
    setClock({ now: () => Date.now() - minutesAgo * 60_000 });
    return Promise.all(Array.from({ length: count }, () => connect(user, newStream())));
  };
  const [older, longest] = [...(await opened(3, 1)), ...(await opened(4, 1))];
  const alive = await opened(5, 2);
  const [pinging, sending] = alive;
  await opened(1, LIMIT - 4);
  setClock({});
  pinging?.send("ping");
  sending?.send({ id: "x", op: "none" });
  await Promise.all([pinging?.until("pong"), sending?.until("error")]);
  expect(await upgradeStatus(user)).toBe(101);
  expect(await longest?.untilClosed()).toBe(4408);
  expect(older?.closed).toBeUndefined();
  expect(await Promise.all([upgradeStatus(user), upgradeStatus(user)])).toEqual([101, 429]);
  expect(await older?.untilClosed()).toBe(4408);
  expect(alive.map(({ closed }) => closed)).toEqual([undefined, undefined]);
});
