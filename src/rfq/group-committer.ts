/**
 * The group-commit group committer of one book. Commands that arrive while a commit is under way go into the next batch together.
 * Nothing else runs while the fate of a batch is unknown, and an operation that breaks a constraint never fails its neighbours.
 */
import { claimFence, type NotCommitted, OutcomeUnknown } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { unavailable } from "../platform/problem.ts";
import { type GroupDone, commitOperations } from "./book-group.ts";
import { type Result, reject } from "./command.ts";
import type { Operation } from "./operation.ts";

export type CommitterSettings = {
  readonly asset: string;
  /** Milliseconds a batch waits for company, when the one before it had some. */
  readonly waitMs: number;
  readonly maxOperations: number;
  /** Called after each commit, before its results: the events must be on their way when the caller hears. */
  readonly onCommitted: (done: GroupDone) => Promise<void>;
  /** Called when a batch failed or its fate is unknown: what it should have done has to be looked at again. */
  readonly onFailed: () => void;
};

type Waiting = {
  readonly operation: Operation;
  readonly tries: number;
  readonly resolve: (result: Result) => void;
};

/** Commands a book holds at once; beyond it D1 is far behind, and more would only wait to time out. */
const MAX_WAITING = 2_000;
/** A guard may refuse for a reason that is gone when it is looked up; then the operation simply runs again. */
const MAX_TRIES = 4;

const UNAVAILABLE: Result = { ok: false, problem: unavailable("none").data };

export class GroupCommitter {
  readonly #db: D1Database;
  readonly #settings: CommitterSettings;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #lastSize = 0;

  constructor(db: D1Database, settings: CommitterSettings) {
    this.#db = db;
    this.#settings = settings;
  }

  submit(operation: Operation): Promise<Result> {
    if (this.#waiting.length >= MAX_WAITING) return Promise.resolve(UNAVAILABLE);
    return new Promise((resolve) => {
      this.#waiting.push({ operation, tries: 1, resolve });
      this.#start();
    });
  }

  /** A commit with no commands: ends what is due. Resolves when the group committer is idle again. */
  async expire(): Promise<void> {
    if (this.#running === undefined) this.#running = this.#run(true);
    await this.#running;
  }

  #start(): void {
    this.#running ??= this.#run(false);
  }

  async #run(expireFirst: boolean): Promise<void> {
    try {
      if (expireFirst) await this.#commit([]);
      while (this.#waiting.length > 0) {
        if (this.#settings.waitMs > 0 && (this.#lastSize > 1 || this.#waiting.length > 1))
          await scheduler.wait(this.#settings.waitMs);
        const group = this.#waiting.splice(0, this.#settings.maxOperations);
        this.#lastSize = group.length;
        await this.#commit(group);
      }
    } finally {
      this.#running = undefined;
      // A command may have come in after the last look at the queue.
      if (this.#waiting.length > 0) this.#start();
    }
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    try {
      const outcome = await commitOperations(
        this.#db,
        this.#settings.asset,
        group.map((waiting) => waiting.operation),
      );
      if (outcome.committed) await this.#deliver(group, outcome);
      else await this.#again(group, outcome);
    } catch (error) {
      await this.#failed(group, error);
    }
  }

  async #deliver(group: readonly Waiting[], done: GroupDone): Promise<void> {
    await this.#settings.onCommitted(done);
    for (const waiting of group) {
      const result = waiting.operation.result(done.effects);
      if (result !== undefined) waiting.resolve(result);
      // Off the group committer's path: why one guard did not apply must not delay the next batch.
      else void this.#reject(waiting);
    }
  }

  async #reject(waiting: Waiting): Promise<void> {
    try {
      const result = await waiting.operation.rejection(this.#db);
      if (result !== undefined) return waiting.resolve(result);
    } catch (error) {
      log("error", "rfq.rejection_failed", errorFields(error));
    }
    if (waiting.tries >= MAX_TRIES) return waiting.resolve(UNAVAILABLE);
    this.#waiting.push({ ...waiting, tries: waiting.tries + 1 });
    this.#start();
  }

  /** The batch certainly did not commit. A constraint is one operation's fault: run them one by one to find whose. */
  async #again(group: readonly Waiting[], outcome: NotCommitted): Promise<void> {
    this.#settings.onFailed();
    log("error", "rfq.group_not_committed", {
      reason: outcome.reason,
      operations: group.length,
      ...errorFields(outcome.cause),
    });
    if (outcome.reason === "constraint" && group.length > 1) {
      for (const waiting of group) await this.#commit([waiting]);
      return;
    }
    if (outcome.reason === "constraint") {
      for (const waiting of group)
        waiting.resolve(
          reject("internal", "The command could not be carried out.", { outcome: "none" }),
        );
      return;
    }
    for (const waiting of group) if (waiting.tries >= MAX_TRIES) waiting.resolve(UNAVAILABLE);
    // All at once: whoever came first stays first.
    this.#waiting.unshift(
      ...group
        .filter(({ tries }) => tries < MAX_TRIES)
        .map((waiting) => ({ ...waiting, tries: waiting.tries + 1 })),
    );
  }

  async #failed(group: readonly Waiting[], error: unknown): Promise<void> {
    log("error", "rfq.group_failed", { operations: group.length, ...errorFields(error) });
    for (const waiting of group)
      waiting.resolve({ ok: false, problem: unavailable("unknown").data });
    this.#settings.onFailed();
    if (!(error instanceof OutcomeUnknown)) return;
    while ((await claimFence(this.#db, error.groupId)) === "unknown") await scheduler.wait(1_000);
  }
}
