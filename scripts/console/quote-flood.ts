/** Many quotes on a replayed page, and what they cost it. */
import type { CDPSession, Page } from "playwright-core";
import { goTo, NOW, type Replay } from "./replay.ts";

/** Quotes that are open at the same time. */
const OPEN = 40;
const LIFE_MS = 600_000;
const ACCOUNT = "SOCKET /account/stream";
const VENUES = ["venue_one", "venue_two", "venue_three"];
/** The events of the two parties. The requester receives no winning price. */
const ENDS = {
  ticket: { reason: "cancelled" },
  maker: { reason: "replaced", winning_price: null },
};
type Snapshot = { data: { requests: Request[] } };

/** The pages on which quotes arrive: those on one's own request, and one's own quotes. */
export const FLOODED = {
  ticket: { hash: "market/venue_one/0x2", opened: "quote.received", list: "GET /rfq/quote" },
  maker: { hash: "maker", opened: "quote.opened", list: "GET /rfq/get-quotes" },
} as const;

type Request = { request_id: string; side: string; venue_id: string; asset_id: string };
type Quote = Request & { quote_id: string; price: number };

/**
 * Opens the page. The returned function sends so many quotes to it. On the maker's page each
 * replaces the one before on the next of the recorded requests. With `renewed`, each comes with a
 * new request instead, and one that is over.
 */
export async function floodOf(
  { page, replay }: { page: Page; replay: Replay },
  name: keyof typeof FLOODED,
  { renewed = false } = {},
): Promise<(quotes: number) => void> {
  const { hash, opened, list } = FLOODED[name];
  await goTo(page, hash);
  const [template] = replay.recorded(`${list}?status=open`)["items"] as Quote[];
  const [own] = replay.recorded("GET /rfq/get-requests")["items"] as [Request];
  const recorded = VENUES.flatMap((venue) => {
    const { data } = replay.recorded(`SOCKET /rfq/stream ${venue}`) as Snapshot;
    return data.requests;
  });
  let open: Quote[] = [];
  let sent = 0;
  replay.answers.set(list, () => ({
    items: open.toSorted((one, other) => one.price - other.price),
    next_cursor: null,
  }));
  const sendOne = () => {
    sent += 1;
    const times = { created_at: instant(0), expires_at: instant(LIFE_MS) };
    const next = { ...own, ...times, request_id: `request-${sent}` };
    const of = name === "ticket" ? own : renewed ? next : recorded[sent % recorded.length];
    const { request_id, venue_id, asset_id, side: asked } = of ?? own;
    const side = asked === "Ask" ? "Ask" : "Bid";
    const price = 500_000 + ((sent * 7_919) % 40_000);
    const terms = { request_id, venue_id, asset_id, side, price };
    const quote = { ...template, ...times, ...terms, quote_id: `quote-${sent}` };
    const replaces = name === "maker" && !renewed;
    const ended = replaces
      ? open.filter((other) => other.request_id === request_id)
      : open.slice(0, Math.max(0, open.length + 1 - OPEN));
    open = [...open.filter((other) => !ended.includes(other)), quote];
    replay.send(ACCOUNT, [
      { type: opened, data: quote },
      ...ended.map((over) => ({ type: "quote.closed", data: { ...over, ...ENDS[name] } })),
    ]);
    if (!renewed || name === "ticket") return;
    const data = { request_id: `request-${sent - OPEN}`, reason: "cancelled" };
    replay.send(`SOCKET /rfq/stream ${next.venue_id}`, [
      { type: "request.opened", data: next },
      { type: "request.closed", data },
    ]);
  };
  return (quotes) => {
    for (let left = quotes; left > 0; left--) sendOne();
  };
}

function instant(aheadMs: number): string {
  return new Date(NOW + aheadMs).toISOString();
}

export type Metric = "TaskDuration" | "Nodes" | "JSHeapUsedSize";

/** Chromium's own counters: seconds of the main thread, DOM nodes, bytes of the heap. */
export async function metrics(session: CDPSession): Promise<Record<Metric, number>> {
  const { metrics: all } = await session.send("Performance.getMetrics");
  const of = (wanted: Metric) => all.find(({ name }) => name === wanted)?.value ?? Number.NaN;
  return {
    TaskDuration: of("TaskDuration"),
    Nodes: of("Nodes"),
    JSHeapUsedSize: of("JSHeapUsedSize"),
  };
}
