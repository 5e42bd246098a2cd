/** `audit verify` of a log that several calls read. */
import { expect, it } from "vitest";
import { reconcileWhole } from "../../scripts/operator/reconcile-whole.ts";
import { verifyWhole } from "../../scripts/operator/verify-whole.ts";

type Part = { verdict: string; discrepancies?: unknown[] };

/** Each part has ten events. */
function verify(...parts: readonly Part[]) {
  return verifyWhole({ command: ["audit", "verify"], options: {} }, async ({ options }) => {
    const number = Number(options?.["continue"] ?? 0);
    const { verdict, discrepancies = [] } = parts[number] ?? { verdict: "ok" };
    const next = number + 1 < parts.length ? String(number + 1) : null;
    return {
      ok: true,
      result: { ok: verdict === "ok", verdict, verified: 10, discrepancies, next },
    };
  });
}

it("is ok only if every part could be compared with R2", async () => {
  const ok = { verdict: "ok" };
  const away = { verdict: "anchor_missing" };
  const restored = { verdict: "lost_in_restore" };
  expect(await verify(ok, ok)).toMatchObject({ result: { ok: true, verified: 20 } });
  const missing = { ok: true, result: { ok: false, verdict: "anchor_missing", verified: 30 } };
  expect(await verify(ok, away, ok)).toMatchObject(missing);
  expect(await verify(restored, away, restored)).toMatchObject(missing);
});

it("reports what any part found, not only the last", async () => {
  const forged = { verdict: "forged", discrepancies: [{ auditSeq: 3, kind: "changed" }] };
  expect(await verify(forged, { verdict: "anchor_missing" }, { verdict: "ok" })).toMatchObject({
    result: { ok: false, verdict: "forged", discrepancies: forged.discrepancies },
  });
});

it("reconciles in as many orders as it takes, and resolves only with the first", async () => {
  const orders: unknown[] = [];
  const order = { command: ["reconcile"], options: { resolve: "reviewed" } };
  const response = await reconcileWhole(order, async ({ options }) => {
    orders.push(options);
    const result = { ok: orders.length > 2, unfinished: orders.length < 3 };
    return { ok: true, result: orders.length === 1 ? { ...result, resolved: 4 } : result };
  });
  const more = { continue: "true" };
  expect(orders).toEqual([{ resolve: "reviewed" }, more, more]);
  expect(response).toEqual({ ok: true, result: { ok: true, unfinished: false, resolved: 4 } });
});
