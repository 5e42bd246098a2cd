/** Which operations and socket commands the users of a soak have used with success. */
import type { ResponseEvent } from "../../packages/client/src/transport.ts";
import { readOperations, readSocketCommands } from "./verbs/operations.ts";

/** Operations that no user of a soak needs, with the reason. `soak -- verbs` covers them. */
export const NOT_USED: Readonly<Record<string, string>> = {
  "GET /openapi.json": "a document",
  "GET /asyncapi.json": "a document",
  "GET /llms.txt": "a document",
  "GET /docs": "a document",
  "GET /.well-known/jwks.json": "a document",
  "GET /.well-known/security.txt": "a document, which the local stack does not have",
  "POST /auth/login": "only after an operator's freeze, which may not have happened",
  "POST /auth/change-password": "a lost response would lock the user out",
  "POST /auth/remove-totp": "would end what the approvals of the user need",
  "POST /auth/cancel-totp-removal": "there is no removal",
  "POST /auth/cancel-email-change": "takes the token of a notice that two operators cause",
  "POST /auth/freeze": "the operator's freeze is a fault of the soak",
  "POST /auth/unfreeze": "the operator's freeze is a fault of the soak",
  "DELETE /auth/sessions": "the operator's freeze ends sessions",
  "POST /account/create-webhook": "the journey webhook-kill has the receiver that it needs",
  "POST /account/rotate-webhook-secret": "as create-webhook",
  "POST /account/test-webhook": "as create-webhook",
  "DELETE /account/webhook": "as create-webhook",
  "GET /account/get-webhooks": "as create-webhook",
  "GET /account/get-webhook-attempts": "as create-webhook",
};

export class VerbUse {
  readonly #used = new Set<string>();

  /** For the hook `onResponse` of a client. */
  readonly onResponse = ({ method, path, error }: ResponseEvent): void => {
    if (error === null) this.#used.add(`${method} ${path}`);
  };

  /** An opened stream, or a command that had a result. */
  use(name: string): void {
    this.#used.add(name);
  }

  /** Names of documented operations and commands that were not used. */
  unused(): string[] {
    const documented = [
      ...readOperations().map(({ name }) => name),
      ...readSocketCommands().map(({ op }) => `socket ${op}`),
    ];
    return documented.filter((name) => !(name in NOT_USED) && !this.#used.has(name));
  }
}
