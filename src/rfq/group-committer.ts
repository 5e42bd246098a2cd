/**
 * The group committer of one book. Commands that arrive while a batch is in flight are committed
 * together in the next one. Users take turns, so no user's commands fill the groups alone.
 *
 * No batch starts while the outcome of another is unknown. An operation that violates a constraint
 * never fails the other operations of its group.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import { claimFence, groupOf, type NotCommitted, OutcomeUnknown } from "../platform/commit.ts";
import { counts } from "../platform/counts.ts";
import { errorFields, log, logged } from "../platform/log.ts";
import { unavailable } from "../platform/problem.ts";
import { type Expr, sql, uuids } from "../platform/sql.ts";
import { committedEvents, type Pusher } from "../streams/event-log.ts";
import { MAX_CLOCK_LEAD_MS, now, sleep } from "../platform/time.ts";
import { commitOperations, expiryScope, type GroupDone } from "./book-group.ts";
import { refused, reject, type Result } from "./command.ts";
import { closeEach } from "./close-quotes.ts";
import { endRequestsOneByOne } from "./close-books.ts";
import { readDue, readOpenQuotes } from "./expire.ts";
import { DueQuotes } from "./due-quotes.ts";
import { FairQueue } from "./fair-queue.ts";
import { RejectionReader } from "./rejection-reader.ts";
import type { BookOperation } from "./book-operation.ts";
import { type AcceptLimits, mayBeFulfilled, standingAccepts } from "./standing-accept.ts";

export type CommitterSettings = {
  readonly asset: string;
  readonly venue?: string | undefined;
  /** Milliseconds that a batch waits for more commands when the one before it had several. */
  readonly waitMs: number;
  /** A command received longer ago than this, in milliseconds, is not put into a batch. */
  readonly maxWaitMs: number;
  readonly maxOperations: number;
  /** The keys of the MACs of standing accepts. */
  readonly macKeys: MacKeys;
  /** After each commit. It pushes the events before their callers know the results. */
  readonly onCommitted: (done: GroupDone) => Promise<void>;
  /** Called when a batch failed or its outcome is unknown: expiries and events may be overdue. */
  readonly onFailed: () => void;
  /** Called when D1's clock begins to be ahead of the Worker's, with the difference. */
  readonly onClockAhead: (aheadMs: number) => void;
  /** For events of groups whose results nobody waits for. */
  readonly push: Pusher["push"];
};

type Waiting = {
  readonly userId: string;
  readonly operation: BookOperation;
  readonly tries: number;
  readonly resolve: (result: Result) => void;
};

/** Commands that a book queues. Beyond this D1 is so far behind that more would only time out. */
export const MAX_WAITING_COMMANDS = 2_000;
/**
 * How many quotes an accept weighs as, because of the quotes that it ends, or a command that has
 * statements of its own, which may count against the 1 000 queries of an invocation.
 */
const WEIGHT = 4;
/** Requests whose standing accepts, or that they have none, are kept. This only bounds memory. */
const MAX_KNOWN_LIMITS = 20_000;
/** A guard can fail for a reason that no longer holds when read. Then the operation is retried. */
const MAX_TRIES = 4;
/** Milliseconds between checks of waiting commands. Short, as it keeps the object in memory. */
const WAIT_CHECK_MS = 100;

const UNAVAILABLE = refused(unavailable("none"));
const WAITED_TOO_LONG = refused(
  unavailable("none", "The command waited too long and was not carried out."),
);
const CANNOT = reject("internal", "The command could not be carried out.", { outcome: "none" });
const CLOCK_AHEAD = refused(
  unavailable("none", "The database's clock is ahead. Try again shortly."),
);

export class GroupCommitter {
  /** The open quotes of the book, of which each group names those that are due. */
  readonly quotes: DueQuotes;
  readonly #db: D1Database;
  readonly #settings: CommitterSettings;
  readonly #rejections: RejectionReader;
  readonly #waiting = new FairQueue<Waiting>();
  /** The guards decide, so it may be wrong. */
  readonly #limits: AcceptLimits = new Map();
  #running = false;
  #lastSize = 0;
  #watchingWaits = false;
  /** The latest group had an instant that the Worker's clock had not reached. */
  #clockAhead = false;
  /** Settled by the next batch, for the callers of `expire`. */
  #nextBatch: PromiseWithResolvers<void> | undefined;

  constructor(db: D1Database, settings: CommitterSettings) {
    this.#db = db;
    this.quotes = new DueQuotes(() => readOpenQuotes(db, settings.asset));
    this.#rejections = new RejectionReader(db);
    this.#settings = settings;
  }

  /** Commands that are submitted in one turn share a batch, as far as it has room. */
  submit(operation: BookOperation): Promise<Result> {
    if (this.#waiting.size >= MAX_WAITING_COMMANDS) return Promise.resolve(UNAVAILABLE);
    const { userId } = operation;
    const { promise, resolve } = Promise.withResolvers<Result>();
    this.#waiting.push({ userId, operation, tries: 1, resolve });
    this.#start();
    return promise;
  }

  /** Ends what is due, with the next batch. Resolves once that has ended, even if it failed. */
  async expire(): Promise<void> {
    this.#nextBatch ??= Promise.withResolvers();
    const { promise } = this.#nextBatch;
    this.#start();
    await promise;
  }

  #start(): void {
    if (!this.#running) void this.#run();
    void this.#watchWaits();
  }

  async #run(): Promise<void> {
    this.#running = true;
    // The other commands of the same turn share the batch.
    await Promise.resolve();
    try {
      while (this.#waiting.size > 0 || this.#nextBatch !== undefined) {
        if (this.#settings.waitMs > 0 && (this.#lastSize > 1 || this.#waiting.size > 1))
          await sleep(this.#settings.waitMs);
        const group = this.#waiting.take(this.#settings.maxOperations, (one) =>
          this.#weightOf(one),
        );
        this.#lastSize = group.length;
        const batch = this.#nextBatch;
        this.#nextBatch = undefined;
        await this.#commit(group, batch);
      }
    } finally {
      this.#running = false;
    }
  }

  /** Resolves `batch` when the batch has ended, but does not wait while its outcome is unknown. */
  async #commit(waiting: readonly Waiting[], batch: PromiseWithResolvers<void> | undefined) {
    const group = waiting.filter((command) => this.#inTime(command) && this.#onTheClock(command));
    // A group without commands still ends what is due, and shows whether the clock is right again.
    if (group.length === 0 && batch === undefined && !this.#clockAhead) return;
    await this.#attempt(group, "due", batch);
  }

  /** Commits the group or answers its commands otherwise. Returns whether it committed. */
  async #attempt(
    waiting: readonly Waiting[],
    expiry: "due" | "none",
    batch?: PromiseWithResolvers<void>,
    accepting = true,
  ): Promise<boolean> {
    let committed = false;
    let group = waiting;
    try {
      const accepts = accepting ? await this.#accepts(waiting, expiry === "due") : [];
      // The read may have taken longer than a command may wait.
      group = waiting.filter((command) => this.#inTime(command));
      const outcome = await this.#commitGroup(group, expiry, accepts);
      committed = outcome.committed;
      if (outcome.committed) this.#compareClocks(outcome.at);
      if (outcome.committed) await this.#deliver(group, outcome);
      else await this.#again(group, outcome, { expiry, accepting });
      batch?.resolve();
    } catch (error) {
      log("error", "rfq.group_failed", { operations: group.length, ...errorFields(error) });
      for (const { resolve } of group) resolve(refused(unavailable("unknown")));
      this.#settings.onFailed();
      batch?.resolve();
      await this.#outcomeOf(error);
    } finally {
      const outcome = committed ? "ok" : "failed";
      counts.count("rfq_commit_groups_total", { outcome, venue: this.#settings.venue });
    }
    return committed;
  }

  async #commitGroup(
    group: readonly Waiting[],
    expiry: "due" | "none",
    accepts: readonly BookOperation[] | undefined,
  ): Promise<GroupDone | NotCommitted> {
    const due = this.quotes.due(now());
    if (accepts === undefined) return { committed: false, reason: "lost", cause: undefined };
    const ends = expiry === "due" ? { due } : expiry;
    const all = [...group.map(({ operation }) => operation), ...accepts];
    const outcome = await commitOperations(this.#db, this.#settings.asset, all, ends);
    if (!outcome.committed) return outcome;
    if (this.#limits.size > MAX_KNOWN_LIMITS) this.#limits.clear();
    for (const [id, limit] of outcome.limits) this.#limits.set(id, limit);
    if (expiry === "due" && due !== null) this.quotes.ended(due, outcome.at);
    for (const [id, { expires_at: at }] of outcome.effects.quotes) this.quotes.add([id, at]);
    return outcome;
  }

  /**
   * For the standing accepts that the group may fulfil. As with `fallback`, they are first tried
   * with all that a match ends. Undefined: they could not be read.
   */
  async #accepts(
    group: readonly Waiting[],
    cancelsOthers: boolean,
  ): Promise<readonly BookOperation[] | undefined> {
    const operations = group.map(({ operation }) => operation);
    if (operations.every(({ mayFulfil }) => mayFulfil === undefined)) return [];
    const { asset, maxWaitMs, macKeys } = this.#settings;
    try {
      const settings = { RFQ_COMMAND_MAX_WAIT_MS: maxWaitMs, cancelsOthers, macKeys };
      return await standingAccepts(this.#db, operations, this.#limits, settings);
    } catch (error) {
      log("warn", "rfq.standing_not_read", { asset, ...errorFields(error) });
      return undefined;
    }
  }

  /** Answers a command that has waited too long. It is in no batch. */
  #inTime({ operation, resolve }: Waiting): boolean {
    const inTime = operation.receivedAt >= now() - this.#settings.maxWaitMs;
    if (!inTime) resolve(WAITED_TOO_LONG);
    return inTime;
  }

  /** Answers quotes and accepts while D1's clock is ahead. Then time would stand still for them. */
  #onTheClock({ operation, resolve }: Waiting): boolean {
    const carriedOut = !(this.#clockAhead && operation.binding === true);
    if (!carriedOut) resolve(CLOCK_AHEAD);
    return carriedOut;
  }

  /** A group's instant is before its response, so it can only be later if one clock is wrong. */
  #compareClocks(at: number): void {
    const aheadMs = at - now();
    const wasAhead = this.#clockAhead;
    this.#clockAhead = aheadMs > MAX_CLOCK_LEAD_MS;
    if (this.#clockAhead && !wasAhead) this.#settings.onClockAhead(aheadMs);
  }

  /** Answers commands in time although a batch before them hangs. */
  async #watchWaits(): Promise<void> {
    if (this.#watchingWaits) return;
    this.#watchingWaits = true;
    while (this.#waiting.size > 0) {
      await sleep(WAIT_CHECK_MS);
      this.#waiting.keep((command) => this.#inTime(command));
    }
    this.#watchingWaits = false;
  }

  /** At most 64 accepts share a batch. */
  #weightOf({ operation }: Waiting): number {
    const accepts = mayBeFulfilled(operation, this.#limits);
    const isLight = operation.set !== undefined && operation.makes?.kind !== "match";
    return (isLight ? 1 : WEIGHT) + (accepts ? WEIGHT : 0);
  }

  async #deliver(group: readonly Waiting[], done: GroupDone): Promise<void> {
    await this.#settings.onCommitted(done);
    for (const waiting of group) {
      const result = waiting.operation.result(done.effects);
      if (result !== undefined) waiting.resolve(result);
      // Not awaited: finding the reason of a rejection must not delay the next batch.
      else void this.#reject(waiting);
    }
  }

  async #reject(waiting: Waiting): Promise<void> {
    try {
      const result = await this.#rejections.find(waiting.operation.rejection());
      if (result !== undefined) return waiting.resolve(result);
    } catch (error) {
      log("error", "rfq.rejection_failed", errorFields(error));
    }
    if (waiting.tries >= MAX_TRIES) return waiting.resolve(UNAVAILABLE);
    this.#waiting.push({ ...waiting, tries: waiting.tries + 1 });
    this.#start();
  }

  /**
   * The batch did not commit. If a constraint failed, the group is tried again without the expiry.
   * If that fails too, one operation violated it, so halves are tried until it is alone.
   */
  async #again(
    group: readonly Waiting[],
    outcome: NotCommitted,
    { expiry, accepting }: { expiry: "due" | "none"; accepting: boolean },
  ) {
    this.#settings.onFailed();
    log("error", "rfq.group_not_committed", {
      reason: outcome.reason,
      operations: group.length,
      ...errorFields(outcome.cause),
    });
    if (outcome.reason === "lost") return this.#putBack(group);
    if (expiry === "due") {
      if (group.length === 0 || (await this.#attempt(group, "none"))) await this.#setAside(group);
      return;
    }
    if (group.length > 1) {
      const middle = Math.ceil(group.length / 2);
      await this.#attempt(group.slice(0, middle), "none");
      await this.#attempt(group.slice(middle), "none");
      return;
    }
    const [only] = group;
    const fallback = only?.operation.fallback?.();
    // The quote is placed, although a damaged record keeps it from being accepted.
    if (accepting && only?.operation.mayFulfil !== undefined)
      await this.#attempt(group, "none", undefined, false);
    else if (only !== undefined && fallback !== undefined)
      await this.#attempt([{ ...only, operation: fallback }], "none");
    else only?.resolve(CANNOT);
  }

  #putBack(group: readonly Waiting[]): void {
    for (const waiting of group) if (waiting.tries >= MAX_TRIES) waiting.resolve(UNAVAILABLE);
    // All at once, so that each user's order of arrival is kept.
    this.#waiting.putBack(
      group
        .filter(({ tries }) => tries < MAX_TRIES)
        .map((waiting) => ({ ...waiting, tries: waiting.tries + 1 })),
    );
  }

  /** Ends what is due piece by piece, and sets aside what cannot be ended. */
  async #setAside(group: readonly Waiting[]): Promise<void> {
    const scope = expiryScope(
      this.#settings.asset,
      group.map(({ operation }) => operation),
    );
    const to = { db: this.#db, push: this.#settings.push };
    const quotes = await readDue(this.#db, scope, "quotes");
    const which = (at: Expr) => sql`quote_id IN (${uuids(quotes)}) AND expires_at <= ${at}`;
    await closeEach(to, { which });
    await endRequestsOneByOne(to, await readDue(this.#db, scope, "requests"));
  }

  /** Waits until it is certain whether the group has committed. */
  async #outcomeOf(error: unknown): Promise<void> {
    if (!(error instanceof OutcomeUnknown)) return;
    const { groupId } = error;
    let outcome = await claimFence(this.#db, groupId);
    while (outcome === "unknown") {
      // No batch begins now, and an alarm that waited for one would keep out the next alarm.
      this.#nextBatch?.resolve();
      this.#nextBatch = undefined;
      await sleep(1_000);
      outcome = await claimFence(this.#db, groupId);
    }
    if (outcome === "committed") await this.#pushEvents(groupId);
    this.#limits.clear();
    // The alarms of the meantime found no batch to wait for.
    this.#settings.onFailed();
  }

  /** Without this, the events of a group that turns out to have committed would wait for cron. */
  async #pushEvents(groupId: string): Promise<void> {
    const events = committedEvents(this.#db, groupOf(groupId), { rows: null });
    await events
      .then((read) => this.#settings.push(read))
      .catch(logged("warn", "rfq.events_not_pushed", { group: groupId }));
  }
}
