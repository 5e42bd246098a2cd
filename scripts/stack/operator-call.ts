/** One operator command to the Worker's entrypoint `Operator`, over whichever way leads to it. */

export type OperatorCommand = {
  command: string[];
  options?: Record<string, string>;
  operator?: string;
};

export type OperatorProblem = { code: string; title?: string; detail?: string; status?: number };

export type OperatorAnswer =
  | { ok: true; result: unknown }
  | { ok: false; problem: OperatorProblem };

export async function askOperator(
  send: (request: Request) => Promise<Response>,
  url: string,
  { command, options = {}, operator = "local" }: OperatorCommand,
): Promise<OperatorAnswer> {
  const response = await send(
    new Request(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ command, options, operator }),
    }),
  );
  const text = await response.text();
  try {
    const answer = JSON.parse(text) as OperatorAnswer;
    if (typeof answer.ok === "boolean") return answer;
  } catch {
    // Not an answer of the entrypoint; told below.
  }
  throw new Error(`The operator entrypoint answered ${response.status}: ${text.slice(0, 500)}`);
}
