/** A log reaches its receiver whole and in order, although the receiver fails. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { deliverLog, type DeliveredLog } from "../../src/outbound/deliver-log.ts";
import { MAX_BODY_BYTES, postOnce } from "../../src/outbound/post-once.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { newReceiver } from "../support/receiver.ts";
import { answerAlert } from "../support/pager.ts";

const db = env.DELIVERED_DB;
const PAGE = 3;

/** A log with the positions 1 to `length`, of which the odd ones are messages. */
function logOf(length: number, url: string): DeliveredLog {
  const read = async (after: number) => {
    const positions = Array.from({ length }, (_, index) => index + 1)
      .filter((position) => position > after)
      .slice(0, PAGE);
    const messages = positions
      .filter((position) => position % 2 === 1)
      .map((position) => ({
        position,
        post: { to: "test", url, headers: {}, body: JSON.stringify({ position }) },
      }));
    const more = positions.length === PAGE;
    return { messages, through: positions.at(-1) ?? after, more };
  };
  return { name: "notices", url, start: sql`SELECT 2`, read, late: "notices_late" };
}

async function deliverAll(log: DeliveredLog): Promise<void> {
  while (await deliverLog(db, log));
}
const positionsAt = async ({ bodies }: ReturnType<typeof newReceiver>) =>
  (await bodies()).map(({ position }) => position);
const isLate = async () =>
  (await all(db, sql`SELECT 1 FROM alerts WHERE kind = 'notices_late' AND resolved_at IS NULL`))
    .length === 1;
const failFor = (ms: number) =>
  all(db, sql`UPDATE delivery_cursors SET failing_since = failing_since - ${ms}`);

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));
beforeEach(() => deliverAll(logOf(0, "")));

it("begins where the log ends, and sends each later message once", async () => {
  const receiver = newReceiver();
  await deliverAll(logOf(8, receiver.url));
  await deliverAll(logOf(8, receiver.url));
  expect(await positionsAt(receiver)).toEqual([3, 5, 7]);
  await deliverAll(logOf(9, receiver.url));
  expect(await positionsAt(receiver)).toEqual([3, 5, 7, 9]);
});

it.each([500, 302, 429, 0] as const)("repeats after %s, in order, until accepted", async (how) => {
  const receiver = newReceiver();
  await deliverAll(logOf(4, receiver.url));
  await receiver.answer(how);
  for (let minute = 0; minute < 3; minute++) await deliverAll(logOf(9, receiver.url));
  expect(await positionsAt(receiver)).toEqual([3, 5, 5, 5]);
  await receiver.answer(202);
  await deliverAll(logOf(9, receiver.url));
  expect(await positionsAt(receiver)).toEqual([3, 5, 5, 5, 5, 7, 9]);
});

it("raises an alert after a quarter of an hour, and closes it when accepted", async () => {
  const receiver = newReceiver();
  await receiver.answer(500);
  await deliverAll(logOf(3, receiver.url));
  await failFor(899_000);
  await deliverAll(logOf(3, receiver.url));
  expect(await isLate()).toBe(false);
  await failFor(1_000);
  await deliverAll(logOf(3, receiver.url));
  const end = async () => {
    await receiver.answer(200);
    await deliverAll(logOf(3, receiver.url));
  };
  await answerAlert("notices_late", "notices", { db, end });
});

it("counts the quarter of an hour from the last accepted message", async () => {
  const receiver = newReceiver();
  await receiver.answer(500);
  await deliverAll(logOf(3, receiver.url));
  await failFor(900_000);
  await receiver.answer(200);
  const log = logOf(9, receiver.url);
  const failing = logOf(9, "http://127.0.0.1:1");
  const read = async (after: number) => {
    const [page, other] = [await log.read(after), await failing.read(after)];
    return { ...page, messages: [...page.messages.slice(0, 1), ...other.messages.slice(1)] };
  };
  await deliverLog(db, { ...log, read });
  const cursor = sql`SELECT position FROM delivery_cursors WHERE name = 'notices'`;
  expect(await first(db, cursor)).toEqual({ position: 3 });
  expect(await isLate()).toBe(false);
});

it("forgets a receiver that is not set any more, with its alert", async () => {
  const receiver = newReceiver();
  await receiver.answer(500);
  await deliverAll(logOf(3, receiver.url));
  await failFor(900_000);
  await deliverAll(logOf(3, receiver.url));
  await deliverAll(logOf(3, ""));
  expect([
    await isLate(),
    await all(db, sql`SELECT name FROM delivery_cursors WHERE name = 'notices'`),
  ]).toEqual([false, []]);
});

it("gives up on a receiver that never answers", async () => {
  const receiver = newReceiver();
  await receiver.answer(1);
  onTestFinished(() => void vi.useRealTimers());
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  const sent = postOnce({ to: "test", url: receiver.url, headers: {}, body: "{}" });
  while ((await receiver.received()).length === 0);
  vi.advanceTimersByTime(10_000);
  expect(await sent).toEqual({ accepted: false, status: null });
});

it("sends no message that a receiver may cut", async () => {
  const body = "x".repeat(MAX_BODY_BYTES + 1);
  const sent = postOnce({ to: "test", url: newReceiver().url, headers: {}, body });
  await expect(sent).rejects.toThrow("65537 bytes");
});
