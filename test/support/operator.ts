/**
 * Orders of the operators `test` and `second`, whose public keys are in test/support/settings.ts.
 */
import { createHash } from "node:crypto";
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Operator } from "../../src/operator/entrypoint.ts";
import { signedOrder } from "../../scripts/stack/operator-call.ts";

export const OPERATOR_KEYS = {
  test: "MC4CAQAwBQYDK2VwBCIEILa9Lq8Rtmt_aEVGDmr9lmRGowPpPZ2Oz4TIdV_aNn3Z",
  second: "MC4CAQAwBQYDK2VwBCIEIGuga0aX7hppzflBikDWvAdzCbuYAWhHGxsT3L2yQYsT",
} as const;

export type OperatorResult = {
  ok: boolean;
  result: Record<string, unknown> & Record<string, unknown>[];
  next_cursor?: string | null;
  problem: { code: string; detail: string };
};

export function orderOf(
  command: string[],
  options: Record<string, string> = {},
  operator: keyof typeof OPERATOR_KEYS = "test",
  signedAtMs = Date.now(),
): string {
  const key = { name: operator, deployment: "test", private_key: OPERATOR_KEYS[operator] };
  return signedOrder({ command, options }, key, signedAtMs);
}

/** Sends a body to the entrypoint, with some of its settings changed. */
export async function sendOrder(
  body: string,
  settings: Partial<Env> = {},
): Promise<OperatorResult> {
  const request = new Request("http://operator.internal/", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  const entrypoint = new Operator(createExecutionContext(), { ...env, ...settings });
  return (await entrypoint.fetch(request)).json();
}

/** An order of `test` that `second` approves, who makes the password. */
export async function orderOfTwo(
  command: string[],
  options: Record<string, string>,
  { password, ...settings }: Partial<Env> & { readonly password: string },
): Promise<OperatorResult> {
  const proposed = await sendOrder(orderOf(command, options), settings);
  const id = String(proposed.result["proposal_id"]);
  const { result } = await sendOrder(orderOf(["approvals", "list"]), settings);
  const listed = result.find(({ proposal_id }) => proposal_id === id);
  const sha256 = createHash("sha256").update(String(listed?.["content"])).digest("hex");
  return sendOrder(orderOf(["approve"], { id, sha256, password }, "second"), settings);
}
