/** What an event stores in `details`. Its MAC (event-mac.ts) and the signed chain cover it. */
import { createHash } from "node:crypto";
import { type DetailedKind, isMarked } from "./event-kinds.ts";
import type { EventContent, MacKeys } from "./event-mac.ts";

/** What decides what a key may do, as its row stores it: text that SQL also reads. */
export type KeyRights = {
  readonly scopes: string;
  readonly limits: string | null;
  readonly requireIdempotency: number;
  readonly allowedIps: string | null;
  readonly activeFrom: number | null;
  readonly expiresAt: number | null;
  readonly mintedBy: "session" | "operator";
};
/** A policy on the wire. Null: no limit. */
export type PolicyView = {
  sessions_trade: boolean;
  max_trade_usdc_per_day: string | null;
  withdraw_max_usdc_per_day: string | null;
  withdraw_listed_only: boolean;
  withdraw_approval_above: string | null;
};
/** One of the policies that a change leaves: it applies `afterMs` after the event. */
type PolicyFrom = { readonly afterMs: number; readonly policy: PolicyView };

/** What `details` of an event stores. Of the other kinds with details the kind says it all. */
type Contents = {
  readonly user_created: { passwordSha256: string };
  readonly password_changed: { passwordSha256: string };
  readonly password_set: { passwordSha256: string };
  readonly email_change_requested: EmailChange;
  readonly email_changed: { from: string; to: string };
  /** A hold began. Before this kind, `password_set` and `totp_reset` stored `holdMs`. */
  readonly security_hold: { holdMs: number };
  readonly totp_enabled: { codes: readonly string[] };
  /** `since` is when the present secret began to count, `codes` are of both. */
  readonly totp_replacement_requested: {
    codes: readonly string[];
    since: number;
    afterMs: number;
  };
  readonly totp_removal_requested: { afterMs: number };
  readonly policy_changed: readonly PolicyFrom[];
  readonly api_key_created: KeyRights;
  readonly api_key_approved: { activeFrom: number };
  readonly withdrawal_address_created: { chain: string; address: string; afterMs: number };
  /** An operator approved or rejected the proposal. */
  readonly proposal_decided: { status: "approved" | "rejected" };
  /** The journal up to the seal whose number is the subject. */
  readonly journal_sealed: { epoch: number; sha256: string };
  /** An epoch of the log (epoch.ts), so that `restore` alone explains lost numbers. */
  readonly audit_epoch_opened: {
    /** Counts the restores, also those whose event a later restore has lost. */
    readonly epoch: number;
    /** The number of its event. */
    readonly seq: number;
    /** The last event before it. The numbers between the two were never given by this database. */
    readonly follows: number;
    /** The last event on which the database and R2 agreed, or that Time Travel cannot have lost. */
    readonly keptUntil: number;
    /** The highest number that R2 knows and the database has lost, or `keptUntil`. */
    readonly lostUntil: number;
  };
  readonly operator_order: {
    order_id: string;
    signed_at_ms: number;
    sha256: string;
    signature: string;
    /** Command and options as they were typed, without a password and shortened. */
    line: string;
  };
};
export type Stored = Contents &
  Readonly<Record<Exclude<DetailedKind, keyof Contents>, Readonly<Record<string, never>>>>;
/** What operators ordered: it takes effect at `activeFrom`, unless it is cancelled. */
export type EmailChange = {
  readonly from: string;
  readonly to: string;
  readonly passwordSha256: string;
  readonly keepKeys: boolean;
  readonly activeFrom: number;
};
/** `details` of an event, and the keys for its MAC. */
export type Details = { readonly json: string; readonly keys: MacKeys };

export function detailsOf<Of extends DetailedKind>(
  keys: MacKeys,
  _: Of,
  stored: Stored[Of],
): Details {
  return { json: JSON.stringify(stored), keys };
}

/**
 * `details` of a revocation. It has no MAC, because SQL composes those of many keys at once. A
 * forged one hides nothing: it only makes a key differ that is not revoked.
 */
export const REVOCATION_DETAILS = "{}";

/** Whether an event must have a MAC. SQL can leave the details out, too. */
export function needsMac({ kind, details }: Pick<EventContent, "kind" | "details">): boolean {
  return kind !== "api_key_revoked" && (details !== null || isMarked(kind, "details"));
}

/** The hash of a stored password hash. It shows that a hash was replaced, and reveals nothing. */
export function passwordSha256(passwordHash: string): string {
  return createHash("sha256").update(passwordHash).digest("hex");
}

/** The part of a recovery code's stored hash that the event names. */
export function codeMark(hash: string): string {
  return hash.toLowerCase().replace(/^0x/, "").slice(0, 16);
}
