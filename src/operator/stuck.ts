import { auditRow } from "../audit/audit.ts";
import { endStuck } from "../rfq/end-stuck.ts";
import { idOption, type OperatorContext } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Ends a quote or request that was set aside, and closes its alert. */
export async function end(context: OperatorContext): Promise<unknown> {
  const id = idOption(context, "id");
  const actor = `operator:${context.operator}` as const;
  const ended = await endStuck(context.env, id, (group, applied) => [
    auditRow(
      { kind: "stuck_ended", actor, userId: null, apiKeyId: null, ip: null, subjectId: id },
      group.at,
      applied,
    ),
  ]);
  if (!ended)
    throw new OperatorRejection("not_stuck", `No quote or request ${id} has been set aside.`);
  return { id, ended: true };
}
