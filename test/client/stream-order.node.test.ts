import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StreamMessage } from "../../packages/client/src/index.ts";
import { StreamOrder } from "../../packages/client/src/stream-order.ts";

const frame = (type: string, seq: number, data: unknown = {}) =>
  ({ type, stream: "s", seq, at: "", data }) as StreamMessage;
const event = (seq: number) => frame("account.notice", seq);
const seqs = (messages: StreamMessage[]) => messages.map(({ seq }) => seq);

describe("StreamOrder", () => {
  it("delivers every event once and in order, however they arrive", () => {
    const arrivals = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(arrivals, (order) => {
        const stream = new StreamOrder({ hasSnapshot: false, since: 0 });
        const delivered = order.flatMap((seq) => seqs(stream.take(event(seq))));
        expect(delivered).toEqual(delivered.map((_, index) => index + 1));
        const arrived = new Set(order);
        let complete = 0;
        while (arrived.has(complete + 1)) complete++;
        expect(delivered).toHaveLength(complete);
        expect(stream.hasGap).toBe(arrived.size > complete);
      }),
    );
  });

  it("starts an account stream at hello", () => {
    const stream = new StreamOrder({ hasSnapshot: false });
    stream.take(frame("hello", 7));
    expect(seqs(stream.take(event(8)))).toEqual([8]);
    expect(stream.since).toBe(8);
  });

  it("starts a book stream after the last part of its snapshot", () => {
    const stream = new StreamOrder({ hasSnapshot: true });
    stream.take(frame("hello", 7));
    expect(stream.take(frame("snapshot", 9, { requests: [], more: true }))).toHaveLength(1);
    expect(stream.since).toBeNull();
    stream.take(frame("snapshot", 9, { requests: [], more: false }));
    expect(stream.since).toBe(9);
    expect(stream.take(event(9))).toEqual([]);
    expect(seqs(stream.take(event(10)))).toEqual([10]);
  });

  it("keeps the position of since at hello", () => {
    const stream = new StreamOrder({ hasSnapshot: true, since: 3 });
    stream.take(frame("hello", 9));
    expect(seqs(stream.take(event(4)))).toEqual([4]);
  });

  it("resumes after a resync: at its number, or with a snapshot", () => {
    const account = new StreamOrder({ hasSnapshot: false, since: 3 });
    account.take(frame("resync", 50));
    expect(account.since).toBe(50);
    const book = new StreamOrder({ hasSnapshot: true, since: 3 });
    book.take(frame("resync", 50));
    expect(book.since).toBeNull();
  });

  it("takes numbers as they come on a stream of chosen assets, and resumes after skipped", () => {
    const stream = new StreamOrder({ hasSnapshot: true, filtered: true });
    stream.take(frame("snapshot", 9, { requests: [], more: false }));
    expect(stream.take(frame("skipped", 9))).toEqual([]);
    expect(seqs([12, 12, 40].flatMap((seq) => stream.take(event(seq))))).toEqual([12, 40]);
    stream.pong(1_200);
    expect(stream.hasGap).toBe(false);
    expect(seqs(stream.take(frame("skipped", 1_040)))).toEqual([1_040]);
    expect(stream.since).toBe(1_040);
  });

  it("reports a gap after a pong, until the next connection", () => {
    const stream = new StreamOrder({ hasSnapshot: false, since: 3 });
    stream.pong(3);
    expect(stream.hasGap).toBe(false);
    stream.pong(4);
    expect(stream.hasGap).toBe(true);
    stream.disconnected();
    expect(stream.hasGap).toBe(false);
    expect(stream.since).toBe(3);
  });
});
