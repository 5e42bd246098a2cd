/** The simulated deployment: the service's own code, its database, its users and their steps. */
import { Dice } from "../actors/dice.ts";
import { runCron } from "../../src/cron.ts";
import { config } from "../../src/platform/config.ts";
import {
  checkCommands,
  checkDue,
  checkMatches,
  checkQuoteLife,
  checkRecords,
  checkSockets,
  checkWaits,
} from "./invariants.ts";
import { type Parts, partsOf } from "./parts.ts";
import { credentialOf } from "./people.ts";
import type { Step } from "./plan.ts";
import { setUp } from "./set-up.ts";
import { checkReconciled } from "./reconciled.ts";
import { useSockets } from "./sockets.ts";
import { tallyOf } from "./tally.ts";
import { timeTravel } from "./time-travel.ts";
import { isProgrammingError, Violation } from "./violation.ts";
import { Process, type VirtualTime } from "./virtual-time.ts";
import { CLEAR, WEATHERS } from "./weather.ts";

const CRON_MS = 60_000;
/** Two runs of cron, the second after every late call has arrived. */
const QUIET_MS = 130_000;
/** Cron has run at least once while the archive was disturbed. */
const ARCHIVE_MS = 70_000;
/** Longer than a writer tries to learn whether its batch has committed. */
const MAX_OUTAGE_MS = 40_000;
/** Most are short, because a phase lasts seconds: in an outage all commands are refused. */
const SHORT_OUTAGE_MS = 2_000;
const LONG_OUTAGES = 0.1;
/** The full reconciliation reads the whole journal, so not every quiet point runs it. */
const FULL_EVERY = 8;
/** Time that an alarm may take while D1 is well. A feed's makes several calls to close quotes. */
const MAX_ALARM_MS = { "RfqBook/": 5_000, "Feed/": 10_000 };

export class World {
  readonly #time: VirtualTime;
  readonly #seed: string;
  readonly #parts: Parts;
  readonly #events = { quiet: 0, checkedGroup: 0, troubledUntil: 0, constraint: "" };
  #fault: Violation | undefined;

  constructor(time: VirtualTime, seed: string) {
    this.#time = time;
    this.#seed = seed;
    this.#parts = partsOf(time, seed, {
      start: (name, dice, work) => this.#start(name, dice, work),
      finish: (name, dice, work) => this.#finish(name, dice, work),
      fail: (violation) => this.#fail(violation),
    });
    this.#parts.objects.onAlarm = (what, tookMs) => this.#alarmEnded(what, tookMs);
    useSockets(time, () => time.current().dice.between(0, 20));
  }

  /** The RPC of the chain's nodes. */
  fetch(...request: Parameters<typeof fetch>): Promise<unknown> {
    return this.#parts.custody.nodes.fetch(...request);
  }

  get commands(): number {
    return this.#parts.people.commands;
  }

  /** What the seed reached, to see that its steps do something. */
  tally(): Readonly<Record<string, number>> {
    const { database, sealing, streaming } = this.#parts;
    return tallyOf(database, sealing.reading, streaming.subscribers.frames);
  }

  /** How many calls of each verb succeeded. */
  get calls(): readonly string[] {
    return this.#parts.calls.verbs.map((verb) => this.#parts.calls.summary(verb));
  }

  /** Every line that the service logs. A constraint that fails is a guard that was missing. */
  logged(text: string): void {
    if (text.includes('"reason":"constraint"') || text.includes("constraint_failed"))
      this.#fail(new Violation("guards_hold", text));
    // A socket that is closed while it catches up fails its upgrade, as it should.
    if (text.includes("WebSocket send()")) return;
    if (text.includes('"error":"TypeError"') || text.includes('"error":"ReferenceError"'))
      this.#fail(new Violation("no_programming_error", text));
    if (text.includes('"event":"ledger.difference"'))
      this.#fail(new Violation("reconciliation", text));
  }

  /** Throws the first violation of the steps. */
  async run(steps: readonly Step[], onStep: (step: Step) => void): Promise<void> {
    await this.#begin();
    for (const step of steps) {
      await this.#advance(step.waitMs);
      onStep(step);
      if (step.kind === "quiet") await this.#quiet();
      else {
        this.#time.note(`step ${step.index} ${step.kind}`);
        this.#perform(step, new Dice(`${this.#seed}/step/${step.index}`));
      }
      this.#check();
    }
    await this.#quiet(true);
    await timeTravel({
      ...this.#parts,
      context: (words, options) => this.#parts.operating.context(words, options),
      advance: (ms) => this.#advance(ms),
      quiet: () => this.#quiet(true),
    });
    this.#parts.calls.check();
  }

  #fail(violation: Violation): void {
    this.#fault ??= violation;
  }

  #check(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  async #advance(ms: number): Promise<void> {
    await this.#time.advance(ms);
    this.#check();
  }

  /** Runs work in a process of its own, which a step can kill. */
  #start(name: string, dice: Dice, work: () => Promise<void>): Process {
    const process = new Process(name, dice);
    this.#time.runAs(process, () => {
      work()
        .catch((error: unknown) => {
          if (error instanceof Violation) this.#fail(error);
          else if (isProgrammingError(error))
            this.#fail(new Violation("no_programming_error", `${name}: ${String(error)}`));
          else this.#time.note(`ended with ${String(error)}`);
        })
        // The runtime cancels what a Worker's call has left behind.
        .finally(() => (process.alive = false));
    });
    return process;
  }

  async #begin(): Promise<void> {
    await this.#finish("setup", new Dice(`${this.#seed}/setup`), () =>
      setUp(this.#parts.scene, this.#parts.custody),
    );
    this.#scheduleCron();
  }

  #scheduleCron(): void {
    this.#time.after(CRON_MS, () => {
      this.#start("cron", new Dice(`${this.#seed}/cron/${this.#time.now}`), () =>
        runCron(this.#parts.env),
      );
      this.#scheduleCron();
    });
  }

  #perform(step: Step, dice: Dice): void {
    const { kind } = step;
    const { objects, trading, streaming, custody, sealing } = this.#parts;
    switch (kind) {
      case "weather":
        return this.#setWeather(step.weather);
      case "restart":
        return this.#onObject(dice, (key) => objects.restart(key), true);
      case "restart_custody":
        return objects.restartInTheMiddle(
          dice.pick(["ChainWatcher/polygon", "Payer/polygon"]),
          dice,
        );
      case "hibernate":
        return this.#onObject(dice, (key) => objects.hibernate(key));
      case "split":
        return this.#onObject(dice, (key) => objects.split(key, dice.between(10, 20_000)));
      case "kill_worker":
        return trading.killWorker(dice);
      case "outage":
        return this.#cutDatabase(dice);
      case "subscribe":
        return streaming.subscribe(step, dice);
      case "unsubscribe":
        return streaming.unsubscribe(step, dice);
      case "repeat":
        return trading.repeat(step, dice);
      case "cancel_quotes":
        return trading.cancelQuotes(step, dice);
      case "several_quotes":
        return trading.severalQuotes(step, dice);
      case "save_protection":
      case "reset_protection":
      case "cancel_after":
        return this.#parts.safeguards.act(kind, `${kind}@${step.index}`, dice);
      case "approve":
        return this.#parts.approvals.approve(`${kind}@${step.index}`, dice);
      case "freeze":
      case "unfreeze":
      case "revoke_key":
      case "end_sessions":
      case "pause_venue":
      case "resume_venue":
      case "fail":
      case "retry":
      case "pause_withdrawals":
      case "resume_withdrawals":
        return this.#parts.operating.act(kind, step, dice);
      case "reorganise":
      case "node_away":
      case "evict":
      case "pause_vault":
        return custody.disturb(kind, dice);
      case "deposit":
        return custody.deposit(dice.pick(this.#parts.people.all), dice);
      case "withdraw":
      case "new_address":
        return this.#useCustody(kind, step, dice);
      case "archive_away":
      case "archive_lies":
      case "archive_damage":
        return sealing.disturb(kind, dice);
      case "read_ledger":
        return sealing.reading.read(`${kind}@${step.index}`, dice);
      case "quiet":
        return;
      default:
        return trading.act(kind, step, dice);
    }
  }

  #cutDatabase(dice: Dice): void {
    const ms = dice.between(100, dice.chance(LONG_OUTAGES) ? MAX_OUTAGE_MS : SHORT_OUTAGE_MS);
    this.#parts.database.awayUntil = this.#time.now + ms;
    this.#parts.database.hangsUntil = this.#time.now + dice.between(0, 3_000);
    this.#events.troubledUntil = this.#time.now + ms + QUIET_MS;
  }

  #setWeather(name: string): void {
    const weather = WEATHERS[name] ?? CLEAR;
    this.#parts.database.weather = weather;
    this.#parts.objects.weather = weather;
    this.#parts.custody.nodes.weather = weather;
    this.#parts.bucket.weather = weather;
    if (weather.databaseLoss > 0 || weather.late > 0)
      this.#events.troubledUntil = Number.POSITIVE_INFINITY;
  }

  #onObject(dice: Dice, act: (key: string) => void, inTheMiddle = false): void {
    const busy = inTheMiddle ? this.#parts.objects.live(true) : [];
    const live = busy.length > 0 ? busy : this.#parts.objects.live();
    if (live.length > 0) act(dice.pick(live));
  }

  #useCustody(kind: "withdraw" | "new_address", step: Step, dice: Dice): void {
    const person = dice.pick(this.#parts.people.all);
    const name = `${kind}@${step.index}`;
    const { actor } = credentialOf(person, dice);
    if (kind === "withdraw") return this.#parts.custody.withdraw(name, person, actor, dice);
    this.#start(name, dice, () => this.#parts.custody.newAddress(person, actor));
  }

  #alarmEnded(what: string, tookMs: number): void {
    const limit = Object.entries(MAX_ALARM_MS).find(([prefix]) => what.startsWith(prefix))?.[1];
    if (limit !== undefined && tookMs > limit && this.#time.now > this.#events.troubledUntil)
      this.#fail(new Violation("alarm_ends", `${what} took ${tookMs} ms`));
  }

  /** Faults end, everything settles, cron runs twice, and all invariants are checked. */
  async #quiet(last = false): Promise<void> {
    this.#time.note("quiet");
    this.#setWeather("clear");
    this.#parts.custody.heal();
    // Sealing goes on in a calm, so what disturbs it lasts longer.
    if (this.#parts.sealing.disturbed) await this.#advance(ARCHIVE_MS);
    this.#parts.sealing.heal();
    const calmSince = this.#time.now;
    await this.#advance(QUIET_MS);
    if (this.#events.troubledUntil === Number.POSITIVE_INFINITY)
      this.#events.troubledUntil = this.#time.now;
    const { database, people } = this.#parts;
    checkCommands(database, people);
    checkQuoteLife(database, people.sent);
    checkWaits(database, people.sent, config(this.#parts.env).RFQ_COMMAND_MAX_WAIT_MS);
    checkRecords(database, this.#events.checkedGroup);
    checkMatches(database, people, this.#events.checkedGroup);
    checkDue(database, this.#time.now);
    this.#parts.custody.check();
    this.#parts.approvals.check();
    this.#parts.safeguards.check();
    checkSockets(database, this.#parts.streaming.subscribers, this.#time.now);
    await this.#parts.sealing.check(calmSince, new Dice(`${this.#seed}/archive/${calmSince}`));
    await this.#finish("old_records", new Dice(`${this.#seed}/old/${calmSince}`), () =>
      this.#parts.old.check(this.#parts.trading, new Dice(`${this.#seed}/old/dice/${calmSince}`)),
    );
    const full = last || ++this.#events.quiet % FULL_EVERY === 0;
    await this.#finish("reconcile", new Dice("reconcile"), () =>
      checkReconciled(this.#parts.env, full),
    );
    this.#events.checkedGroup = database.count("SELECT max(seq) FROM commit_groups");
    people.sent = people.sent.slice(-20).filter(({ result }) => result !== undefined);
    this.#parts.streaming.subscribers.forget();
    this.#parts.safeguards.calm();
  }

  /** Runs work and the events until it has ended. */
  async #finish(name: string, dice: Dice, work: () => Promise<void>): Promise<void> {
    let failure: string | undefined;
    const process = this.#start(name, dice, async () => {
      try {
        await work();
      } catch (error) {
        failure = error instanceof Error ? error.message : String(error);
        throw error;
      }
    });
    for (let waits = 0; process.alive; waits++) {
      await this.#advance(100);
      if (waits > 10_000) throw new Violation("work_ends", name);
    }
    this.#check();
    // Nothing is disturbed while the simulator waits for work.
    if (failure !== undefined) throw new Violation("calm_work_succeeds", `${name}: ${failure}`);
  }
}
