/** The archive of the simulated deployment: its faults, its readers, and a restored database. */
import { config } from "../../src/platform/config.ts";
import { skipTransfers } from "../../src/ledger/skip-transfers.ts";
import { keyOf } from "../../src/archive/seal-store.ts";
import { verifyJournal } from "../operator/verify-database.ts";
import { restore } from "../../src/operator/restore.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { all } from "../../src/platform/sql.ts";
import { Dice } from "../actors/dice.ts";
import { ArchiveChecks } from "./archive-checks.ts";
import { type Bucket, LIES } from "./bucket.ts";
import type { Snapshot } from "./database.ts";
import { JournalModel } from "./journal-model.ts";
import { Reading } from "./reading.ts";
import type { Scene } from "./scene.ts";
import { Violation } from "./violation.ts";

const MAX_AWAY_MS = 90_000;
/** More transfers than `restore` jumps over. */
const MANY_TRANSFERS = 3_000_000;

export type ArchiveFault = "archive_away" | "archive_lies" | "archive_damage";

export class Sealing {
  readonly #scene: Scene;
  readonly #bucket: Bucket;
  readonly #model: JournalModel;
  readonly #checks: ArchiveChecks;
  readonly reading: Reading;
  #highest = 0;

  constructor(scene: Scene, bucket: Bucket) {
    this.#scene = scene;
    this.#bucket = bucket;
    this.#model = new JournalModel(scene.database);
    this.#checks = new ArchiveChecks(scene.database, bucket, this.#model);
    this.reading = new Reading(scene, this.#model);
    scene.database.onDelete = (id) => {
      try {
        this.#checks.checkDeletion(id);
      } catch (error) {
        if (error instanceof Violation) scene.fail(error);
      }
    };
  }

  disturb(kind: ArchiveFault, dice: Dice): void {
    const { time } = this.#scene;
    const until = time.now + dice.between(1_000, MAX_AWAY_MS);
    if (kind === "archive_away") this.#bucket.awayUntil = until;
    if (kind === "archive_damage") {
      // Later it is the only copy, which no check can bring back.
      const [row] = this.#scene.database.rows(
        "SELECT epoch, number FROM journal_seals WHERE released_at IS NULL ORDER BY number LIMIT 1",
      );
      if (row === undefined) return;
      this.#bucket.damage(keyOf({ epoch: Number(row["epoch"]), number: Number(row["number"]) }));
    }
    if (kind !== "archive_lies") return;
    this.#bucket.lie = dice.pick(LIES);
    time.after(until - time.now, () => (this.#bucket.lie = undefined));
  }

  get disturbed(): boolean {
    return this.#bucket.disturbed;
  }

  heal(): void {
    this.#bucket.heal();
  }

  /** At a quiet point. Nothing was disturbed since `calmSince`. */
  async check(calmSince: number, dice: Dice): Promise<void> {
    this.#checks.checkProgress(calmSince, this.#scene.time.now);
    await this.#scene.finish("check_archive", dice, async () => {
      await this.#checks.checkContent();
      await this.reading.checkAll(dice);
    });
  }

  /** The operator's own check finds nothing either. */
  async verify(): Promise<void> {
    const { env, finish } = this.#scene;
    await finish("verify", new Dice("verify"), async () => {
      const report = await verifyJournal(env.DB, env.ARCHIVE, config(env));
      if (!report.ok) throw new Violation("journal_verify", JSON.stringify(report.discrepancies));
    });
  }

  /** What the database will lose has more transfers than any jump of their numbers. */
  async loseMany(): Promise<void> {
    const { env, finish } = this.#scene;
    await finish("lose", new Dice("lose"), async () => {
      const last = this.#model.transfers().at(-1)?.transfer_id ?? 0;
      for (const statement of skipTransfers(last + MANY_TRANSFERS)) await all(env.DB, statement);
    });
  }

  /** D1 is put back to an earlier state. */
  putBack(snapshot: Snapshot): void {
    const { database } = this.#scene;
    this.#highest = this.#model.transfers().at(-1)?.transfer_id ?? 0;
    const lost = database.count("SELECT count(*) FROM journal_seals");
    database.restore(snapshot);
    this.#model.forget();
    if (database.count("SELECT count(*) FROM journal_seals") === lost)
      throw new Violation("seals_are_lost", "the snapshot is not older than a seal");
  }

  /** The sealer has halted. `restore` lets it continue. */
  async restore(context: OperatorContext): Promise<void> {
    const { database, finish } = this.#scene;
    const halted = () =>
      database.count(
        "SELECT count(*) FROM alerts WHERE kind = 'journal_restored' AND resolved_at IS NULL",
      );
    if (halted() === 0) throw new Violation("sealer_halts", "no alert after Time Travel");
    await finish("restore", new Dice("restore"), async () => void (await restore(context)));
    if (halted() > 0) throw new Violation("restore_continues", "the sealer is still halted");
  }

  /** New transfers have numbers of their own, in a new epoch. */
  checkRestored(since: number): void {
    const { database } = this.#scene;
    const fresh = "SELECT count(*) FROM transfers WHERE at >= ?";
    if (database.count(fresh, since) === 0) throw new Violation("trading_goes_on", "no transfer");
    const reused = database.count(`${fresh} AND transfer_id <= ?`, since, this.#highest);
    if (reused > 0) throw new Violation("numbers_used_once", `${reused} transfers`);
    const epochs = database.count("SELECT max(epoch) FROM journal_seals");
    if (epochs < 2) throw new Violation("new_epoch", "sealing continues in the lost epoch");
  }
}
