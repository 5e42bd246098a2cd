/** The simulated deployment: the service's own code, its database, its users and their steps. */
import { Dice } from "../soak/dice.ts";
import { Cron, runCron } from "../../src/cron.ts";
import { History } from "../../src/archive/history.ts";
import { Sealer } from "../../src/archive/sealer.ts";
import { Payer } from "../../src/custody/payer/payer.ts";
import { ChainWatcher } from "../../src/custody/watcher/chain-watcher.ts";
import { Feed } from "../../src/feeds/feed.ts";
import { config } from "../../src/platform/config.ts";
import { RfqBook } from "../../src/rfq/rfq-book.ts";
import { Approvals } from "./approvals.ts";
import { Bucket } from "./bucket.ts";
import { Calls } from "./calls.ts";
import { Credentials } from "./credentials.ts";
import { Custody } from "./custody.ts";
import { Database } from "./database.ts";
import {
  checkCommands,
  checkDue,
  checkQuoteLife,
  checkRecords,
  checkSockets,
  checkWaits,
} from "./invariants.ts";
import { Objects } from "./objects.ts";
import { OldRecords } from "./old-records.ts";
import { Operating } from "./operating.ts";
import { credentialOf, People } from "./people.ts";
import type { Step } from "./plan.ts";
import { Safeguards } from "./safeguards.ts";
import { Sealing } from "./sealing.ts";
import { setUp } from "./set-up.ts";
import { settings } from "./settings.ts";
import { checkReconciled } from "./reconciled.ts";
import type { Scene } from "./scene.ts";
import { useSockets } from "./sockets.ts";
import { Streaming } from "./streaming.ts";
import { tallyOf } from "./tally.ts";
import { timeTravel } from "./time-travel.ts";
import { Trading } from "./trading.ts";
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
  readonly #database: Database;
  readonly #objects: Objects;
  readonly #env: Env;
  readonly #scene: Scene;
  readonly #custody: Custody;
  readonly #people = new People();
  readonly #calls = new Calls();
  readonly #credentials: Credentials;
  readonly #old: OldRecords;
  readonly #trading: Trading;
  readonly #streaming: Streaming;
  readonly #bucket: Bucket;
  readonly #sealing: Sealing;
  readonly #operating: Operating;
  readonly #safeguards: Safeguards;
  readonly #approvals: Approvals;
  readonly #events = { quiet: 0, checkedGroup: 0, troubledUntil: 0, constraint: "" };
  #fault: Violation | undefined;

  constructor(time: VirtualTime, seed: string) {
    this.#time = time;
    this.#seed = seed;
    this.#database = new Database(time);
    this.#objects = new Objects(time, seed);
    this.#bucket = new Bucket(time);
    this.#env = asEnv({
      ...settings(),
      DB: this.#database.binding(),
      RFQ_BOOK: this.#objects.namespace("RfqBook"),
      FEED: this.#objects.namespace("Feed"),
      CHAIN_WATCHER: this.#objects.namespace("ChainWatcher"),
      PAYER: this.#objects.namespace("Payer"),
      SEALER: this.#objects.namespace("Sealer"),
      HISTORY: this.#objects.namespace("History"),
      CRON: this.#objects.namespace("Cron"),
      ARCHIVE: this.#bucket.binding(),
      WITHDRAWALS: { send: (body: unknown) => this.#custody.queue().send(body) },
      // Whether the heads of the audit log are stored changes nothing that the simulator checks.
      AUDIT: { list: async () => ({ objects: [] }), put: async () => null },
    });
    this.#objects.use({ RfqBook, Feed, ChainWatcher, Payer, Sealer, History, Cron }, this.#env);
    const start = (name: string, dice: Dice, work: () => Promise<void>) =>
      this.#start(name, dice, work);
    const scene: Scene = {
      time,
      seed,
      env: this.#env,
      database: this.#database,
      start,
      finish: (name, dice, work) => this.#finish(name, dice, work),
      fail: (violation) => this.#fail(violation),
    };
    this.#scene = scene;
    const people = this.#people;
    const calls = this.#calls;
    const credentials = new Credentials(scene, people, calls);
    this.#credentials = credentials;
    this.#custody = new Custody(scene, calls, credentials);
    this.#old = new OldRecords(scene, people, credentials);
    this.#trading = new Trading(scene, people, credentials, this.#old);
    this.#streaming = new Streaming(scene, people, credentials);
    this.#sealing = new Sealing(scene, people, this.#bucket, calls);
    const custody = this.#custody;
    this.#operating = new Operating(scene, { people, custody, calls, credentials });
    const { subscribers } = this.#streaming;
    this.#safeguards = new Safeguards(scene, { people, credentials, subscribers });
    this.#approvals = new Approvals(scene, people, credentials);
    this.#objects.onAlarm = (what, tookMs) => this.#alarmEnded(what, tookMs);
    useSockets(time, () => time.current().dice.between(0, 20));
  }

  /** The RPC of the chain's nodes. */
  fetch(...request: Parameters<typeof fetch>): Promise<unknown> {
    return this.#custody.nodes.fetch(...request);
  }

  get commands(): number {
    return this.#people.commands;
  }

  /** What the seed reached, to see that its steps do something. */
  tally(): Readonly<Record<string, number>> {
    return tallyOf(this.#database, this.#sealing.reading, this.#streaming.subscribers.frames);
  }

  /** How many calls of each verb succeeded. */
  get calls(): readonly string[] {
    return this.#calls.verbs.map((verb) => this.#calls.summary(verb));
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
      else this.#perform(step, new Dice(`${this.#seed}/step/${step.index}`));
      this.#check();
    }
    await this.#quiet(true);
    await timeTravel({
      scene: this.#scene,
      people: this.#people,
      credentials: this.#credentials,
      trading: this.#trading,
      old: this.#old,
      custody: this.#custody,
      approvals: this.#approvals,
      operating: this.#operating,
      streaming: this.#streaming,
      sealing: this.#sealing,
      context: (words, options) => this.#operating.context(words, options),
      safeguards: this.#safeguards,
      advance: (ms) => this.#advance(ms),
      quiet: () => this.#quiet(true),
    });
    this.#calls.check();
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
      setUp(this.#scene, {
        people: this.#people,
        custody: this.#custody,
        credentials: this.#credentials,
      }),
    );
    this.#scheduleCron();
  }

  #scheduleCron(): void {
    this.#time.after(CRON_MS, () => {
      this.#start("cron", new Dice(`${this.#seed}/cron/${this.#time.now}`), () =>
        runCron(this.#env),
      );
      this.#scheduleCron();
    });
  }

  #perform(step: Step, dice: Dice): void {
    const { kind } = step;
    this.#time.note(`step ${step.index} ${kind}`);
    switch (kind) {
      case "weather":
        return this.#setWeather(step.weather);
      case "restart":
        return this.#onObject(dice, (key) => this.#objects.restart(key), true);
      case "restart_custody":
        return this.#objects.restartInTheMiddle(
          dice.pick(["ChainWatcher/polygon", "Payer/polygon"]),
          dice,
        );
      case "hibernate":
        return this.#onObject(dice, (key) => this.#objects.hibernate(key));
      case "split":
        return this.#onObject(dice, (key) => this.#objects.split(key, dice.between(10, 20_000)));
      case "kill_worker":
        return this.#trading.killWorker(dice);
      case "outage": {
        const ms = dice.between(100, dice.chance(LONG_OUTAGES) ? MAX_OUTAGE_MS : SHORT_OUTAGE_MS);
        this.#database.awayUntil = this.#time.now + ms;
        this.#database.hangsUntil = this.#time.now + dice.between(0, 3_000);
        this.#events.troubledUntil = this.#time.now + ms + QUIET_MS;
        return;
      }
      case "subscribe":
        return this.#streaming.subscribe(step, dice);
      case "unsubscribe":
        return this.#streaming.unsubscribe(step, dice);
      case "repeat":
        return this.#trading.repeat(step, dice);
      case "cancel_quotes":
        return this.#trading.cancelQuotes(step, dice);
      case "several_quotes":
        return this.#trading.severalQuotes(step, dice);
      case "save_protection":
      case "reset_protection":
      case "cancel_after":
        return this.#safeguards.act(kind, `${kind}@${step.index}`, dice);
      case "approve":
        return this.#approvals.approve(`${kind}@${step.index}`, dice);
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
        return this.#operating.act(kind, step, dice);
      case "reorganise":
      case "node_away":
      case "evict":
      case "pause_vault":
        return this.#custody.disturb(kind, dice);
      case "deposit":
        return this.#custody.deposit(dice.pick(this.#people.all), dice);
      case "withdraw":
      case "new_address":
        return this.#useCustody(kind, step, dice);
      case "archive_away":
      case "archive_lies":
      case "archive_damage":
        return this.#sealing.disturb(kind, dice);
      case "read_ledger":
        return this.#sealing.reading.read(`${kind}@${step.index}`, dice);
      case "quiet":
        return;
      default:
        return this.#trading.act(kind, step, dice);
    }
  }

  #setWeather(name: string): void {
    const weather = WEATHERS[name] ?? CLEAR;
    this.#database.weather = weather;
    this.#objects.weather = weather;
    this.#custody.nodes.weather = weather;
    this.#bucket.weather = weather;
    if (weather.databaseLoss > 0 || weather.late > 0)
      this.#events.troubledUntil = Number.POSITIVE_INFINITY;
  }

  #onObject(dice: Dice, act: (key: string) => void, inTheMiddle = false): void {
    const busy = inTheMiddle ? this.#objects.live(true) : [];
    const live = busy.length > 0 ? busy : this.#objects.live();
    if (live.length > 0) act(dice.pick(live));
  }

  #useCustody(kind: "withdraw" | "new_address", step: Step, dice: Dice): void {
    const person = dice.pick(this.#people.all);
    const name = `${kind}@${step.index}`;
    const { actor } = credentialOf(person, dice);
    if (kind === "withdraw") return this.#custody.withdraw(name, person, actor, dice);
    this.#start(name, dice, () => this.#custody.newAddress(person, actor));
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
    this.#custody.heal();
    // Sealing goes on in a calm, so what disturbs it lasts longer.
    if (this.#sealing.disturbed) await this.#advance(ARCHIVE_MS);
    this.#sealing.heal();
    const calmSince = this.#time.now;
    await this.#advance(QUIET_MS);
    if (this.#events.troubledUntil === Number.POSITIVE_INFINITY)
      this.#events.troubledUntil = this.#time.now;
    const database = this.#database;
    checkCommands(database, this.#people);
    checkQuoteLife(database, this.#people.sent);
    checkWaits(database, this.#people.sent, config(this.#env).RFQ_COMMAND_MAX_WAIT_MS);
    checkRecords(database, this.#events.checkedGroup);
    checkDue(database, this.#time.now);
    this.#custody.check();
    this.#approvals.check();
    this.#safeguards.check();
    checkSockets(database, this.#streaming.subscribers, this.#time.now);
    await this.#sealing.check(calmSince, new Dice(`${this.#seed}/archive/${calmSince}`));
    await this.#finish("old_records", new Dice(`${this.#seed}/old/${calmSince}`), () =>
      this.#old.check(this.#trading, new Dice(`${this.#seed}/old/dice/${calmSince}`)),
    );
    const full = last || ++this.#events.quiet % FULL_EVERY === 0;
    await this.#finish("reconcile", new Dice("reconcile"), () => checkReconciled(this.#env, full));
    this.#events.checkedGroup = database.count("SELECT max(seq) FROM commit_groups");
    this.#people.sent = this.#people.sent.slice(-20).filter(({ result }) => result !== undefined);
    this.#streaming.subscribers.forget();
    this.#safeguards.calm();
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

/** Safe cast: the service reads these bindings only; a missing one fails its first use. */
function asEnv(bindings: object): Env {
  return bindings as Env;
}
