/** Verifies a log of any length by bounded calls, each of which continues the one before. */
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";

type Part = {
  ok: boolean;
  verdict?: string;
  verified: number;
  discrepancies: unknown[];
  next: string | null;
};

/**
 * Calls the command until a part has no `next`. The result is that of the last part, with the
 * discrepancies of all. `onPart` learns how many rows have been verified.
 */
export async function verifyWhole(
  order: OperatorRequest,
  call: (order: OperatorRequest) => Promise<OperatorResponse>,
  onPart: (verified: number) => void = () => {},
): Promise<OperatorResponse> {
  let verified = 0;
  const discrepancies: unknown[] = [];
  let unread = {};
  for (let next: string | undefined; ;) {
    const rest = next === undefined ? {} : { continue: next };
    const response = await call({ ...order, options: { ...order.options, ...rest } });
    if (!response.ok) return response;
    // Safe cast: src/audit/verify.ts makes the result.
    const part = response.result as Part;
    verified += part.verified;
    discrepancies.push(...part.discrepancies);
    // R2 may have failed for this part alone.
    if (part.verdict === "anchor_missing") unread = { ok: false, verdict: part.verdict };
    onPart(verified);
    if (part.next !== null) {
      next = part.next;
      continue;
    }
    const { next: _, ...last } = part;
    const read = last.ok || last.verdict === "lost_in_restore" ? unread : {};
    const wrong = discrepancies.length === 0 ? read : { ok: false, verdict: "forged" };
    return { ok: true, result: { ...last, ...wrong, verified, discrepancies } };
  }
}
