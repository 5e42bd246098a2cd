/** Signs one operator command and sends it to the Worker's entrypoint `Operator`. */
import { createHash, randomUUID, sign } from "node:crypto";
import { orderText } from "../../src/operator/order-text.ts";
import { type OperatorKey, privateKeyOf } from "../operator/operator-key.ts";

export type OperatorRequest = {
  command: string[];
  options?: Record<string, string>;
  /** Which key signs it. Default: the only one, or the first of a local stack. */
  operator?: string | undefined;
};

export type OperatorProblem = { code: string; title?: string; detail?: string; status?: number };

export type OperatorResponse =
  /** Of a list: `next_cursor` is the `--cursor` of its next page. */
  | { ok: true; result: unknown; next_cursor?: string | null }
  | { ok: false; problem: OperatorProblem };

/** The body of a call: an order and its signature. */
export function signedOrder(
  { command, options = {} }: OperatorRequest,
  { name, deployment, private_key }: OperatorKey,
  signedAtMs = Date.now(),
): string {
  const order = JSON.stringify({ command, options });
  const orderId = randomUUID();
  const sha256 = createHash("sha256").update(order).digest("hex");
  const text = orderText({ deployment, orderId, signedAtMs, sha256 });
  const signature = sign(null, Buffer.from(text), privateKeyOf(private_key)).toString("base64url");
  return JSON.stringify({
    operator: name,
    order_id: orderId,
    signed_at_ms: signedAtMs,
    order,
    signature,
  });
}

export async function callOperator(
  send: (request: Request) => Promise<Response>,
  url: string,
  key: OperatorKey,
  request: OperatorRequest,
): Promise<OperatorResponse> {
  const response = await send(
    new Request(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: signedOrder(request, key),
    }),
  );
  const text = await response.text();
  try {
    const result = JSON.parse(text) as OperatorResponse;
    if (typeof result.ok === "boolean") return result;
  } catch {
    // The body is not a response of the entrypoint. The error below contains it.
  }
  throw new Error(`The operator entrypoint returned ${response.status}: ${text.slice(0, 500)}`);
}
