/** What an event stores in `details`. Its MAC (event-mac.ts) and the signed chain cover it. */
import { createHash } from "node:crypto";
import type { DetailedKind } from "./event-kinds.ts";
import type { MacKeys } from "./event-mac.ts";

/** What `details` of an event stores. Of the other kinds with details the kind says it all. */
type Contents = {
  readonly email_change_requested: EmailChange;
  readonly email_changed: { from: string; to: string };
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

/** The hash of a stored password hash. It shows that a hash was replaced, and reveals nothing. */
export function passwordSha256(passwordHash: string): string {
  return createHash("sha256").update(passwordHash).digest("hex");
}
