/** What the operator's console shows, as text: results of commands as facts and tables. */
import { handbookOf, termsOf } from "../../src/platform/alert-kinds.ts";
import { commandText } from "../../src/platform/command-text.ts";
import { amountText } from "./amounts.ts";
import { fieldText, isRecord } from "./print.ts";
import type { ServiceStatus } from "./results.ts";

export type Fact = { readonly name: string; readonly value: string; readonly bad: boolean };
/** `command`: what the operator may run next about this row. */
type Row = { readonly cells: readonly string[]; readonly command?: string };
export type Table = { readonly columns: readonly string[]; readonly rows: readonly Row[] };
export type Section =
  | { readonly title: string; readonly facts: readonly Fact[] }
  | { readonly title: string; readonly table: Table };

/** `now`: it calls somebody at any hour. */
export type Alert = {
  readonly now: boolean;
  readonly title: string;
  readonly since: string;
  readonly detail: string;
  readonly handbook: string;
  readonly command?: string;
};

export type Overview = {
  readonly well: boolean;
  /** Whether anything needs the operator, in one sentence. */
  readonly answer: string;
  readonly facts: readonly Fact[];
  readonly alerts: readonly Alert[];
  readonly tables: Readonly<Record<"withdrawals" | "approvals" | "audit", Table>>;
};

type Chain = ServiceStatus["chains"][number];
type Withdrawal = {
  withdrawal_id: string;
  user_id: string;
  chain: string;
  amount: string;
  status: string;
  created_at: string;
  open_commands: string | null;
  dead_lettered: boolean;
};
type Proposal = {
  proposal_id: string;
  operator: string;
  status: string;
  expires_at: string;
  content: string;
};
type AuditEvent = {
  kind: string;
  actor: string;
  user_id: string | null;
  subject_id: string | null;
  created_at: string;
};

/** The results of `chain status`, `withdrawals list`, `approvals list` and `audit list`. */
export type Results = {
  readonly status: unknown;
  readonly withdrawals: readonly unknown[];
  readonly approvals: unknown;
  readonly audit: unknown;
};
type Shown = { readonly now: number; readonly flags: readonly string[] };

/** Cron compares what is new every minute, and everything once a day. */
const RECENT_LATE_MS = 3_600_000;
const FULL_LATE_MS = 172_800_000;
/** A watcher or cron that has stopped raises no alert, so a chain that stands still is not well. */
const CHAIN_LATE_MS = 300_000;
/** The share of the limit from which cron logs that the database fills. */
const STORAGE_BAD = 0.7;

export function overviewOf(results: Results, shown: Shown): Overview {
  const status = results.status as ServiceStatus;
  const open = (results.approvals as Proposal[]).filter(
    (proposal) => proposal.status === "open" && Date.parse(proposal.expires_at) > shown.now,
  );
  const facts = [
    ...(status.chains.length === 0 ? [NO_CHAIN] : []),
    ...status.chains.flatMap((chain) => chainFacts(chain, shown)),
    withdrawalsFact(status),
    { name: ALERTS_FACT, value: String(status.alerts.length), bad: status.alerts.length > 0 },
    reconciliationFact(status, shown),
    storageFact(status),
    { name: "Pending approvals", value: String(open.length), bad: false },
  ];
  const alerts = alertList(status.alerts, shown);
  return {
    well: facts.every(({ bad }) => !bad),
    answer: answerOf(alerts, { facts, proposals: open.length }),
    facts,
    alerts,
    tables: {
      withdrawals: withdrawalTable(results.withdrawals as Withdrawal[], shown),
      approvals: approvalTable(open, shown),
      audit: auditTable((results.audit as { events: AuditEvent[] }).events),
    },
  };
}

const ALERTS_FACT = "Open alerts";
const NO_CHAIN: Fact = { name: "Chains", value: "none was read yet", bad: true };

function chainFacts(chain: Chain, shown: Shown): Fact[] {
  const { chain: name, halted, payer_halted, withdrawals } = chain;
  const blocks = `block ${chain.confirmed_block} of ${chain.head_block}`;
  const { queued, submitted } = withdrawals;
  return [
    {
      name: `Chain ${name}`,
      value: haltText(halted) ?? `${blocks}, moved ${age(chain.moved_at, shown)} ago`,
      bad: halted !== null || shown.now - Date.parse(chain.moved_at) > CHAIN_LATE_MS,
    },
    {
      name: `Payer ${name}`,
      value: haltText(payer_halted) ?? `running, ${queued} queued, ${submitted} submitted`,
      bad: payer_halted !== null,
    },
  ];
}

function haltText(halt: Chain["halted"]): string | undefined {
  return halt === null ? undefined : `halted since ${instant(halt.at)}: ${halt.reason}`;
}

function withdrawalsFact({ switches }: ServiceStatus): Fact {
  const paused = switches.find(({ name }) => name === "withdrawals_paused");
  const value =
    paused === undefined
      ? "not paused"
      : `paused since ${instant(paused.since)} by ${paused.reason}`;
  return { name: "Withdrawals", value, bad: paused !== undefined };
}

/** Late also counts as bad, because a reconciliation that has stopped finds no difference. */
function reconciliationFact({ alerts, reconciled }: ServiceStatus, { now }: Shown): Fact {
  const differences = alerts.filter(({ kind }) => kind === "reconciliation").length;
  const { recent_finished_at: recent, full_finished_at: full } = reconciled;
  const late = (at: string | null, limitMs: number) =>
    at !== null && now - Date.parse(at) > limitMs;
  const ended = (at: string | null) => (at === null ? "not yet" : instant(at));
  return {
    name: "Reconciliation",
    value:
      `${differences === 0 ? "no" : differences} open differences, ` +
      `new records compared: ${ended(recent)}, all records compared: ${ended(full)}`,
    bad: differences > 0 || late(recent, RECENT_LATE_MS) || late(full, FULL_LATE_MS),
  };
}

function storageFact({ storage: { bytes, limit_bytes }, switches }: ServiceStatus): Fact {
  const full = switches.some(({ name }) => name === "storage_full");
  const share = bytes / limit_bytes;
  const used = `${(bytes / 1e6).toFixed(1)} of ${limit_bytes / 1e6} MB (${(share * 100).toFixed(1)} %)`;
  return {
    name: "Storage",
    value: full ? `${used}, new business is stopped` : used,
    bad: full || share >= STORAGE_BAD,
  };
}

/** What must be done now comes first. An alert of an unknown kind may be anything. */
function alertList(alerts: ServiceStatus["alerts"], shown: Shown): Alert[] {
  const list = alerts.map(({ at, kind, subject, detail }): Alert => {
    const terms = termsOf(kind);
    return {
      now: terms?.urgency !== "ticket",
      title: `${heading(kind)}: ${subject}`,
      since: `${age(at, shown)} ago, ${instant(at)}`,
      detail,
      handbook: handbookOf(kind),
      ...(terms && { command: operatorText(shown, ...terms.next(subject)) }),
    };
  });
  return list.toSorted((one, other) => Number(other.now) - Number(one.now));
}

function answerOf(
  alerts: readonly Alert[],
  { facts, proposals }: { facts: readonly Fact[]; proposals: number },
): string {
  const now = alerts.filter((alert) => alert.now).length;
  const later = alerts.length - now + proposals;
  const things = (count: number) => (count === 1 ? "1 thing" : `${count} things`);
  if (now > 0)
    return `${things(now)} need${now === 1 ? "s" : ""} you now${later > 0 ? `, ${later} can wait` : ""}`;
  // What is marked may have no alert, for example a pause.
  if (facts.some(({ name, bad }) => bad && name !== ALERTS_FACT)) return "Look at what is marked";
  return later > 0 ? `Nothing needs you now, ${things(later)} can wait` : "Nothing needs you";
}

/** The oldest first, because it is the most likely to be stuck. */
function withdrawalTable(withdrawals: readonly Withdrawal[], shown: Shown): Table {
  const oldest = withdrawals.toSorted((one, other) =>
    one.created_at < other.created_at ? -1 : one.created_at > other.created_at ? 1 : 0,
  );
  return {
    columns: ["Waits", "Status", "Amount", "Chain", "Withdrawal", "User", "Note"],
    rows: oldest.map((row) => ({
      cells: [
        age(row.created_at, shown),
        row.status,
        amountText("amount", row.amount, row),
        row.chain,
        row.withdrawal_id,
        row.user_id,
        row.dead_lettered ? "stuck" : (row.open_commands ?? ""),
      ],
      ...(row.dead_lettered
        ? {
            command: operatorText(shown, "withdrawals", "retry", "--id", row.withdrawal_id),
          }
        : {}),
    })),
  };
}

function approvalTable(proposals: readonly Proposal[], shown: Shown): Table {
  return {
    columns: ["Ends", "Operator", "Order"],
    rows: proposals.map(({ expires_at, operator, content, proposal_id }) => ({
      cells: [instant(expires_at), operator, content],
      command: operatorText(shown, "approve", "--id", proposal_id),
    })),
  };
}

/** With the flags of the console's own command, which name its service. */
function operatorText({ flags }: Shown, ...words: readonly string[]): string {
  return commandText({ DEPLOY_ENV: "" }, "operator", ...words, ...flags);
}

function auditTable(events: readonly AuditEvent[]): Table {
  return {
    columns: ["Time", "Event", "Actor", "User", "Subject"],
    rows: events.map(({ created_at, kind, actor, user_id, subject_id }) => ({
      cells: [instant(created_at), kind, actor, user_id ?? "", subject_id ?? ""],
    })),
  };
}

/** Any result of a command: its fields as facts, each list as a table. */
export function sectionsOf(result: unknown): Section[] {
  if (Array.isArray(result)) return [{ title: "Result", table: tableOf(result) }];
  if (!isRecord(result)) return [];
  const isList = (name: string) => Array.isArray(result[name]) && name !== "more";
  const names = Object.keys(result);
  const facts = names
    .filter((name) => !isList(name))
    .map((name) => ({ name: heading(name), value: fieldText(result, name), bad: false }));
  const lists = names
    .filter(isList)
    .map((name) => ({ title: heading(name), table: tableOf(result[name] as unknown[]) }));
  return [{ title: "Result", facts }, ...lists];
}

function tableOf(items: readonly unknown[]): Table {
  const records = items.filter(isRecord);
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  return {
    columns: names.map(heading),
    rows: records.map((record) => ({ cells: names.map((name) => fieldText(record, name)) })),
  };
}

function heading(name: string): string {
  const words = name.replaceAll("_", " ");
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

/** An instant to the second, in UTC. */
function instant(iso: string): string {
  return iso.slice(0, 19).replace("T", " ");
}

function age(iso: string, { now }: Shown): string {
  const minutes = Math.max(0, Math.floor((now - Date.parse(iso)) / 60_000));
  if (minutes < 1) return "under 1 min";
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2_880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1_440)} days`;
}
