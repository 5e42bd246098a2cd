/** Who may act for an account by its audit events, from which a row edited by SQL differs. Pure. */
import { isDeepStrictEqual } from "node:util";
import { codeMark, type KeyRights, passwordSha256, type Stored } from "../audit/event-details.ts";
import type { DetailedKind } from "../audit/event-kinds.ts";
import type { LoggedEvent } from "../audit/audit.ts";
import { DEFAULT_POLICY, type Policy, policyView } from "./policy.ts";

/** Of what an account's events are about: the user, a key or an address. */
export const RIGHTS_KINDS = {
  user: [
    "user_created",
    "password_changed",
    "password_set",
    "email_changed",
    "account_frozen",
    "account_unfrozen",
    "security_hold",
    "totp_enabled",
    "totp_reset",
    "totp_replacement_requested",
    "totp_removal_requested",
    "totp_removal_cancelled",
    "policy_changed",
  ],
  key: ["api_key_created", "api_key_approved", "api_key_revoked"],
  address: ["withdrawal_address_created", "withdrawal_address_removed"],
} as const;
type Kind = (typeof RIGHTS_KINDS)[keyof typeof RIGHTS_KINDS][number];

/** Kinds that cancel what waits to take effect (change-email.ts, change-policy.ts). */
export const CANCEL_KINDS = [
  "account_frozen",
  "password_set",
  "totp_reset",
  "security_hold",
  "totp_replacement_requested",
] as const;

/** Cancels only changes of TOTP. */
export const CANCELS_TOTP = "totp_removal_cancelled";

export type RightsEvent = LoggedEvent & {
  readonly kind: Kind;
  readonly subjectId: string;
  readonly details: string;
};

export type AccountRights = {
  readonly userId: string;
  /** D1's clock. */
  readonly now: number;
  readonly email: string;
  readonly passwordHash: string;
  readonly frozenAt: number | null;
  readonly frozenBy: string | null;
  readonly holdUntil: number | null;
  readonly sessionEpoch: number;
  /** How many events ended all of the user's sessions. Each raised the epoch by one. */
  readonly sessionsEnded: number;
  readonly policies: readonly { readonly activeFrom: number; readonly policy: Policy }[];
  readonly totp: {
    readonly createdAt: number;
    readonly nextFrom: number | null;
    readonly endsAt: number | null;
  } | null;
  /** Stored hashes of recovery codes. */
  readonly codes: readonly string[];
  /** Keys that are not revoked. */
  readonly keys: readonly (KeyRights & { readonly apiKeyId: string })[];
  readonly addresses: readonly {
    readonly addressId: string;
    readonly chain: string;
    readonly address: string;
    readonly activeFrom: number;
  }[];
};

/** A row that is not what the events made of it. */
export type WrongRight = {
  /** Such as `policy` or `key/<api_key_id>`. */
  readonly what: string;
  readonly detail: string;
};

/**
 * The last event of each kind about each subject, and `cancels`: of each request that waits to take
 * effect, the first later event of each kind that cancels.
 */
export class RightsHistory {
  readonly #events: ReadonlyMap<string, RightsEvent>;
  readonly #cancels: ReadonlyMap<string, readonly RightsEvent[]>;
  constructor(events: readonly RightsEvent[], cancels: readonly RightsEvent[]) {
    this.#events = new Map(events.map((event) => [`${event.subjectId} ${event.kind}`, event]));
    this.#cancels = Map.groupBy(cancels, ({ subjectId }) => subjectId);
  }

  /** The first event that cancelled what waited when `request` was made. */
  firstCancel(userId: string, request: RightsEvent): RightsEvent | undefined {
    const ofTotp = request.kind.startsWith("totp_");
    return (this.#cancels.get(userId) ?? [])
      .filter(({ seq, kind }) => seq > request.seq && (ofTotp || kind !== CANCELS_TOTP))
      .toSorted((one, other) => one.seq - other.seq)[0];
  }

  last(subject: string, ...kinds: readonly Kind[]): RightsEvent | undefined {
    return kinds
      .flatMap((kind) => this.#events.get(`${subject} ${kind}`) ?? [])
      .toSorted((one, other) => other.seq - one.seq)[0];
  }
}

/** Safe cast: the event's writer stored what its kind stores. */
function read<Of extends DetailedKind>(event: RightsEvent & { kind: Of | Kind }): Stored[Of] {
  return JSON.parse(event.details) as Stored[Of];
}

/** The rows of an account that differ from what its events say. */
export function wrongRights(account: AccountRights, history: RightsHistory): readonly WrongRight[] {
  return [
    ...wrongEmail(account, history),
    ...wrongPassword(account, history),
    ...wrongSessions(account),
    ...wrongFreeze(account, history),
    ...wrongPolicy(account, history),
    ...wrongTotp(account, history),
    ...wrongKeys(account, history),
    ...wrongAddresses(account, history),
  ];
}

function differs(what: string, row: unknown, events: unknown): WrongRight {
  return {
    what,
    detail: `the row says ${JSON.stringify(row)}, the audit events say ${JSON.stringify(events)}`,
  };
}

/** The address of the registration is in no event. */
function wrongEmail({ userId, email }: AccountRights, history: RightsHistory): WrongRight[] {
  const changed = history.last(userId, "email_changed");
  if (changed === undefined) return [];
  const { to } = read<"email_changed">(changed);
  return email === to ? [] : [differs("email", email, to)];
}

/** A user whom a restore has rebuilt has no password and no event. */
function wrongPassword(
  { userId, passwordHash }: AccountRights,
  history: RightsHistory,
): WrongRight[] {
  const set = history.last(userId, "user_created", "password_changed", "password_set");
  if (set === undefined || passwordHash === "") return [];
  const { passwordSha256: expected } = read<"user_created">(set);
  return expected === passwordSha256(passwordHash)
    ? []
    : [{ what: "password", detail: `the password hash is not that of audit event ${set.seq}` }];
}

/** A lower epoch revives sessions that were ended. A higher one only ends some. */
function wrongSessions({ sessionEpoch, sessionsEnded }: AccountRights): WrongRight[] {
  return sessionEpoch < sessionsEnded
    ? [differs("sessions", { session_epoch: sessionEpoch }, { session_epoch: sessionsEnded })]
    : [];
}

/** A freeze or a hold without an event narrows, so it is no difference. */
function wrongFreeze(account: AccountRights, history: RightsHistory): WrongRight[] {
  const { userId, frozenAt, frozenBy, holdUntil, now } = account;
  const found: WrongRight[] = [];
  const freeze = history.last(userId, "account_frozen", "account_unfrozen");
  const by = freeze?.actor.startsWith("operator:") === true ? "operator" : "self";
  if (freeze?.kind === "account_frozen" && (frozenAt === null || frozenBy !== by))
    found.push(differs("freeze", frozenAt === null ? null : frozenBy, by));
  const began = history.last(userId, "security_hold", "password_set", "totp_reset");
  const hold = began === undefined ? 0 : began.at + read<"security_hold">(began).holdMs;
  if (hold > now && (holdUntil ?? 0) < hold) found.push(differs("security hold", holdUntil, hold));
  return found;
}

/**
 * `CANCEL_KINDS` cancel what waits: of the policies, addresses and changes of TOTP those that an
 * earlier event requested and that had not taken effect. The first one decides, because a
 * later one may come after the instant at which the change would have taken effect.
 */
function cancelled(
  { userId }: AccountRights,
  history: RightsHistory,
  { request, from }: { request: RightsEvent; from: number },
): boolean {
  const cancel = history.firstCancel(userId, request);
  return cancel !== undefined && from > cancel.at;
}

function wrongPolicy(account: AccountRights, history: RightsHistory): WrongRight[] {
  const change = history.last(account.userId, "policy_changed");
  const expected =
    change === undefined
      ? []
      : read<"policy_changed">(change)
          .map(({ afterMs, policy }) => ({ activeFrom: change.at + afterMs, policy }))
          .filter(
            ({ activeFrom: from }) => !cancelled(account, history, { request: change, from }),
          );
  const stored = account.policies
    .map(({ activeFrom, policy }) => ({ activeFrom, policy: policyView(policy) }))
    .toSorted((one, other) => one.activeFrom - other.activeFrom);
  // Before the first change the defaults apply, and no row is the same as a row of them.
  const defaults = policyView(DEFAULT_POLICY);
  const isDefault = stored.every(({ policy }) => isDeepStrictEqual(policy, defaults));
  return (change === undefined && isDefault) || isDeepStrictEqual(stored, expected)
    ? []
    : [differs("policy", stored, expected)];
}

function wrongTotp(account: AccountRights, history: RightsHistory): WrongRight[] {
  const { userId, totp, codes, now } = account;
  const change = history.last(userId, "totp_enabled", "totp_reset");
  const enabled = change?.kind === "totp_enabled" ? change : undefined;
  const on = totp !== null && (totp.endsAt === null || totp.endsAt > now);
  if (enabled === undefined) return on ? [differs("TOTP", "on", "off")] : [];
  const endsAt = removalOf(account, history, enabled);
  if (endsAt !== null && endsAt <= now) return [];
  const replacement = history.last(userId, "totp_replacement_requested");
  const replaced = replacement !== undefined && replacement.seq > enabled.seq;
  const expected = replaced
    ? { ...replacementOf(account, history, replacement), endsAt }
    : { createdAt: enabled.at, nextFrom: null, endsAt };
  if (!on || !isDeepStrictEqual(totp, expected))
    return [differs("TOTP", on ? totp : "off", expected)];
  const maker = replaced ? replacement : enabled;
  const made = new Set(read<"totp_enabled">(maker).codes);
  return codes.every((hash) => made.has(codeMark(hash)))
    ? []
    : [{ what: "recovery codes", detail: `a code was not made by audit event ${maker.seq}` }];
}

/** When the secret of `enabled` ends. Null: its removal was not requested, or was cancelled. */
function removalOf(
  account: AccountRights,
  history: RightsHistory,
  enabled: RightsEvent,
): number | null {
  const removal = history.last(account.userId, "totp_removal_requested");
  if (removal === undefined || removal.seq < enabled.seq) return null;
  const from = removal.at + read<"totp_removal_requested">(removal).afterMs;
  return cancelled(account, history, { request: removal, from }) ? null : from;
}

/** Since when the replaced secret counts, and when the next one begins. Null: it was cancelled. */
function replacementOf(account: AccountRights, history: RightsHistory, request: RightsEvent) {
  const { since, afterMs } = read<"totp_replacement_requested">(request);
  const from = request.at + afterMs;
  const nextFrom = cancelled(account, history, { request, from }) ? null : from;
  return { createdAt: since, nextFrom };
}

function wrongKeys({ keys }: AccountRights, history: RightsHistory): WrongRight[] {
  return keys.flatMap(({ apiKeyId, ...row }) => {
    const what = `key/${apiKeyId}`;
    const created = history.last(apiKeyId, "api_key_created");
    if (created === undefined) return [{ what, detail: "no audit event made this key" }];
    const revoked = history.last(apiKeyId, "api_key_revoked");
    if (revoked !== undefined)
      return [{ what, detail: `audit event ${revoked.seq} revoked it, the row does not say so` }];
    const approved = history.last(apiKeyId, "api_key_approved");
    const expected = {
      ...read<"api_key_created">(created),
      ...(approved === undefined ? {} : read<"api_key_approved">(approved)),
    };
    return isDeepStrictEqual(row, expected) ? [] : [differs(what, row, expected)];
  });
}

function wrongAddresses(account: AccountRights, history: RightsHistory): WrongRight[] {
  return account.addresses.flatMap(({ addressId, ...row }) => {
    const what = `address/${addressId}`;
    const created = history.last(addressId, "withdrawal_address_created");
    if (created === undefined) return [{ what, detail: "no audit event added this address" }];
    const { chain, address, afterMs } = read<"withdrawal_address_created">(created);
    const from = created.at + afterMs;
    const removed =
      history.last(addressId, "withdrawal_address_removed") !== undefined ||
      cancelled(account, history, { request: created, from });
    if (removed) return [{ what, detail: "the audit events say that it was removed" }];
    const expected = { chain, address, activeFrom: from };
    return isDeepStrictEqual(row, expected) ? [] : [differs(what, row, expected)];
  });
}
