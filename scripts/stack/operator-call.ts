/** Sends one operator command to the Worker's entrypoint `Operator`. */

export type OperatorRequest = {
  command: string[];
  options?: Record<string, string>;
  operator?: string;
};

export type OperatorProblem = { code: string; title?: string; detail?: string; status?: number };

export type OperatorResponse =
  | { ok: true; result: unknown }
  | { ok: false; problem: OperatorProblem };

export async function callOperator(
  send: (request: Request) => Promise<Response>,
  url: string,
  { command, options = {}, operator = "local" }: OperatorRequest,
): Promise<OperatorResponse> {
  const response = await send(
    new Request(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ command, options, operator }),
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
