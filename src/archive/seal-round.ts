/**
 * One round of the sealer: choose, prove, store. It may be killed anywhere, because each step can
 * be repeated.
 *
 * 0. Compare a part of `sealed_owners` with what the seals say. Halt on a difference.
 * 1. Choose a range and remember it. A round after a crash makes the same seal again.
 * 2. Prove: put the object unless it exists, read it back and verify it. From here on only these
 *    bytes count, never the database.
 * 3. Store the seal in the database, in one batch that continues the chain.
 *
 * Two sealers at once are safe: they cannot overwrite an object, and the chain accepts one seal of
 * each number.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import { expr, holds, scalar } from "../platform/sql.ts";
import type { Failpoint } from "../platform/failpoint.ts";
import {
  type RangeChoice,
  chooseRange,
  type ChoiceOptions,
  isScanBehind,
  type GroupRange,
} from "./choose-range.ts";
import { checkPage, linksOf, OwnersDiffer } from "./check-owners.ts";
import type { OwnerMemory } from "./owner-memory.ts";
import { readRange } from "./read-range.ts";
import { encodeSeal, ownersIn } from "./seal-format.ts";
import { putIfAbsent, type SealBucket, type StoredSeal, tryReadSeal } from "./seal-store.ts";
import { lastSeals, type SealRow, storeSeal } from "./seal-row.ts";
import {
  compareWithMemory,
  type DatabaseState,
  endOf,
  type SealerMemory,
} from "./sealer-memory.ts";

export type RoundContext = {
  readonly db: D1Database;
  readonly bucket: SealBucket;
  /** For the audit event of the seal. */
  readonly macKeys: MacKeys;
  /** Continues the reconciliation's scan, because nothing is sealed that it has not read. */
  readonly scan: (chunks: number) => Promise<unknown>;
  readonly memory: SealerMemory;
  /** What it remembers of each owner. */
  readonly owners: OwnerMemory;
  /** Resolves once the memory is stored durably. */
  readonly remember: (memory: SealerMemory) => Promise<void>;
  readonly options: ChoiceOptions & {
    /** A range that is not full waits this long since the last seal. */
    readonly everyMs: number;
  };
  readonly failpoint?: Failpoint | undefined;
};

export type Round =
  | { readonly status: "idle" }
  /** The memory of owners is not complete yet. */
  | { readonly status: "following" }
  /** A row of `sealed_owners` contradicts the archive. Its owner would lose part of the history. */
  | { readonly status: "cut"; readonly detail: string }
  /** `full`: the next range may be sealed at once. */
  | { readonly status: "sealed"; readonly seal: SealRow; readonly full: boolean }
  /** The database lacks what the sealer remembers. */
  | { readonly status: "restored"; readonly detail: string }
  /** The object in the archive is not the seal that the database calls for. */
  | { readonly status: "mismatch"; readonly detail: string };

/** Of the reconciliation's scan: 20 000 transfers, twice what a round seals. */
const CHUNKS_PER_ROUND = 10;

/** Seals that are read to find the one that the sealer stored last. */
const SEALS_COMPARED = 10;

export async function sealRound(context: RoundContext): Promise<Round> {
  try {
    return await nextRound(context);
  } catch (error) {
    if (error instanceof OwnersDiffer) return { status: "cut", detail: error.message };
    throw error;
  }
}

async function nextRound(context: RoundContext): Promise<Round> {
  const { db, bucket, owners } = context;
  const state = await readDatabaseState(db);
  const compared = compareWithMemory(context.memory, state);
  if ("lost" in compared) return { status: "restored", detail: compared.lost };
  const { memory } = compared;
  if (!(await owners.follow(db, bucket))) return { status: "following" };
  owners.checkedTo = await checkPage(db, owners, owners.checkedTo);
  if (await isScanBehind(db, context.options.hotMs)) await context.scan(CHUNKS_PER_ROUND);
  const choice = await choose(context, memory, state.seals[0]);
  if (choice === undefined) {
    const { highest, last } = context.memory;
    if (memory.highest !== highest || memory.last.number !== last.number)
      await context.remember(memory);
    return { status: "idle" };
  }
  await context.remember({ ...memory, chosen: choice.range });
  await context.failpoint?.("seal_chosen");
  const proven = await prove(context, memory, choice.range);
  if ("mismatch" in proven) return { status: "mismatch", detail: proven.mismatch };
  await context.failpoint?.("seal_proven");
  const stored = await storeSeal(db, context.macKeys, proven);
  await context.failpoint?.("seal_stored");
  const [last] = await lastSeals(db, 1);
  if (!stored || last?.sha256 !== proven.sha256)
    throw new Error(`seal ${proven.seal.number} was not stored`);
  await context.remember({ ...memory, last: endOf(last), chosen: null });
  return { status: "sealed", seal: last, full: choice.full };
}

export async function readDatabaseState(db: D1Database): Promise<DatabaseState> {
  const seals = await lastSeals(db, SEALS_COMPARED);
  const highest = await scalar<number | null>(db, expr`SELECT max(transfer_id) FROM transfers`);
  return { seals, highest: Math.max(highest ?? 0, seals[0]?.upTo ?? 0) };
}

/** The range of a seal that was begun, or the next one if it is due. */
async function choose(
  { db, options }: RoundContext,
  memory: SealerMemory,
  last: SealRow | undefined,
): Promise<RangeChoice | undefined> {
  if (memory.chosen !== null) return { range: memory.chosen, full: true };
  const choice = await chooseRange(db, memory.last, options);
  if (choice === undefined || choice.full || last === undefined) return choice;
  const isDue = expr`${last.sealedAt + options.everyMs} <= unixepoch('subsec') * 1000`;
  return (await holds(db, isDue)) ? choice : undefined;
}

/** Makes the object, or takes that of an earlier attempt, which has the same content. */
async function prove(
  context: RoundContext,
  memory: SealerMemory,
  range: GroupRange,
): Promise<StoredSeal | { readonly mismatch: string }> {
  const { db, bucket, owners } = context;
  const { epoch, last } = memory;
  const head = { epoch, number: last.number + 1, previous: last.sha256, ...range };
  const seal = { ...head, ...(await readRange(db, head)) };
  const encoded = encodeSeal(seal, await linksOf(db, owners, [...ownersIn(seal)]));
  await putIfAbsent(bucket, head, encoded);
  await context.failpoint?.("seal_put");
  const stored = await tryReadSeal(bucket, { ...head, sha256: encoded.sha256 });
  if (!("wrong" in stored)) return stored;
  return { mismatch: `seal ${head.number} could not be read back: ${stored.wrong}` };
}
