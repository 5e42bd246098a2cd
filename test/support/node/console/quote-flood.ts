/** Many quotes on a replayed page, and what they cost it. */
import type { CDPSession, Page } from "playwright-core";
import { goTo, NOW, type Replay } from "./replay.ts";

/** Quotes that are open at the same time. */
const OPEN = 40;
const LIFE_MS = 600_000;
const ACCOUNT = "SOCKET /account/stream";

/** The pages on which quotes arrive: those on one's own request, and one's own quotes. */
export const FLOODED = {
  ticket: { hash: "market/venue_one/0x2", opened: "quote.received", list: "GET /rfq/quote" },
  maker: { hash: "maker", opened: "quote.opened", list: "GET /rfq/get-quotes" },
} as const;

/** Opens the page. The returned function sends so many quotes to it. */
export async function floodOf(
  { page, replay }: { page: Page; replay: Replay },
  name: keyof typeof FLOODED,
): Promise<(quotes: number) => void> {
  const { hash, opened, list } = FLOODED[name];
  await goTo(page, hash);
  const [template] = replay.recorded(`${list}?status=open`)["items"] as { price: number }[];
  const [request] = replay.recorded("GET /rfq/get-requests")["items"] as object[];
  const open: { quote_id: string; price: number }[] = [];
  let sent = 0;
  replay.answers.set(list, () => ({
    items: open.toSorted((one, other) => one.price - other.price),
    next_cursor: null,
  }));
  return (quotes) => {
    for (let left = quotes; left > 0; left--) {
      sent += 1;
      const id = (kind: string) => `${kind}-${sent}`;
      const times = { created_at: instant(0), expires_at: instant(LIFE_MS) };
      const price = 500_000 + ((sent * 7_919) % 40_000);
      const quote = { ...template, ...times, quote_id: id("quote"), price };
      open.push(quote);
      const ended = open.length > OPEN ? open.splice(0, 1) : [];
      replay.send(ACCOUNT, [
        { type: opened, data: quote },
        ...ended.map((over) => ({
          type: "quote.closed",
          data: { ...over, reason: "lost", winning_price: price },
        })),
      ]);
      if (name === "maker")
        replay.send("SOCKET /rfq/stream venue_one", [
          { type: "request.opened", data: { ...request, ...times, request_id: id("request") } },
          {
            type: "request.closed",
            data: { request_id: `request-${sent - OPEN}`, reason: "cancelled" },
          },
        ]);
    }
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
