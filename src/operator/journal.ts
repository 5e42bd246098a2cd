/** `journal verify`: the archive against its own chain and against the database. */
import { verifyJournal } from "../archive/verify-journal.ts";
import { badOption, type OperatorContext, optional } from "./context.ts";

export function verify(context: OperatorContext): Promise<unknown> {
  const text = optional(context, "from") ?? "1";
  if (!/^[1-9]\d{0,9}$/.test(text)) throw badOption("from", "must be the number of a seal");
  const { env, settings } = context;
  return verifyJournal(env.DB, env.ARCHIVE, settings, { from: Number(text) });
}
