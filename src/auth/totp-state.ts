/** What a session sees of its user's TOTP. */
import * as z from "zod";
import { described, timeOrNullOut } from "../http/fields.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { userState } from "./credential-cache.ts";

export const Totp = z.object({
  enabled: described(z.boolean(), "Whether logins and step-up need a code"),
  recovery_codes_left: described(z.int(), "Unused recovery codes"),
  removal_at: timeOrNullOut("When a requested removal takes effect. Null: none was requested."),
  replacement_at: timeOrNullOut(
    "From when another device counts instead of the present one. Null: none waits.",
  ),
});

export async function shownTotp(
  db: D1Database,
  userId: string,
  waitUntil: (work: Promise<unknown>) => void,
): Promise<z.input<typeof Totp>> {
  const user = await userState(db, userId, waitUntil);
  const { totp = null, removalAt = null, replacementAt = null, recoveryCodesLeft = 0 } = user ?? {};
  const enabled = totp !== null && (removalAt === null || removalAt > Date.now());
  const replaced = replacementAt === null || replacementAt <= Date.now();
  return {
    enabled,
    recovery_codes_left: enabled ? recoveryCodesLeft : 0,
    removal_at: enabled ? toWireTimeOrNull(removalAt) : null,
    replacement_at: enabled && !replaced ? toWireTimeOrNull(replacementAt) : null,
  };
}
