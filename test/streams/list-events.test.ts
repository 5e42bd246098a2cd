/** GET /account/events: the account stream for readers that poll. */
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { trimStreams } from "../../src/streams/trim-streams.ts";
import { ageEvents, ageStreams, writeNotices } from "../support/events.ts";
import { apiOf, codeOf } from "../support/http.ts";
import { command, openRequest, quotedMarket, submit } from "../support/market.ts";
import { connect } from "../support/sockets.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

/** Other files expect that a stream begins with 1. */
afterEach(() => all(env.DB, sql`DELETE FROM removed_streams`));

const read = async (user: Pick<TestUser, "token">, query = "") => {
  const { json } = await apiOf(user).get(`/account/events${query}`);
  return { ...json, seqs: json["items"].map(({ seq }: { seq: number }) => seq) } as {
    items: { type: string; data: Record<string, unknown> }[];
    seqs: number[];
    next_since: number;
    last_seq: number;
  };
};

it("returns the bytes that the socket delivers, to each party its own", async () => {
  const { requester, maker, quote } = await quotedMarket();
  const parties = await Promise.all(
    [requester, maker].map(async (user) => {
      const key = await newKey(user, ["read"]);
      const { last_seq: since } = await read(user);
      const socket = await connect(user, accountStream(user.userId), since);
      const frames: string[] = [];
      socket.socket.addEventListener("message", ({ data }) => {
        frames.push(String(data));
      });
      return { user, key, since, socket, frames };
    }),
  );
  await submit(command.accept(requester, quote.quote_id));
  const bodies: string[] = [];
  for (const { user, key, since, socket, frames } of parties) {
    await socket.until("match.created");
    const events = frames.filter((frame) => !frame.startsWith('{"type":"hello"'));
    const last = since + events.length;
    const expected = `{"items":[${events.join(",")}],"next_since":${last},"last_seq":${last}}`;
    for (const caller of [user, key]) {
      const { text } = await apiOf(caller).get(
        `/account/events?since=${since}&limit=${events.length}`,
      );
      expect(text).toBe(expected);
      bodies.push(text);
    }
  }
  expect(bodies[0]).not.toContain(maker.userId);
  expect(bodies[0]).not.toBe(bodies[2]);
});

it("loses and repeats nothing while a reader polls and others write", async () => {
  const user = await newUser();
  const { next_since: start } = await read(user);
  const writing = (async () => {
    for (let n = 0; n < 15; n++) await writeNotices(user, 1 + (n % 4));
  })();
  const seen: number[] = [];
  for (let since = start; seen.length < 36;) {
    const page = await read(user, `?since=${since}&limit=5`);
    expect(page.seqs.length).toBeLessThanOrEqual(5);
    seen.push(...page.seqs);
    since = page.next_since;
  }
  await writing;
  expect(seen).toEqual(Array.from({ length: 36 }, (_, n) => start + 1 + n));
  expect(await read(user, "?limit=0")).toMatchObject({ items: [], next_since: start });
});

it("passes over other types without ending before the last number", async () => {
  const user = await newUser();
  await writeNotices(user, 5_001);
  await openRequest(user, "venue_one:0x1", { amount: 10n });
  const types = "&types=request.opened,match.created";
  const { last_seq: last } = await read(user, "?limit=0");
  const first = await read(user, `?since=${last - 5_002}${types}`);
  expect(first).toMatchObject({ items: [], next_since: last - 2, last_seq: last });
  const second = await read(user, `?since=${first.next_since}${types}`);
  expect(second).toMatchObject({ seqs: [last], next_since: last, last_seq: last });
  for (const wrong of ["trade.printed", "match", "match.created,", ""])
    expect(await codeOf(await apiOf(user).get(`/account/events?types=${wrong}`))).toBe(
      "400 invalid_request",
    );
});

it("is 410 with the number to continue from when events are gone", async () => {
  const user = await newUser();
  await writeNotices(user, 3);
  const { next_since: since } = await read(user, "?limit=1");
  await ageEvents();
  await trimStreams(env);
  await writeNotices(user, 2);
  for (const lost of [since, since + 1_000]) {
    const response = await apiOf(user).get(`/account/events?since=${lost}`);
    expect(await codeOf(response)).toBe("410 events_gone");
    expect(response.json).toMatchObject({ last_seq: since + 4 });
  }
  expect((await read(user, `?since=${since + 4}`)).seqs).toEqual([]);
  expect((await read(user)).seqs).toEqual([since + 3, since + 4]);
});

it("keeps the numbers of a reader that polls a quiet stream", async () => {
  const [polling, silent] = [await newUser(), await newUser()];
  const streams = [polling, silent].map(({ userId }) => accountStream(userId));
  const [{ next_since: since }] = [await read(polling), await read(silent)];
  await ageStreams(...streams);
  await read(polling, `?since=${since}`);
  await trimStreams(env);
  expect(
    await all(
      env.DB,
      sql`SELECT name FROM streams WHERE name IN (SELECT value FROM json_each(${JSON.stringify(streams)}))`,
    ),
  ).toEqual([{ name: streams[0] }]);
  await writeNotices(polling);
  expect((await read(polling, `?since=${since}`)).seqs).toEqual([since + 1]);
});
