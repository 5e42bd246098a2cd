import { Problem } from "../platform/problem.ts";
import type { Answer } from "./command.ts";
import { matchView, quoteView, requestView } from "./records.ts";

type Granted = Extract<Answer, { ok: true }>;

/** The REST body of an answer, which goes down a socket unchanged. */
export function answerBody(answer: Granted): unknown {
  switch (answer.kind) {
    case "request":
      return requestView(answer.row);
    case "quote":
      return quoteView(answer.row);
    case "match":
      return matchView(answer.row);
    case "cancelled":
      return { quote_id: answer.id, status: "cancelled" };
  }
}

/** The answer of the kind that the command has, or its refusal as a Problem. */
export function granted<Kind extends Granted["kind"]>(
  answer: Answer,
  kind: Kind,
): Extract<Granted, { kind: Kind }> {
  if (!answer.ok) throw new Problem(answer.problem);
  if (answer.kind !== kind) throw new Error(`a ${kind} was expected, not a ${answer.kind}`);
  return ofKind(answer);
}

/** `granted` has compared the kinds, which TypeScript cannot follow through a type parameter. */
function ofKind<Kind extends Granted["kind"]>(answer: Granted): Extract<Granted, { kind: Kind }> {
  return answer as Extract<Granted, { kind: Kind }>;
}
