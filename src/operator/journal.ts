/** `journal verify`: an order reads a part, and scripts/operator/verify-archive.ts joins them. */
import { readAccounts, readOwners, verifySeals } from "../archive/verify-journal.ts";
import { sealerOf } from "../archive/watch-sealer.ts";
import { OperatorRejection } from "./operator-rejection.ts";
import {
  badOption,
  integerOption,
  oneOfOption,
  type OperatorContext,
  optional,
  optionalInteger,
} from "./context.ts";

const PARTS = ["seals", "accounts", "owners"] as const;

export async function verify(context: OperatorContext): Promise<unknown> {
  const { env, settings } = context;
  const { DB: db, ARCHIVE: bucket } = env;
  const part = oneOfOption(context, "part", PARTS);
  if (part === "accounts") return readAccounts(db, integerOption(context, "after"));
  if (part === "owners") {
    const after = optional(context, "after") ?? "";
    if (!/^([0-9a-f]{2})*$/.test(after)) throw badOption("after", "must be hexadecimal");
    return readOwners(db, after);
  }
  if (part === undefined) throw badOption("part", `must be one of ${PARTS.join(", ")}`);
  const most = optionalInteger(context, "most");
  return verifySeals({ db, bucket, macKeys: settings }, integerOption(context, "from"), most);
}

/** Writes the rows of `sealed_owners` that contradict the archive as the archive has them. */
export async function mend({ env }: OperatorContext): Promise<unknown> {
  const result = await sealerOf(env).mend();
  if ("refused" in result) throw new OperatorRejection("history_not_mended", result.refused);
  return result;
}
