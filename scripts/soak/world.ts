/** The users of a soak, what they share, and how failed calls are counted. */
import type { Address } from "viem";
import { type Client, NoAnswer, Problem } from "../../packages/client/src/index.ts";
import type { ProblemCode } from "../../src/platform/problem.ts";
import type { CodeSource } from "../actors/callers.ts";
import type { Stack } from "../stack/start-stack.ts";
import type { Asset } from "./assets.ts";
import type { Chain } from "./chain.ts";
import type { Tally } from "./tally.ts";
import type { VerbUse } from "./verb-use.ts";

export type Person = {
  email: string;
  password: string;
  userId: string;
  /** A freeze ends it. `withSession` makes another one. */
  session: Client;
  /** Signs with an API key of all scopes. After a revocation it is another one. */
  client: Client;
  apiKeyId: string;
  addresses: Address[];
  /** Of users whose large withdrawals wait for their approval. */
  codes: CodeSource | undefined;
  /** Work that two hands must not do at once, because each would undo what the other checks. */
  busy: Set<"protection" | "armed" | "approval">;
  /** All withdrawals that were sent, by client_withdrawal_id, with any response. */
  withdrawals: Map<string, { asset: Asset; amount: bigint; to: Address; answered: boolean }>;
};

export type World = {
  stack: Stack;
  chain: Chain;
  people: Person[];
  refuser: Address;
  tally: Tally;
  verbs: VerbUse;
  ended(): boolean;
  /** Ends the soak early. */
  end(): void;
};

/** Rejections that faults and races between users explain. */
const EXPECTED: ReadonlySet<string> = new Set<ProblemCode>([
  "account_frozen",
  "api_key_revoked",
  "cancel_after_passed",
  "chain_liquidity",
  "deadline_passed",
  "deposit_address_limit",
  "destination_refused",
  "insufficient_funds",
  "login_throttled",
  "open_quote_limit",
  "open_request_limit",
  "protection_tripped",
  "quote_expired",
  "quote_not_open",
  "request_expired",
  "request_not_open",
  "session_invalid",
  "unavailable",
  "withdrawal_not_approvable",
  "withdrawal_not_cancellable",
  "withdrawals_paused",
]);

/** Counts a failed call. One that nothing explains fails the soak. */
export function note(tally: Tally, what: string, error: unknown): void {
  if (error instanceof NoAnswer) tally.count("lost", what);
  else if (error instanceof Problem) noteCode(tally, what, error);
  else tally.odd.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
}

/** The same for a rejection that is not thrown, as of one of several quotes. */
export function noteCode(
  tally: Tally,
  what: string,
  { code, message = code }: { readonly code: string; readonly message?: string },
): void {
  if (EXPECTED.has(code)) tally.count("refused", code);
  else tally.odd.push(`${what}: ${message}`);
}

/** Calls with the user's session. If it has ended, they log in and call again, once. */
export async function withSession<T>(
  person: Person,
  call: (session: Client) => Promise<T>,
): Promise<T> {
  try {
    return await call(person.session);
  } catch (error) {
    if (!(error instanceof Problem && error.code === "session_invalid")) throw error;
    const { email, password, codes } = person;
    const recovery = codes?.recoveryCodes.pop();
    const code = recovery === undefined ? {} : { recovery_code: recovery };
    person.session = person.session.withSession(
      await person.session.auth.login({ email, password, ...code }),
    );
    return call(person.session);
  }
}
