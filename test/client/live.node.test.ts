/** Live maps: what each message does to them, and how they follow their stream. */
import { expect, it, vi } from "vitest";
import { Live, type Stream, type StreamMessage } from "../../packages/client/src/index.ts";
import { assetKey, LiveAccount } from "../../packages/client/src/live-account.ts";
import { LiveSource } from "../../packages/client/src/live-source.ts";

const ASSET = { venue_id: "venue_one", asset_id: "0x1" };
const QUOTE = { ...ASSET, quote_id: "q", request_id: "r", side: "Ask", price: 500_000 };
const RESERVE = { venue_id: null, asset_id: null, amount: 51n };

/** Safe cast: a message with the fields that the maps read. */
const message = (type: string, data: object) =>
  ({ type, stream: "account", seq: 1, at: "", data }) as unknown as StreamMessage;

const snapshot = (data: object = {}) =>
  message("snapshot", {
    balances: [{ venue_id: null, asset_id: null, balance: 100n, pending_balance: 0n }],
    requests: [],
    quotes: [],
    withdrawals: [],
    more: false,
    ...data,
  });
const opened = message("quote.opened", { ...QUOTE, reserve: RESERVE });
const closed = (reason: string) =>
  message("quote.closed", {
    quote_id: "q",
    request_id: "r",
    close_reason: reason,
    replaced_by: null,
  });
const match = (role: string, side: string) =>
  message("match.created", { ...ASSET, role, side, amount: 100n, usdc_amount: 50n, fee: 1n });
const withdrawal = (status: string) =>
  message(`withdrawal.${status}`, { ...RESERVE, withdrawal_id: "w", amount: 9n, status });

type Source = LiveSource<LiveAccount>;
const ordersOf = (source: Source) =>
  new Live(
    source.view(({ orders }) => orders),
    (id: string) => id,
  );
const balancesOf = (source: Source, lost: () => void) =>
  new Live(
    source.view(({ balances }) => balances),
    assetKey,
    lost,
  );
const newAccount = () => new LiveAccount();

/** The balances after these messages: `[available, pending, promised]` of USDC and the asset. */
function balancesAfter(...messages: StreamMessage[]) {
  const account = new LiveAccount();
  for (const each of [snapshot(), ...messages]) account.apply(each);
  return [null, ASSET].map((asset) => {
    const row = account.balances.get(assetKey(asset));
    return [row?.balance ?? 0n, row?.pending_balance ?? 0n, row?.promised ?? 0n];
  });
}

it("reserves a quote and releases it however it ends without a trade", () => {
  expect(balancesAfter(opened)[0]).toEqual([49n, 51n, 51n]);
  for (const reason of ["rejected", "cancelled", "expired", "replaced", "timeout", "protection"])
    expect(balancesAfter(opened, closed(reason))[0], reason).toEqual([100n, 0n, 0n]);
});

it.each([
  { role: "maker", side: "Ask", usdc: [49n, 0n, 0n], tokens: [100n, 0n, 0n] },
  { role: "maker", side: "Bid", usdc: [149n, 0n, 0n], tokens: [0n, -100n, -100n] },
  { role: "requester", side: "Bid", usdc: [49n, 0n, 0n], tokens: [100n, 0n, 0n] },
  { role: "requester", side: "Ask", usdc: [149n, 0n, 0n], tokens: [-100n, 0n, 0n] },
])("settles a match of a $side for its $role, with the fee", ({ role, side, usdc, tokens }) => {
  const buying = role === "maker" && side === "Ask" ? [opened, closed("accepted")] : [];
  expect(balancesAfter(...buying, match(role, side))).toEqual([usdc, tokens]);
});

it("moves a withdrawal once per step", () => {
  const waits = [withdrawal("awaiting_approval"), withdrawal("queued"), withdrawal("submitted")];
  expect(balancesAfter(...waits, withdrawal("submitted"))[0]).toEqual([91n, 9n, 0n]);
  expect(balancesAfter(...waits, withdrawal("settled"))[0]).toEqual([91n, 0n, 0n]);
  for (const status of ["failed", "cancelled"])
    expect(balancesAfter(...waits, withdrawal(status))[0], status).toEqual([100n, 0n, 0n]);
});

it("needs a new snapshot after the payment of a withdrawal that it does not know", () => {
  const account = new LiveAccount();
  account.apply(snapshot());
  // A restore rebuilds a payment as settled, without the steps before.
  expect(account.apply(withdrawal("settled"))).toBe("reload");
  for (const status of ["failed", "cancelled"])
    expect(account.apply(withdrawal(status)), status).toBe("same");
});

it("credits a deposit only once it is credited", () => {
  const deposit = (status: string) => message(`deposit.${status}`, { ...ASSET, amount: 4n });
  expect(balancesAfter(deposit("detected"))[1]).toEqual([0n, 0n, 0n]);
  expect(balancesAfter(deposit("detected"), deposit("credited"))[1]).toEqual([4n, 0n, 0n]);
});

it("replaces everything with the last part of a snapshot", () => {
  const account = new LiveAccount();
  account.apply(snapshot({ quotes: [{ ...QUOTE, reserve: RESERVE }] }));
  account.apply(message("resync", { reason: "trimmed" }));
  expect(account.apply(snapshot({ requests: [{ request_id: "lost" }], more: true }))).toBe("same");
  account.apply(message("hello", {}));
  account.apply(snapshot({ requests: [{ request_id: "a", best_price: 1 }], more: true }));
  expect([...account.orders.keys()]).toEqual(["q"]);
  expect(account.apply(snapshot({ requests: [{ request_id: "b" }], balances: [] }))).toBe(
    "changed",
  );
  expect([...account.orders.values()]).toEqual([{ request_id: "a" }, { request_id: "b" }]);
});

it("reads a new snapshot after the end of an own quote that it does not know", async () => {
  vi.useFakeTimers();
  try {
    const ends = message("quote.closed", {
      quote_id: "q",
      request_id: "r",
      close_reason: "expired",
    });
    const scripts = [
      [snapshot(), ends, closed("expired"), opened],
      [snapshot({ requests: [{ request_id: "new" }] })],
    ];
    let connections = 0;
    // Safe cast: a live map only iterates over its stream and closes it.
    const open = () =>
      ({
        close: () => {},
        [Symbol.asyncIterator]: async function* () {
          yield* scripts[connections++] ?? [];
        },
      }) as unknown as Stream;
    const live = ordersOf(new LiveSource(open, newAccount));
    const changed = vi.fn<() => void>();
    const stopListening = live.onChange(changed);
    await live.ready();
    expect([live.size, changed.mock.calls.length]).toEqual([0, 1]);
    stopListening();
    await vi.advanceTimersByTimeAsync(1_000);
    expect([connections, changed.mock.calls.length]).toEqual([2, 1]);
    expect([...live]).toEqual([{ request_id: "new" }]);
    expect([live.get("new"), live.get("q")]).toEqual([{ request_id: "new" }, undefined]);
  } finally {
    vi.useRealTimers();
  }
});

it("rejects ready when it is closed before its snapshot", async () => {
  const live = ordersOf(new LiveSource(() => expect.fail("it connects"), newAccount));
  live.close();
  await expect(live.ready()).rejects.toThrow("closed before");
  await live.ended();
});

type Fed = {
  opened: number;
  closed: number;
  send: (message: StreamMessage) => void;
  fail: (error: Error) => void;
  lose: () => void;
};

/** A source whose stream a test feeds, and what happened to its connections. */
function fedSource() {
  const notYet = (): void => expect.fail("there is no connection");
  const fed: Fed = { opened: 0, closed: 0, send: notYet, fail: notYet, lose: notYet };
  const source = new LiveSource((onDisconnect) => {
    fed.opened += 1;
    fed.lose = () => onDisconnect({ code: 1006, reason: "", attempt: 1, error: null });
    let close = () => {};
    const messages = new ReadableStream<StreamMessage>({
      start: (controller) => {
        fed.send = (each) => controller.enqueue(each);
        fed.fail = (error) => controller.error(error);
        close = () => controller.close();
      },
    });
    const stream = Object.assign(messages, {
      close: () => {
        fed.closed += 1;
        close();
      },
    });
    // Safe cast: a live map only iterates over its stream and closes it.
    return stream as unknown as Stream;
  }, newAccount);
  return { fed, source };
}

it("shares one connection between maps, from the first to the last", async () => {
  const { fed, source } = fedSource();
  const lost = vi.fn<() => void>();
  const [orders, balances] = [ordersOf(source), balancesOf(source, lost)];
  const ready = orders.ready();
  fed.send(snapshot());
  await ready;
  await balances.ready();
  expect([fed.opened, balances.get(null)?.balance]).toEqual([1, 100n]);
  fed.lose();
  expect(lost).toHaveBeenCalledOnce();

  orders.close();
  expect(fed.closed).toBe(0);
  const changed = new Promise<void>((resolve) => balances.onChange(resolve));
  fed.send(opened);
  await changed;
  expect(balances.get(null)?.balance).toBe(49n);
  expect([...orders]).toEqual([]);

  balances.close();
  expect(fed.closed).toBe(1);
  expect(balances.get(null)?.balance).toBe(49n);
  await Promise.all([orders.ended(), balances.ended()]);

  const later = ordersOf(source);
  const again = later.ready();
  fed.send(snapshot({ requests: [{ request_id: "new" }] }));
  await again;
  expect([fed.opened, later.size]).toEqual([2, 1]);
  later.close();
});

it("ends every map with the error of the stream, and connects again for a new one", async () => {
  const { fed, source } = fedSource();
  const maps = [ordersOf(source), ordersOf(source)];
  const waits = Promise.allSettled(maps.map((map) => map.ready()));
  fed.fail(new Error("revoked"));
  expect((await waits).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  for (const map of maps) await expect(map.ended()).rejects.toThrow("revoked");
  const next = ordersOf(source);
  const ready = next.ready();
  fed.send(snapshot());
  await ready;
  expect(fed.opened).toBe(2);
  next.close();
});

it("ends only the map whose listener throws", async () => {
  const { fed, source } = fedSource();
  const [broken, sound] = [ordersOf(source), ordersOf(source)];
  broken.onChange(() => {
    throw new Error("the listener's own");
  });
  const waits = [broken.ready(), sound.ready()];
  fed.send(snapshot());
  await Promise.all(waits);
  await expect(broken.ended()).rejects.toThrow("the listener's own");
  fed.send(opened);
  await vi.waitFor(() => expect(sound.size).toBe(1));
  expect([broken.size, fed.closed]).toEqual([0, 0]);
  sound.close();
  expect(fed.closed).toBe(1);
});
