/** The snapshot of an account stream: what it has, and that nothing is lost or doubled after it. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { MAX_SNAPSHOT_FRAME_BYTES, snapshotFrames } from "../../src/streams/replay.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf, send } from "../support/http.ts";
import { fund, newAddress } from "../support/ledger.ts";
import { command, openMarket, openRequest, placeQuote, submit } from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

const SNAPSHOT = { snapshot: true };

awakeAndEvicted("the snapshot of an account stream", (maybeEvict) => {
  it("has balances, open requests and quotes, and unfinished withdrawals", async () => {
    const { book, maker, request } = await openMarket();
    const stream = accountStream(maker.userId);
    await fund(maker.userId, "usdc", 500n);
    const own = await openRequest(maker, book, { amount: 3n });
    const ended = await openRequest(maker, book, { amount: 3n });
    await submit(command.cancelRequest(maker, ended.request_id));
    const quote = await placeQuote(maker, request.request_id, 400_000);
    const gone = await placeQuote(maker, request.request_id, 500_000);
    await submit(command.cancelQuote(maker, gone.quote_id));
    const withdrawn = await apiOf(await newKey(maker)).post("/custody/withdraw", {
      client_withdrawal_id: uuidv7(),
      amount: "7",
      to_address: newAddress(),
    });
    await maybeEvict();
    const subscriber = await connect(maker, stream, undefined, SNAPSHOT);
    const { data, seq } = await subscriber.until("snapshot");
    const api = apiOf(maker);
    const items = async (target: string) => (await api.get(target)).json["items"];
    expect(data).toEqual({
      balances: await items("/custody/get-balances"),
      requests: await items("/rfq/get-requests"),
      quotes: await items("/rfq/get-quotes?status=open"),
      withdrawals: [withdrawn.json],
      more: false,
    });
    expect(data.requests).toMatchObject([{ request_id: own.request_id, quote_count: 0 }]);
    expect(data.quotes).toMatchObject([{ quote_id: quote.quote_id }]);
    expect((await subscriber.until("hello")).seq).toBe(seq);

    await maybeEvict(stream);
    const next = await openRequest(maker, book, { amount: 4n });
    expect(await subscriber.untilEvent(seq + 1)).toMatchObject({
      type: "request.opened",
      data: { request_id: next.request_id },
    });
  });

  it("and the events after it are the whole story, however busy the account is", async () => {
    const { book, maker, request } = await openMarket();
    const stream = accountStream(maker.userId);
    const placing = Promise.all(
      Array.from({ length: 12 }, (_, n) => placeQuote(maker, request.request_id, 1 + n)),
    );
    const subscribers = await Promise.all(
      Array.from({ length: 4 }, () => connect(maker, stream, undefined, SNAPSHOT)),
    );
    const quotes = await placing;
    await maybeEvict(stream);
    const last = await openRequest(maker, book, { amount: 1n });
    for (const subscriber of subscribers) {
      await subscriber.until(({ data }) => data?.request_id === last.request_id);
      const { data } = await subscriber.until("snapshot");
      const open: string[] = [
        ...data.quotes.map((quote: { quote_id: string }) => quote.quote_id),
        ...subscriber
          .events()
          .filter(({ type }) => type === "quote.opened")
          .map((event): string => event.data.quote_id),
      ];
      expect(open.toSorted()).toEqual(quotes.map(({ quote_id }) => quote_id).toSorted());
    }
  });

  it("follows a resync, and does not come with a since that can be replayed", async () => {
    const { book, maker } = await openMarket();
    const stream = accountStream(maker.userId);
    await openRequest(maker, book, { amount: 1n });
    const first = await connect(maker, stream, undefined, SNAPSHOT);
    const { seq } = await first.until("snapshot");
    await maybeEvict(stream);
    const ahead = await connect(maker, stream, seq + 1_000, SNAPSHOT);
    await ahead.until("resync");
    expect((await ahead.until("snapshot")).data.requests).toHaveLength(1);
    const behind = await connect(maker, stream, seq - 1, SNAPSHOT);
    await behind.untilEvent(seq);
    expect(behind.messages.map(({ type }) => type)).toEqual(["hello", "request.opened"]);
  });

  it("is sent only to those who ask for it", async () => {
    const user = await newUser({ usdc: 1n });
    const subscriber = await connect(user, accountStream(user.userId));
    await subscriber.until("hello");
    await maybeEvict(accountStream(user.userId));
    const { key: book } = { key: "venue_one:0x1" };
    await openRequest(user, book, { amount: 1n });
    await subscriber.until("request.opened");
    expect(subscriber.messages.map(({ type }) => type)).toEqual(["hello", "request.opened"]);
  });
});

it("GET /account/stream takes snapshot as true or false, and /rfq/stream does not", async () => {
  const upgrade = async (target: string) => {
    const response = await send(target, { headers: { upgrade: "websocket" } });
    const { code, errors } = await response.json<{ code: string; errors?: object[] }>();
    return errors ?? code;
  };
  const ticket = "ticket=unknown";
  for (const value of ["true", "false"])
    expect(await upgrade(`/account/stream?${ticket}&snapshot=${value}`)).toBe("ticket_invalid");
  expect(await upgrade(`/account/stream?${ticket}&snapshot=1`)).toMatchObject([
    { path: "query.snapshot" },
  ]);
  expect(await upgrade(`/rfq/stream?${ticket}&venue_id=venue_one&snapshot=true`)).toMatchObject([
    { path: "query.snapshot" },
  ]);
});

it("a snapshot over HTTP arrives with the ticket's socket", async () => {
  const user = await newUser({ usdc: 5n });
  const { json } = await apiOf(user).post("/auth/ws-ticket");
  const response = await send(`/account/stream?ticket=${json["ticket"]}&snapshot=true`, {
    headers: { upgrade: "websocket" },
  });
  expect(response.status).toBe(101);
  const socket = response.webSocket;
  const messages: { type: string; data: Record<string, unknown> }[] = [];
  socket?.addEventListener("message", ({ data }) => {
    messages.push(JSON.parse(String(data)));
  });
  socket?.accept();
  await expect.poll(() => messages.length, { timeout: 3_000 }).toBe(2);
  expect(messages[1]).toMatchObject({
    type: "snapshot",
    data: { balances: [{ venue_id: null, balance: "0x5" }], more: false },
  });
});

it("frames of several parts stay below their limit and have every list", () => {
  const part = (name: string) => ({
    name,
    statement: sql`SELECT 1`,
    view: (row: unknown) => Object(row),
  });
  const rows = [
    Array.from({ length: 9 }, (_, n) => ({ n, text: "x".repeat(60_000) })),
    [],
    [{ last: true }],
  ];
  const frames = snapshotFrames([part("a"), part("b"), part("c")], rows);
  for (const frame of frames) {
    expect(JSON.stringify(frame).length).toBeLessThan(MAX_SNAPSHOT_FRAME_BYTES);
    expect(Object.keys(frame)).toEqual(["a", "b", "c", "more"]);
  }
  expect(frames.map(({ more }) => more)).toEqual([true, true, false]);
  for (const [index, name] of ["a", "b", "c"].entries())
    expect(frames.flatMap((frame) => frame[name])).toEqual(rows[index]);
});

it("the statements of a snapshot read the user's own indexes", async () => {
  const { ownBalances, ownUnfinishedWithdrawals } =
    await import("../../src/custody/snapshot-custody.ts");
  const { ownOpenRecords } = await import("../../src/rfq/snapshot-rfq.ts");
  const user = uuidv7();
  for (const part of [ownBalances(user), ...ownOpenRecords(user), ownUnfinishedWithdrawals(user)]) {
    const { text, params } = part.statement;
    const plan = await all<{ detail: string }>(env.DB, {
      text: `EXPLAIN QUERY PLAN ${text}`,
      params,
    });
    const scans = plan.filter(({ detail }) => /^SCAN (?!CONSTANT|commit_groups)/.test(detail));
    expect(scans.map(({ detail }) => detail)).toEqual([]);
  }
});
