/** The sealer: one Durable Object that runs `sealRound` in an alarm loop. Cron only wakes it. */
import { DurableObject } from "cloudflare:workers";
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { inChunks } from "../platform/chunks.ts";
import { FailureAlert } from "../platform/failure-alert.ts";
import { config } from "../platform/config.ts";
import { type Failpoint, failpointOf } from "../platform/failpoint.ts";
import { counts } from "../platform/counts.ts";
import { errorFields, log } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { limited, queriesLeft, renewQueries } from "../platform/query-limit.ts";
import { now, sleep } from "../platform/time.ts";
import { type Windows, windowsOf } from "../platform/windows.ts";
import { TRANSFERS_PER_SEAL } from "./choose-range.ts";
import { releaseRound } from "./release.ts";
import { readDatabaseState, type Round, sealRound } from "./seal-round.ts";
import { mendOwners } from "./check-owners.ts";
import { historyName } from "./ask-history.ts";
import { OwnerMemory } from "./owner-memory.ts";
import { linksIn } from "./owner-ends.ts";
import type { SealRef } from "./footer.ts";
import { readFooterAt } from "./seal-store.ts";
import { compareWithMemory, FIRST_MEMORY, nextEpoch, type SealerMemory } from "./sealer-memory.ts";
import { SEALER_NAME } from "./watch-sealer.ts";

/** Wait after a seal while more is due, so that D1 serves others in between. */
const BEHIND_WAIT_MS = 500;
/** What ends a round, in its order, and the alert. */
const HALTS = [
  ["restored", "journal_restored"],
  ["cut", "history_cut"],
  ["mismatch", "seal_mismatch"],
] as const;
/** Nothing more leaves the database. */
const HALTED: ReadonlySet<Round["status"]> = new Set(["restored", "cut", "following"]);
/** Seals that one round delivers or releases, each in a batch of its own. */
const RELEASES_PER_ROUND = 20;
/** Of D1's 1 000 for an invocation, which an alarm is. */
const QUERIES_PER_ROUND = 900;
const QUERIES_PER_RELEASE = 250;
/** Histories that read a new seal at once, and how long they may take. */
const HISTORIES_TOLD = 200;
const HISTORIES_AT_ONCE = 20;
const TELL_MS = 5_000;
const MEMORY = "memory";

/** Continues the reconciliation's scan, which lies above the archive, by so many chunks. */
type Scan = (env: Env, chunks: number) => Promise<unknown>;

export class ArchiveSealer extends DurableObject<Env> {
  readonly #failing = new FailureAlert("sealer_failing");
  readonly #owners = new OwnerMemory(this.ctx.storage.sql);
  /** Ends when the last round or command has ended. They run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  readonly #scan: Scan;

  constructor(ctx: DurableObjectState, env: Env, scan: Scan) {
    super(ctx, limited(env, QUERIES_PER_ROUND));
    this.#scan = scan;
  }

  /** Starts the next round now. */
  async wake(): Promise<void> {
    const due = await this.ctx.storage.getAlarm();
    if (due === null || due > Date.now() + 1_000) await this.ctx.storage.setAlarm(Date.now());
  }

  /** The highest transfer that the sealer has seen. A restored database may not know it. */
  async highestTransfer(): Promise<number> {
    return (await this.#memory()).highest;
  }

  /** What the database lacks of what the sealer remembers, or null. */
  async lost(): Promise<string | null> {
    renewQueries(this.env.DB);
    const compared = compareWithMemory(await this.#memory(), await readDatabaseState(this.env.DB));
    return "lost" in compared ? compared.lost : null;
  }

  /** Follows the database as it is now, in a new epoch. For a database that was restored. */
  reopen(): Promise<{ epoch: number; sealed: number }> {
    renewQueries(this.env.DB);
    return this.#inTurn(async () => {
      const memory = nextEpoch(await this.#memory(), await readDatabaseState(this.env.DB));
      await this.ctx.storage.put(MEMORY, memory);
      await clearAlert(this.env.DB, "journal_restored", SEALER_NAME);
      await clearAlert(this.env.DB, "seal_mismatch", SEALER_NAME);
      await this.wake();
      return { epoch: memory.epoch, sealed: memory.last.number };
    });
  }

  /** Mends `sealed_owners` by the archive. Returns the owners, or what must be done first. */
  mend(): Promise<{ mended: string[] } | { refused: string }> {
    return this.#inTurn(async () => {
      const { DB, ARCHIVE } = this.env;
      const lost = compareWithMemory(await this.#memory(), await readDatabaseState(DB));
      if ("lost" in lost) return { refused: `${lost.lost}. See restore` };
      if (!(await this.#owners.follow(DB, ARCHIVE)))
        return { refused: "the sealer is still reading the archive. Try again in a minute" };
      const [unread] = this.#owners.unread;
      if (unread !== undefined)
        return { refused: `seal ${unread} cannot be read. See journal verify` };
      const mended = await mendOwners(DB, this.#owners);
      await this.wake();
      return { mended };
    });
  }

  override async alarm(): Promise<void> {
    let waitMs = windowsOf(config(this.env)).sealerPoll;
    let outcome = "failed";
    renewQueries(this.env.DB);
    try {
      const round = await this.#inTurn(() => this.#round());
      outcome = round.status;
      if ((round.status === "sealed" && round.full) || round.status === "following")
        waitMs = BEHIND_WAIT_MS;
      await this.#failing.succeeded(this.env.DB, SEALER_NAME);
    } catch (error) {
      await this.#failing.failed(this.env.DB, SEALER_NAME, String(error));
      log("warn", "sealer.round_failed", {
        failures: this.#failing.failures,
        ...errorFields(error),
      });
    } finally {
      counts.count("rfq_rounds_total", { verb: "seal", outcome });
      counts.send(this.env, (work) => this.ctx.waitUntil(work));
      await this.ctx.storage.setAlarm(Date.now() + waitMs);
    }
  }

  async #round(): Promise<Round> {
    const settings = config(this.env);
    const failpoint = failpointOf(this.env);
    const windows = windowsOf(settings);
    const round = await sealRound({
      db: this.env.DB,
      bucket: this.env.ARCHIVE,
      macKeys: settings,
      scan: (chunks) => this.#scan(this.env, chunks),
      memory: await this.#memory(),
      owners: this.#owners,
      remember: (memory) => this.ctx.storage.put(MEMORY, memory),
      options: {
        hotMs: windows.ended,
        everyMs: windows.sealEvery,
        limit: TRANSFERS_PER_SEAL,
      },
      failpoint,
    });
    await this.#report(round);
    if (settings.JOURNAL_RELEASE === "on" && !HALTED.has(round.status))
      for (let count = 0; count < RELEASES_PER_ROUND; count++) {
        if (queriesLeft(this.env.DB) < QUERIES_PER_RELEASE) break;
        if (!(await this.#release(windows, failpoint))) break;
      }
    return round;
  }

  /** Returns whether another seal may be due. */
  async #release(
    { releaseLag: lagMs, matches: matchesMs }: Windows,
    failpoint: Failpoint | undefined,
  ): Promise<boolean> {
    const { DB, ARCHIVE } = this.env;
    const settings = config(this.env);
    const place = { db: DB, bucket: ARCHIVE, settings };
    const released = await releaseRound({ ...place, lagMs, matchesMs, failpoint });
    if (released.status === "mismatch")
      await raiseAlert(DB, "archive_damaged", SEALER_NAME, released.detail);
    if (released.status === "mismatch" || released.status === "idle") return false;
    await clearAlert(DB, "archive_damaged", SEALER_NAME);
    log("info", `journal_${released.status}`, { number: released.number });
    if (released.status === "delivered") await this.#tellHistories(released);
    return true;
  }

  /**
   * Has the histories of the seal's users read its footer now. It only saves their next reader the
   * time, so a failure is ignored, and one that does not answer delays the seals only so long. Of
   * many users, each seal tells others.
   */
  async #tellHistories(seal: SealRef): Promise<void> {
    try {
      const { epoch, number } = seal;
      const footer = await readFooterAt(this.env.ARCHIVE, seal);
      // Users have ids of 16 bytes, house accounts have names.
      const users = linksIn(footer).filter(({ owner }) => owner.length === 32);
      const first = (number * HISTORIES_TOLD) % Math.max(users.length, 1);
      const told = [...users.slice(first), ...users.slice(0, first)].slice(0, HISTORIES_TOLD);
      const until = now() + TELL_MS;
      for (const some of inChunks(told, HISTORIES_AT_ONCE)) {
        if (now() >= until) return;
        const followed = some.map(({ owner }) =>
          near(this.env, this.env.HISTORY, historyName(owner)).follow(owner, { epoch, number }),
        );
        await Promise.race([sleep(until - now()), Promise.allSettled(followed)]);
      }
    } catch (error) {
      log("warn", "sealer.histories_not_told", errorFields(error));
    }
  }

  /** Halts are found again by each round, so their alerts close when the cause has gone. */
  async #report(round: Round): Promise<void> {
    const { DB } = this.env;
    for (const [status, kind] of HALTS) {
      if ("detail" in round && round.status === status)
        return raiseAlert(DB, kind, SEALER_NAME, round.detail);
      await clearAlert(DB, kind, SEALER_NAME);
      // The round has not come to what follows.
      if (round.status === "following") return;
    }
    if (round.status !== "sealed") return;
    // The head in the logs anchors the chain outside the database and the archive.
    log("info", "journal_sealed", { ...round.seal });
  }

  async #memory(): Promise<SealerMemory> {
    return (await this.ctx.storage.get<SealerMemory>(MEMORY)) ?? FIRST_MEMORY;
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }
}
