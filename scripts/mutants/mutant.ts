/** What a mutant is, and the test files that catch them. */
import { join } from "node:path";
import { lastFileWith } from "../migrations/files.ts";

export type Mutant = {
  /** `<area>/<what is wrong>`. */
  readonly name: string;
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  readonly tests: readonly TestFile[];
  /** Why no test can notice it. Such a mutant is not run. */
  readonly equivalent?: string;
};

type TestFile = { readonly project: "node" | "workers" | "clock" | "chain"; readonly file: string };

export const node = (file: string): TestFile => ({ project: "node", file });
export const workers = (file: string): TestFile => ({ project: "workers", file });
const clock = (file: string): TestFile => ({ project: "clock", file });

const chain = (file: string): TestFile => ({ project: "chain", file });

export const WHO = workers("test/auth/who-may.test.ts");
export const BOOK = workers("test/rfq/book.test.ts");
export const LIMITS = workers("test/rfq/limits.test.ts");
export const CLOSE = workers("test/rfq/close.test.ts");
export const MARKETS = workers("test/rfq/markets.test.ts");
export const PLACE = workers("test/rfq/place-quote.test.ts");
export const REPLACE = workers("test/rfq/replace.test.ts");
export const TWO_WAY = workers("test/rfq/two-way.test.ts");
export const RACES = clock("test/rfq/races.clock.test.ts");
export const MODEL = clock("test/rfq/model.clock.test.ts");
export const GUARDS = workers("test/ledger/guards.test.ts");
export const AMOUNTS = clock("test/ledger/amounts.clock.test.ts");
export const WITHDRAW = workers("test/custody/withdraw.test.ts");
export const STREAMS = workers("test/streams/streams.test.ts");
export const REGISTRATION = workers("test/streams/registration.test.ts");
export const POSITIONS = workers("test/rfq/positions.test.ts");
export const RECONCILE = workers("test/reconcile/reconcile.test.ts");
export const TAMPERING = workers("test/reconcile/tampering.test.ts");
export const SECURITY = workers("test/auth/security.test.ts");
export const CHANGE_PASSWORD = workers("test/auth/change-password.test.ts");
export const WITHDRAWAL_POLICY = workers("test/custody/withdrawal-policy.test.ts");
export const WITHDRAW_KEYS = workers("test/auth/withdraw-keys.test.ts");
export const RIGHTS = workers("test/auth/rights.test.ts");
export const POLICY = workers("test/auth/policy.test.ts");
export const CANCEL = workers("test/custody/cancel-withdrawal.test.ts");
export const TRADE_LIMITS = workers("test/rfq/trade-limits.test.ts");
export const KEY_LIMITS = workers("test/auth/key-limits.test.ts");
export const STEP_UP_RACE = workers("test/auth/step-up-race.test.ts");
export const TOTP = workers("test/auth/totp.test.ts");
export const FREEZE = workers("test/auth/freeze.test.ts");
export const RESET = workers("test/operator/reset-account.test.ts");
export const VERIFY_JOURNAL = workers("test/archive/verify-journal.test.ts");
export const EVENT_MAC = node("test/audit/event-mac.node.test.ts");
export const KEY_SEAL = workers("test/auth/key-seal.test.ts");
export const TICKETS = workers("test/auth/ws-ticket.test.ts");
export const DEADLINES = workers("test/rfq/deadline.test.ts");
export const PAID_OTHERWISE = chain("test/chain/paid-otherwise.anvil.ts");
export const RESTORE_CLAIMED = chain("test/chain/restore-claimed.anvil.ts");
export const STOLEN = workers("test/auth/stolen.test.ts");
export const WITHDRAWALS = chain("test/chain/withdrawals.anvil.ts");
export const EDITS = workers("test/reconcile/edits.test.ts");
export const PRECONDITIONS = clock("test/rfq/preconditions.clock.test.ts");
export const APPEND_ONLY = workers("test/platform/append-only.test.ts");
export const CUSTODY_LIMITS = workers("test/custody/limits.test.ts");
export const SET_ASIDE = workers("test/rfq/set-aside.test.ts");
export const ROW_GUARDS = workers("test/rfq/row-guards.test.ts");
export const DISCONNECT = workers("test/rfq/disconnect.test.ts");
export const TIMERS = clock("test/rfq/cancel-after.clock.test.ts");
export const PROTECTION = workers("test/rfq/protection.test.ts");
export const PROTECTION_CLOCK = clock("test/rfq/protection.clock.test.ts");
export const SEALER = workers("test/archive/sealer.test.ts");
export const RELEASE = workers("test/archive/release.test.ts");
export const FULL_SCAN = workers("test/reconcile/full-scan.test.ts");
export const COLD = workers("test/archive/cold-entries.test.ts");
export const COLD_RECORDS = workers("test/archive/cold-records.test.ts");
export const TERMS = node("test/rfq/trade-terms.node.test.ts");
export const EVENT_FORMS = node("test/platform/event-forms.node.test.ts");

type Change = readonly [
  what: string,
  find: string,
  replace: string,
  tests: readonly TestFile[],
  equivalent?: string,
];

export function of(area: string, file: string, changes: readonly Change[]): Mutant[] {
  return changes.map(([what, find, replace, tests, equivalent]) => ({
    name: `${area}/${what}`,
    file,
    find,
    replace,
    tests,
    ...(equivalent === undefined ? {} : { equivalent }),
  }));
}

/** The migrations: the last file with the text counts, because a changed trigger has a new file. */
export const SCHEMA = "migrations";

export function fileOf({ file, find }: Pick<Mutant, "file" | "find">): string {
  return file === SCHEMA ? join(SCHEMA, lastFileWith(find) ?? "") : file;
}
