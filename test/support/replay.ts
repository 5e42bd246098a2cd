/** The state that a reader of a stream from number 0 ends with; fails on a gap or a repeat. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { CUSTODY_EVENTS } from "../../src/custody/event-views.ts";
import { RFQ_EVENTS } from "../../src/rfq/event-views.ts";
import { NOTICE_EVENTS } from "../../src/streams/notice.ts";
import { renderEvent } from "../../src/streams/render.ts";
import { eventsBetween } from "../../src/streams/replay.ts";

const VIEWS = { ...RFQ_EVENTS, ...CUSTODY_EVENTS, ...NOTICE_EVENTS };

export async function replay(
  stream: string,
): Promise<{ requests: Map<string, string>; quotes: Map<string, string> }> {
  const requests = new Map<string, string>();
  const quotes = new Map<string, string>();
  let last = 0;
  for await (const page of eventsBetween(env.DB, stream, 0, Number.MAX_SAFE_INTEGER)) {
    for (const event of page) {
      expect(event.seq).toBe(last + 1);
      last = event.seq;
      const { type, data } = JSON.parse(renderEvent(VIEWS, event));
      if (type === "request.opened") requests.set(data.request_id, "open");
      if (type === "request.closed") requests.set(data.request_id, data.reason);
      if (type === "quote.opened" || type === "quote.received")
        quotes.set(hex(data.quote_id), "open");
      if (type === "quote.closed") quotes.set(hex(data.quote_id), data.reason);
    }
  }
  return { requests, quotes };
}

const hex = (id: string) => id.replaceAll("-", "").toUpperCase();
