/** What the live map of requests quotes next. The Python client passes the same cases. */
import { expect, it } from "vitest";
import {
  Problem,
  type Quote,
  type QuoteRequest,
  type Side,
  type StreamMessage,
} from "../../packages/client/src/index.ts";
import { type From, VenueRequests } from "../../packages/client/src/venue-requests.ts";
import cases from "./venue-requests.json" with { type: "json" };

/** Safe casts: records and messages with the fields that the map reads. */
const requestOf = (text: string) => {
  const [request_id, side] = text.split(":");
  return { request_id, side } as QuoteRequest;
};
const quoteOf = (text: string, label: string | null = null) => {
  const [quote_id, of = ""] = text.split("=");
  return { ...requestOf(of), quote_id, status: "open", label } as unknown as Quote;
};
const message = (type: string, data: object) => ({ type, data }) as StreamMessage;

async function run(steps: readonly string[]): Promise<string[]> {
  const label = steps[0]?.startsWith("label ") ? steps[0].slice(6) : undefined;
  const requests = new VenueRequests(label);
  const results: PromiseWithResolvers<Quote>[] = [];
  const apply = (from: From, type: string, data: object = {}) =>
    requests.apply(from, message(type, data));
  const snapshot = (from: From, records: readonly string[]) => {
    const quotes = records.filter((text) => text.includes("=")).map((text) => quoteOf(text));
    const open = records.filter((text) => !text.includes("=")).map(requestOf);
    // In two parts, the first of which changes nothing.
    apply(from, "snapshot", { requests: open.slice(0, 1), quotes: [], more: true });
    apply(from, "snapshot", { requests: open.slice(1), quotes, more: false });
  };
  const step = async (text: string): Promise<string> => {
    const [word = "", verb = "", ...rest] = text.split(" ");
    const [first = "", second] = rest;
    const from = word as From;
    if (word === "both") {
      apply("account", "hello");
      snapshot("account", []);
      apply("market", "hello");
      snapshot("market", [verb, ...rest]);
    } else if (word === "lost") requests.lost(verb as From);
    else if (word === "sent") {
      const result = Promise.withResolvers<Quote>();
      results.push(result);
      requests.track(requestOf(verb).request_id, result.promise).catch(() => {});
    } else if (word === "placed") results.pop()?.resolve(quoteOf(verb));
    else if (word === "failed")
      results.pop()?.reject(new Problem({ code: first }, { status: 409 }));
    else if (word === "settled") {
      const request = requestOf(verb);
      requests.settled({ request, side: request.side as Side }, Number(first));
    } else if (word === "take") {
      const taken = requests.take(Number(verb), 8);
      const names = taken.map(({ request, side }) => `${request.request_id}:${side}`);
      return ["take", verb, "->", ...names].join(" ");
    } else if (verb === "snapshot") snapshot(from, rest);
    else if (verb === "opened") apply(from, "request.opened", requestOf(first));
    else if (verb === "quoted") apply(from, "quote.opened", quoteOf(first, second ?? null));
    else if (verb === "ended") apply(from, "quote.closed", { ...quoteOf(first), reason: second });
    else if (word !== "label") apply(from, verb);
    await new Promise(setImmediate);
    return text;
  };
  const done: string[] = [];
  for (const text of steps) done.push(await step(text));
  return done;
}

it.each(Object.entries(cases))("%s", async (_name, steps) => {
  expect(await run(steps)).toEqual(steps);
});
