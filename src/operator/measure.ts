/**
 * Cron task: writes the row that GET /status and GET /metrics read, from what is open and what
 * watchers and payers saw last.
 */
import { IN_FLIGHT } from "../assets/withdrawal-status.ts";
import { OLDEST_UNSEALED } from "../archive/watch-sealer.ts";
import { lastFinished } from "../reconcile/reconcile.ts";
import { alertTermsOf } from "../platform/alert-kinds.ts";
import { NOW } from "../platform/commit.ts";
import { config, type Config } from "../platform/config.ts";
import { labelsText } from "../platform/counts.ts";
import { near } from "../platform/near.ts";
import { all, first, prepare, sql } from "../platform/sql.ts";
import { limitBytes } from "../platform/storage.ts";
import { now, sleep } from "../platform/time.ts";
import { componentStatus, type ComponentStatus } from "./component-status.ts";

/** When tasks last succeeded, in Unix milliseconds. */
export type TaskEnds = ReadonlyMap<string, number>;

/** Null: never, as the age of what has not happened yet. */
type Level = number | null;
export type Levels = {
  readonly status: ComponentStatus;
  readonly ended: Readonly<Record<string, number>>;
  /** By series. */
  readonly levels: Readonly<Record<string, Level>>;
};

export const LEVELS = {
  rfq_chain_head_block: "Highest block that enough endpoints have reached",
  rfq_chain_confirmed_block: "Highest block whose deposits are credited",
  rfq_chain_moved_age_seconds: "Age of the watcher's last move",
  rfq_chain_witness_lag_blocks: "Blocks from the highest head of an endpoint to that of enough",
  rfq_chain_halted: "1 while the watcher is halted",
  rfq_payer_halted: "1 while the payer is halted",
  rfq_payer_lease_age_seconds: "Age of the payer's lease, which each new instance takes",
  rfq_payer_nonce_gap: "Nonces that are signed and not mined",
  rfq_payer_gas_wei: "What the operator account holds",
  rfq_payer_gas_needed_wei: "What the next 100 payments may cost",
  rfq_withdrawals: "Withdrawals by status, until they have ended",
  rfq_withdrawals_age_seconds: "Age of the oldest of them, 0 without any",
  rfq_deposits: "Deposits that wait for their confirmations",
  rfq_deposits_age_seconds: "Age of the oldest of them, 0 without any",
  rfq_sealer_lag_seconds: "Age of the oldest transfer that is not sealed, 0 without any",
  rfq_reconciliation_age_seconds: "Since a reconciliation of this kind has ended",
  rfq_cron_task_age_seconds: "Since the task has succeeded",
  rfq_database_bytes: "Size of the database",
  rfq_database_limit_bytes: "STORAGE_LIMIT_MB in bytes",
  rfq_alerts_open: "Open alerts by kind",
  rfq_switch: "1 while the switch is set",
  rfq_venue_paused: "1 while the venue is paused",
} as const;
type Name = keyof typeof LEVELS;

/** What is counted until it has ended, by status. */
const OPEN = [
  ["rfq_withdrawals", "awaiting_approval"],
  ["rfq_withdrawals", "queued"],
  ["rfq_withdrawals", "submitted"],
  ["rfq_deposits", "confirming"],
] as const;
const SWITCHES = ["withdrawals_paused", "storage_full"] as const;
/** An object that answers later is left out. */
const ASK_MS = 3_000;

class Sheet {
  readonly levels: Record<string, Level> = {};

  set(name: Name, level: Level | undefined, labels: Readonly<Record<string, string>> = {}): void {
    const text = labelsText(labels);
    if (level !== undefined) this.levels[text === "" ? name : `${name}{${text}}`] = level;
  }
}

export async function measure(env: Env, ended: TaskEnds): Promise<void> {
  const settings = config(env);
  const before = await readLevels(env.DB);
  const sheet = new Sheet();
  const status = await measureDatabase(env.DB, settings, sheet);
  await Promise.all(settings.CHAINS.map(({ chain }) => measureObjects(env, chain, sheet)));
  const { recent_finished_at: recent, full_finished_at: full } = await lastFinished(env.DB);
  for (const [scan, at] of Object.entries({ recent, full }))
    sheet.set("rfq_reconciliation_age_seconds", at === null ? null : since(Date.parse(at)), {
      scan,
    });
  // An instance of cron's object remembers only its own tasks.
  const ends = { ...before?.ended, ...Object.fromEntries(ended) };
  for (const [task, at] of Object.entries(ends))
    sheet.set("rfq_cron_task_age_seconds", since(at), { task });
  const body = JSON.stringify({ status, ended: ends, levels: sheet.levels } satisfies Levels);
  await all(
    env.DB,
    sql`INSERT INTO service_levels (id, at, body) VALUES (1, ${NOW}, ${body})
      ON CONFLICT (id) DO UPDATE SET at = excluded.at, body = excluded.body`,
  );
}

export async function readLevels(
  db: D1Database,
): Promise<(Levels & { readonly at: number }) | undefined> {
  const row = await first<{ at: number; body: string }>(
    db,
    sql`SELECT at, body FROM service_levels`,
  );
  // Safe cast: only `measure` writes the row.
  return row && { ...(JSON.parse(row.body) as Levels), at: row.at };
}

function since(at: number): number {
  return Math.max(now() - at, 0) / 1_000;
}

type Kept = { kind: string; n: number };
type ByChain = { chain: string; status: string; n: number; age: number };
type ChainRow = {
  chain: string;
  head: number;
  confirmed: number;
  age: number;
  halted: number;
  lease_age: number | null;
  payer_halted: number;
};

/** Each chain makes a block within seconds. */
const STILL_MS = 120_000;

async function measureDatabase(
  db: D1Database,
  { CHAINS, VENUES, ...settings }: Config,
  sheet: Sheet,
): Promise<ComponentStatus> {
  const results = await db.batch(QUERIES.map((query) => prepare(db, query)));
  const rows = <Row>(index: number) => results[index]?.results as Row[];
  const names = new Set(CHAINS.map(({ chain }) => chain));
  const chains = rows<ChainRow>(0).filter(({ chain }) => names.has(chain));
  for (const row of chains) measureChain(row, sheet);
  for (const chain of names) {
    for (const [name, status] of OPEN) {
      const row = rows<ByChain>(1).find((one) => one.chain === chain && one.status === status);
      sheet.set(name, row?.n ?? 0, { chain, status });
      sheet.set(`${name}_age_seconds`, (row?.age ?? 0) / 1_000, { chain, status });
    }
  }
  sheet.set("rfq_sealer_lag_seconds", (rows<{ age: number }>(2)[0]?.age ?? 0) / 1_000);
  const alerts = rows<Kept>(3);
  for (const { kind, n } of alerts)
    sheet.set("rfq_alerts_open", n, { kind, urgency: alertTermsOf(kind)?.urgency ?? "ticket" });
  const switches = rows<Kept>(4).map(({ kind }) => kind);
  for (const name of SWITCHES) sheet.set("rfq_switch", Number(switches.includes(name)), { name });
  const paused = new Set(rows<Kept>(5).map(({ kind }) => kind));
  for (const { venue_id: venue } of VENUES)
    sheet.set("rfq_venue_paused", Number(paused.has(venue)), { venue });
  sheet.set("rfq_database_bytes", results[0]?.meta.size_after);
  sheet.set("rfq_database_limit_bytes", limitBytes(settings));
  return componentStatus({
    alerts: alerts.map(({ kind }) => kind),
    switches,
    chainsStill: chains.some(({ age }) => age > STILL_MS),
    venuesPaused: VENUES.length > 0 && VENUES.every(({ venue_id }) => paused.has(venue_id)),
  });
}

const QUERIES = [
  sql`SELECT c.chain, c.head_number AS head, c.confirmed_number AS confirmed,
      ${NOW} - c.moved_at AS age, c.halted_at IS NOT NULL AS halted,
      ${NOW} - p.taken_at AS lease_age, p.halted_at IS NOT NULL AS payer_halted
    FROM chain_cursors c LEFT JOIN payer_leases p ON p.chain = c.chain`,
  sql`SELECT chain, status, count(*) AS n, ${NOW} - min(created_at) AS age
    FROM withdrawals INDEXED BY withdrawals_open
    WHERE status ${IN_FLIGHT} GROUP BY chain, status
    UNION ALL SELECT chain, status, count(*), ${NOW} - min(created_at)
    FROM withdrawals INDEXED BY withdrawals_awaiting
    WHERE status = 'awaiting_approval' GROUP BY chain
    UNION ALL SELECT chain, status, count(*), ${NOW} - min(detected_at)
    FROM deposits INDEXED BY deposits_open WHERE status = 'confirming' GROUP BY chain`,
  OLDEST_UNSEALED,
  sql`SELECT kind, count(*) AS n FROM alerts INDEXED BY alerts_open
    WHERE resolved_at IS NULL GROUP BY kind`,
  sql`SELECT name AS kind, 1 AS n FROM kill_switches`,
  sql`SELECT venue AS kind, 1 AS n FROM paused_venues`,
];

function measureChain({ chain, ...row }: ChainRow, sheet: Sheet): void {
  sheet.set("rfq_chain_head_block", row.head, { chain });
  sheet.set("rfq_chain_confirmed_block", row.confirmed, { chain });
  sheet.set("rfq_chain_moved_age_seconds", row.age / 1_000, { chain });
  sheet.set("rfq_chain_halted", row.halted, { chain });
  sheet.set("rfq_payer_halted", row.payer_halted, { chain });
  if (row.lease_age !== null)
    sheet.set("rfq_payer_lease_age_seconds", row.lease_age / 1_000, { chain });
}

async function measureObjects(env: Env, chain: string, sheet: Sheet): Promise<void> {
  const [watcher, payer] = await Promise.all([
    asked(() => near(env, env.CHAIN_WATCHER, chain).levels()),
    asked(() => near(env, env.PAYER, chain).levels()),
  ]);
  sheet.set("rfq_chain_witness_lag_blocks", watcher?.witnessLag, { chain });
  sheet.set("rfq_payer_nonce_gap", payer?.nonceGap, { chain });
  sheet.set("rfq_payer_gas_wei", payer?.gasWei, { chain });
  sheet.set("rfq_payer_gas_needed_wei", payer?.gasNeededWei, { chain });
}

/** Undefined if the object fails, does not answer, or still runs code without the method. */
async function asked<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await Promise.race([ask(), sleep(ASK_MS).then(() => undefined)]);
  } catch {
    return undefined;
  }
}
