/** Recovery records (src/operator/records.ts) beside a backup, and what completes a restore. */
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inChunks } from "../../src/platform/chunks.ts";
import { carryOut } from "../operator/carry-out.ts";
import type { Reconciliation, ServiceStatus } from "../operator/results.ts";
import { wholeList } from "../operator/whole-list.ts";
import type { OperatorRequest, OperatorResponse } from "../stack/operator-call.ts";

type Call = (order: OperatorRequest) => Promise<OperatorResponse>;
type Row = { readonly kind: string; readonly metadata?: { readonly at?: string } };

/** A withdrawal of the backup that waits for its approval is a day old at most. */
const MARGIN_MS = 2 * 86_400_000;
const PER_ORDER = 500;
const POLL_MS = 5_000;

/**
 * Copies the records made since the backup, as often as it is called. Of the heads of the audit log
 * it keeps that of the backup, below which its log is whole, and the newest.
 */
export async function copyRecords(call: Call, out: string): Promise<number> {
  const taken = statSync(join(out, "database.sql")).mtimeMs;
  const since = new Date(taken - MARGIN_MS).toISOString();
  const listed = await wholeList({ command: ["records", "list"], options: { since } }, call);
  if (!listed.ok) throw new Error(`records list: ${JSON.stringify(listed.problem)}`);
  const known = readRecords(out).filter(({ metadata }) => Number(metadata?.at) <= taken);
  const [head] = known.toSorted((a, b) => Number(b.metadata?.at) - Number(a.metadata?.at));
  const rows = [...(head === undefined ? [] : [head]), ...(listed.result as Row[])];
  mkdirSync(out, { recursive: true });
  const path = join(out, "records.json");
  writeFileSync(`${path}.next`, `${JSON.stringify(rows)}\n`, { mode: 0o600 });
  renameSync(`${path}.next`, path);
  return rows.length;
}

export function readRecords(out: string): Row[] {
  const path = join(out, "records.json");
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Row[]) : [];
}

/**
 * Gives the records to a service that runs on a backup, lets it read the chains, restores what is
 * later, and compares every balance. Throws if a second operator or a decision is needed.
 */
export async function completeRestore(
  call: Call,
  rows: readonly Row[],
  { log, pollMs = POLL_MS }: { log: (line: string) => void; pollMs?: number },
): Promise<void> {
  const ordered = async (words: string, options: Record<string, string> = {}) => {
    const response = await carryOut({ command: words.split(" "), options }, call);
    if (!response.ok) throw new Error(`${words}: ${JSON.stringify(response.problem)}`);
    return response.result;
  };
  for (const chunk of inChunks(rows, PER_ORDER))
    await ordered("records put", { records: JSON.stringify(chunk) });
  log(`done  ${rows.length} records`);
  await untilRead(async () => (await ordered("chain status")) as ServiceStatus, pollMs);
  log("done  chains are read");
  for (let again = true; again;) {
    const restored = (await ordered("restore", { yes: "true" })) as Restored;
    if (restored.next !== undefined) throw new Error(`${restored.next}. Then repeat with --verify`);
    const chains = Object.values(restored.chains);
    again = chains.some(({ note }) => note !== undefined);
    if (!again && !restored.ok) throw new Error(`restore: ${JSON.stringify(restored, null, 2)}`);
    log(`done  restore: ${chains.reduce((sum, { rebuilt }) => sum + rebuilt, 0)} withdrawals`);
  }
  await compareAll(call, log);
}

type Restored = {
  ok: boolean;
  /** Of a proposal. */
  next?: string;
  chains: Record<string, { rebuilt: number; note?: string }>;
};

/** Every balance with the journal, the archive and the chains. */
export async function compareAll(call: Call, log: (line: string) => void): Promise<void> {
  for (const words of ["reconcile", "journal verify"]) {
    const response = await carryOut({ command: words.split(" "), options: {} }, call);
    // Safe cast: both results have `ok`, and `complete` is of the first.
    const result = response.ok ? (response.result as Partial<Reconciliation>) : undefined;
    if (result?.ok !== true || result.complete === false)
      throw new Error(`${words}: ${JSON.stringify(response, null, 2)}`);
    log(`done  ${words}`);
  }
}

/** Until each watcher has confirmed the head that it saw first, or has halted. */
async function untilRead(status: () => Promise<ServiceStatus>, pollMs: number): Promise<void> {
  const movedAt = new Map<string, string>();
  const heads = new Map<string, number>();
  for (;;) {
    const { chains } = await status();
    const isRead = chains.map((one) => {
      const before = movedAt.get(one.chain);
      if (before === undefined) movedAt.set(one.chain, one.moved_at);
      else if (before !== one.moved_at && !heads.has(one.chain))
        heads.set(one.chain, one.head_block);
      return one.halted !== null || one.confirmed_block >= (heads.get(one.chain) ?? Infinity);
    });
    if (chains.length > 0 && isRead.every(Boolean)) return;
    await sleep(pollMs);
  }
}
