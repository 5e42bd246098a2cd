/** The users, their credentials, and the commands that they have sent. */
import type { Actor, SessionActor } from "../../src/platform/actor.ts";
import { sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Command, Result } from "../../src/rfq/command.ts";
import type { Dice } from "../actors/dice.ts";
import type { Side } from "../../src/assets/asset-fields.ts";

export type Credential = {
  readonly actor: Actor;
  /** An operator or the user has begun to end it. */
  ending: boolean;
};

export type Person = {
  readonly userId: string;
  readonly name: string;
  readonly email: string;
  credentials: Credential[];
  /** The instant at which the last freeze or unfreeze began or ended; undefined while one runs. */
  frozenChangedAt: number | undefined;
  /** Freezes and unfreezes. While one is in flight, either state may be the last. */
  freezesInFlight: number;
  /** The operator has begun to freeze the person, and not to unfreeze them since. */
  frozen: boolean;
};

/** A command with what its sender knows about it. */
export type Sent = {
  readonly command: Command;
  readonly sentAt: number;
  readonly step: number;
  /** Undefined until it was answered. A killed Worker never answers. */
  result?: Result;
  answeredAt?: number;
  killed?: boolean;
};

export const BOOKS = [
  { venue: "venue_one", asset: "venue_one:0x1" },
  { venue: "venue_one", asset: "venue_one:0x2" },
  { venue: "venue_two", asset: "venue_two:0x1" },
] as const;

const RECENT = 40;
/** Of known records, so that most commands meet one that is still open. */
const KNOWN = 12;

/** A price at which a request accepts. Without a side it is the request's. */
type Limit = Readonly<Record<"userId" | "requestId", string>> & {
  readonly side: Side | null;
  readonly price: number;
};

export class People {
  readonly all: Person[] = [];
  /** Requests and quotes that commands have named lately, whether or not they exist yet. */
  readonly requests: { readonly id: string; readonly by: Person; readonly asset: string }[] = [];
  readonly quotes: { readonly id: string; readonly by: Person; readonly requestId: string }[] = [];
  /** Those of them that were answered with success. */
  readonly knownRequests: typeof this.requests = [];
  readonly knownQuotes: typeof this.quotes = [];
  /** The armed sockets on which quotes were sent, by quote. */
  readonly socketOf = new Map<string, string>();
  /** Matches that commands have asked for, and prices that requesters have set. */
  readonly accepts = new Set<string>();
  readonly limits: Limit[] = [];
  /** Commands since the last quiet point. */
  sent: Sent[] = [];
  commands = 0;

  remember(command: Command, by: Person): void {
    if (command.op === "open_request")
      keep(this.requests, { id: command.requestId, by, asset: command.asset });
    if (command.op === "place_quote")
      keep(this.quotes, { id: command.quoteId, by, requestId: command.requestId });
    if ("matchId" in command) this.accepts.add(command.matchId);
    const { userId } = by;
    if (command.op === "open_request" && command.accept !== undefined)
      this.limits.push({ userId, requestId: command.requestId, ...command.accept });
    if (command.op === "set_accept_price" && command.price !== null)
      this.limits.push({ userId, ...command, price: command.price });
  }

  /** The database has lost what they know. */
  forget(): void {
    for (const list of [this.requests, this.quotes, this.knownRequests, this.knownQuotes])
      list.length = 0;
    this.sent = [];
  }

  /** The command was answered with success. */
  confirm(command: Command): void {
    const request = this.requests.find(
      ({ id }) => "requestId" in command && id === command.requestId,
    );
    if (command.op === "open_request" && request !== undefined)
      keep(this.knownRequests, request, KNOWN);
    const quote = this.quotes.find(({ id }) => "quoteId" in command && id === command.quoteId);
    if (command.op === "place_quote" && quote !== undefined) keep(this.knownQuotes, quote, KNOWN);
  }
}

function keep<T>(list: T[], item: T, limit = RECENT): void {
  list.push(item);
  if (list.length > limit) list.shift();
}

/** Mostly one of the newest. */
export function recent<T>(dice: Dice, list: readonly T[]): T | undefined {
  if (list.length === 0) return undefined;
  const back = dice.chance(0.7) ? Math.min(6, list.length) : list.length;
  return list[list.length - dice.between(1, back)];
}

export function keyOf(person: Person): Credential & { readonly apiKeyId: string } {
  const apiKeyId = uuidv7();
  return {
    apiKeyId,
    actor: {
      userId: person.userId,
      scopes: ["read", "trade", "withdraw"],
      credential: { kind: "api_key", apiKeyId },
    },
    ending: false,
  };
}

export const insertUser = ({ userId, email }: Person, now: number) =>
  sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
    VALUES (${uuid(userId)}, ${email}, '', 0, ${now})`;

export const insertKey = ({
  userId,
  apiKeyId,
  now,
}: {
  userId: string;
  apiKeyId: string;
  now: number;
}) =>
  sql`INSERT INTO api_keys (api_key_id, user_id, label, scopes, secret_sealed, master_key_id,
      allowed_ips, require_idempotency, minted_by, active_from, created_at)
    VALUES (${uuid(apiKeyId)}, ${uuid(userId)}, 'simulated', 'read,trade,withdraw', '', 'k1', NULL,
      0, 'session', ${now}, ${now})`;

/** A policy under which withdrawals wait for approval. */
export const insertPolicy = ({
  userId,
  approvalAbove,
  now,
}: {
  userId: string;
  approvalAbove: bigint;
  now: number;
}) =>
  sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
      withdraw_listed_only, withdraw_approval_above)
    VALUES (${uuid(userId)}, ${now}, 1, 1, 0, ${Number(approvalAbove)})`;

export function sessionOf({ credentials }: Person) {
  const session = credentials.find(({ actor }) => actor.credential.kind === "session");
  // Safe cast: its credential is a session.
  return session as (Credential & { readonly actor: SessionActor }) | undefined;
}

export function credentialOf(person: Person, dice: Dice): Credential {
  return dice.pick(person.credentials);
}
