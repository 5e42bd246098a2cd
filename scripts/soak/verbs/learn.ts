/** What a caller learns from a successful response about their own credentials. */
import type { Caller } from "../../actors/callers.ts";

type Response = {
  readonly name: string;
  readonly sent: string | undefined;
  readonly body: unknown;
};

/** Keys that a caller keeps, so that new ones are used too. */
const MAX_KEYS = 4;

export function learnSecrets(caller: Caller, { name, sent, body }: Response): void {
  // Safe casts: the published bodies of these operations.
  const fields = body as Record<string, unknown>;
  switch (name) {
    case "POST /auth/login":
      caller.token = fields["access_token"] as string;
      return;
    case "POST /auth/change-password":
      caller.token = fields["access_token"] as string;
      caller.password = (JSON.parse(sent ?? "{}") as { new_password: string }).new_password;
      return;
    case "POST /auth/totp":
      caller.newTotpSecret = fields["secret"] as string;
      return;
    case "POST /auth/confirm-totp":
      caller.totpSecret = caller.newTotpSecret;
      caller.newTotpSecret = undefined;
      caller.recoveryCodes = [...(fields["recovery_codes"] as string[])];
      return;
    case "POST /auth/remove-totp":
      caller.totpSecret = undefined;
      caller.recoveryCodes = [];
      return;
    case "POST /auth/api-keys":
      if (fields["active_from"] === null) return;
      caller.keys = [
        ...caller.keys.slice(1 - MAX_KEYS),
        { apiKeyId: fields["api_key_id"] as string, secret: fields["secret"] as string },
      ];
  }
}
