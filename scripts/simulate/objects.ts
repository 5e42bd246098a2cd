/**
 * Durable Objects and the calls between them: one live instance per name, storage that survives it,
 * alarms that are delivered at least once, hibernation, restarts in the middle of anything, a
 * second copy beside the first, and calls that are lost, late or doubled.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { Dice } from "../actors/dice.ts";
import type { ServerSocket } from "./sockets.ts";
import { Process, type VirtualTime } from "./virtual-time.ts";
import { CLEAR, fateOf, type Weather } from "./weather.ts";

type Methods = Record<string, (...args: unknown[]) => unknown>;
/** A Durable Object of the service, which is given our fake of its state. */
type ObjectClass = new (ctx: DurableObjectState, env: Env) => object;

type Instance = {
  readonly process: Process;
  readonly object: Methods;
  /** Calls that wait for this instance. They fail when it is reset. */
  readonly callers: Set<(reason: Error) => void>;
  /** Calls, alarms and `waitUntil` promises that have not ended. */
  busy: number;
};

/** What survives a restart. */
type Durable = {
  readonly className: string;
  readonly name: string;
  readonly stored: Map<string, unknown>;
  /** The tables of `storage.sql`, made when they are first used. */
  tables: DatabaseSync | undefined;
  readonly dice: Dice;
  sockets: ServerSocket[];
  pong: unknown;
  alarm: number | null;
  /** Counts `setAlarm` and deliveries, so that an earlier timer finds that it was replaced. */
  alarmNumber: number;
  alarmRunsSince: number | undefined;
  generation: number;
  instance: Instance | undefined;
};

/** Calls that may arrive twice: those whose senders repeat them anyway. */
const REPEATABLE = new Set(["push", "catchUp", "closeSockets", "expireDue", "wake", "follow"]);
const ALARM_RETRIES = 6;
/** How often, and how many times, `restartInTheMiddle` looks whether the instance works. */
const WAIT_MS = 25;
const MAX_WAITS = 800;
const RESET = "The Durable Object was reset.";

export class Objects {
  readonly #time: VirtualTime;
  readonly #seed: string;
  readonly #classes = new Map<string, ObjectClass>();
  readonly #durables = new Map<string, Durable>();
  #env: Env | undefined;
  weather: Weather = CLEAR;
  /** Called when an alarm has ended, with the time that it took. */
  onAlarm: (what: string, tookMs: number) => void = () => {};

  constructor(time: VirtualTime, seed: string) {
    this.#time = time;
    this.#seed = seed;
  }

  /** Classes by name. They are loaded after the globals were replaced. */
  use(classes: Readonly<Record<string, ObjectClass>>, env: Env): void {
    for (const [name, type] of Object.entries(classes)) this.#classes.set(name, type);
    this.#env = env;
  }

  namespace(className: string): { getByName: (name: string) => unknown } {
    return {
      getByName: (name) => {
        const durable = this.#durable(className, name);
        return new Proxy(
          {},
          {
            get: (_, method) =>
              typeof method === "string" && method !== "then"
                ? (...args: unknown[]) => this.#call(durable, method, args)
                : undefined,
          },
        );
      },
    };
  }

  /** Names of the objects that have an instance now, or one that does something now. */
  live(busyOnly = false): string[] {
    return [...this.#durables].flatMap(([key, { instance }]) =>
      instance === undefined || (busyOnly && instance.busy === 0) ? [] : [key],
    );
  }

  /** Kills an instance between two of its awaits. Its requests on their way still arrive. */
  restart(key: string): void {
    const durable = this.#durables.get(key);
    const instance = durable?.instance;
    if (durable === undefined || instance === undefined) return;
    this.#time.note(`restart ${key}`);
    this.#end(instance);
    durable.instance = undefined;
    breakSockets(durable);
  }

  /** Kills an instance soon after it has begun its next piece of work. */
  restartInTheMiddle(key: string, dice: Dice, tries = MAX_WAITS): void {
    const busy = (this.#durables.get(key)?.instance?.busy ?? 0) > 0;
    if (busy) this.#time.after(dice.between(0, 600), () => this.restart(key));
    else if (tries > 0)
      this.#time.after(WAIT_MS, () => this.restartInTheMiddle(key, dice, tries - 1));
  }

  /** Starts a second copy while the first one continues for a while, cut off from its storage. */
  split(key: string, ms: number): void {
    const durable = this.#durables.get(key);
    const instance = durable?.instance;
    if (durable === undefined || instance === undefined) return;
    this.#time.note(`split ${key} for ${ms}`);
    durable.instance = undefined;
    breakSockets(durable);
    this.#time.after(ms, () => this.#end(instance));
  }

  /** Drops an idle instance's memory. Its sockets stay open. */
  hibernate(key: string): void {
    const durable = this.#durables.get(key);
    const instance = durable?.instance;
    if (durable === undefined || instance === undefined || instance.busy > 0) return;
    this.#time.note(`hibernate ${key}`);
    this.#end(instance);
    durable.instance = undefined;
  }

  /** A frame from a client. */
  receive(socket: ServerSocket, frame: string): void {
    const durable = [...this.#durables.values()].find(({ sockets }) => sockets.includes(socket));
    if (durable !== undefined)
      this.#execute(durable, "webSocketMessage", [socket, frame]).catch(ignore);
  }

  #end(instance: Instance): void {
    instance.process.alive = false;
    for (const fail of instance.callers) fail(new Error(RESET));
    instance.callers.clear();
  }

  #durable(className: string, name: string): Durable {
    const key = `${className}/${name}`;
    let durable = this.#durables.get(key);
    if (durable === undefined) {
      durable = {
        className,
        name,
        stored: new Map(),
        tables: undefined,
        dice: new Dice(`${this.#seed}/${key}`),
        sockets: [],
        pong: null,
        alarm: null,
        alarmNumber: 0,
        alarmRunsSince: undefined,
        generation: 0,
        instance: undefined,
      };
      this.#durables.set(key, durable);
    }
    return durable;
  }

  #call(durable: Durable, method: string, args: unknown[]): Promise<unknown> {
    const time = this.#time;
    const caller = time.current();
    const fate = fateOf(caller.dice, this.weather, "network");
    const doubled =
      this.weather.networkLoss > 0 && REPEATABLE.has(method) && caller.dice.chance(0.1);
    const sent: unknown[] = method === "fetch" ? args : structuredClone(args);
    return new Promise((resolve, reject) => {
      const answer = (ms: number, done: () => void) =>
        time.after(ms, () => {
          if (caller.alive) done();
        });
      const lost = () => reject(new Error("Network connection lost."));
      if (fate.lost === "request") return answer(fate.there + fate.back, lost);
      const execute = () => this.#execute(durable, method, sent);
      time.after(fate.there, () => {
        execute().then(
          (value) => answer(fate.back, fate.lost === "answer" ? lost : () => resolve(value)),
          (error: unknown) => answer(fate.back, () => reject(plainError(error))),
        );
        if (doubled) time.after(fate.back, () => void execute().catch(ignore));
      });
    });
  }

  #execute(durable: Durable, method: string, args: readonly unknown[]): Promise<unknown> {
    const instance = this.#instanceOf(durable, method === "alarm");
    instance.busy++;
    return new Promise((resolve, reject) => {
      instance.callers.add(reject);
      const done = () => {
        instance.busy--;
        instance.callers.delete(reject);
      };
      void this.#time.runAs(instance.process, async () => {
        try {
          const work = instance.object[method];
          if (work === undefined) throw new TypeError(`${durable.className} has no ${method}`);
          const value = await work.apply(instance.object, [...args]);
          resolve(value);
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        } finally {
          done();
        }
      });
    });
  }

  #instanceOf(durable: Durable, byAlarm: boolean): Instance {
    if (durable.instance !== undefined) return durable.instance;
    const type = this.#classes.get(durable.className);
    if (type === undefined || this.#env === undefined)
      throw new Error(`no class ${durable.className}`);
    const generation = ++durable.generation;
    const label = `${durable.className}/${durable.name}#${generation}`;
    const process = new Process(label, new Dice(`${this.#seed}/${label}`));
    // An alarm may start an object without its name.
    const named = !byAlarm || durable.dice.chance(0.5) || durable.className !== "RfqBook";
    const made: { instance?: Instance } = {};
    const ctx = asState(this.#state(durable, () => made.instance, named));
    const env = this.#env;
    const object = methodsOf(this.#time.runAs(process, () => new type(ctx, env)));
    const instance: Instance = { process, object, callers: new Set(), busy: 0 };
    made.instance = instance;
    durable.instance = instance;
    return instance;
  }

  /** `DurableObjectState`, as far as the service uses it. */
  #state(durable: Durable, self: () => Instance | undefined, named: boolean): object {
    const isCurrent = () => self() === undefined || durable.instance === self();
    const storage = <T>(work: () => T): T => {
      if (!isCurrent()) throw new Error(RESET);
      return work();
    };
    return {
      id: { name: named ? durable.name : undefined },
      storage: {
        kv: {
          get: (key: string) => storage(() => durable.stored.get(key)),
          put: (key: string, value: unknown) => storage(() => void durable.stored.set(key, value)),
          delete: (key: string) => storage(() => durable.stored.delete(key)),
          list: ({ prefix }: { prefix: string }) =>
            storage(() => listed(durable.stored, { prefix, limit: Number.POSITIVE_INFINITY })),
        },
        sql: {
          exec: (text: string, ...params: SQLInputValue[]) =>
            storage(() => {
              durable.tables ??= new DatabaseSync(":memory:");
              const rows = durable.tables.prepare(text).all(...params);
              const one = () => {
                const [row, ...more] = rows;
                if (row === undefined || more.length > 0) throw new Error("not one row");
                return row;
              };
              return { toArray: () => rows, one };
            }),
        },
        transactionSync: <T>(work: () => T) =>
          storage(() => {
            const tables = (durable.tables ??= new DatabaseSync(":memory:"));
            tables.exec("BEGIN");
            try {
              return work();
            } catch (error) {
              tables.exec("ROLLBACK");
              throw error;
            } finally {
              if (tables.isTransaction) tables.exec("COMMIT");
            }
          }),
        get: async (key: string) => storage(() => durable.stored.get(key)),
        put: async (key: string | Record<string, unknown>, value?: unknown) =>
          storage(() => {
            if (typeof key === "string") durable.stored.set(key, value);
            else for (const [name, one] of Object.entries(key)) durable.stored.set(name, one);
          }),
        delete: async (keys: string | readonly string[]) =>
          storage(() => {
            for (const key of [keys].flat()) durable.stored.delete(key);
          }),
        list: async (options: { prefix: string; limit: number; startAfter?: string }) =>
          storage(() => listed(durable.stored, options)),
        getAlarm: async () => storage(() => durable.alarm),
        setAlarm: async (at: number) => storage(() => this.#setAlarm(durable, at)),
      },
      waitUntil: (work: Promise<unknown>) => {
        const instance = self();
        if (instance !== undefined) instance.busy++;
        work.catch(ignore).finally(() => {
          if (instance !== undefined) instance.busy--;
        });
      },
      acceptWebSocket: (socket: ServerSocket, tags: readonly string[]) => {
        if (!isCurrent()) throw new Error(RESET);
        socket.tags = tags;
        socket.onClosed = (closed, code) => this.#closed(durable, closed, code);
        durable.sockets.push(socket);
      },
      getWebSockets: (tag?: string) =>
        isCurrent()
          ? durable.sockets.filter(({ tags }) => tag === undefined || tags.includes(tag))
          : [],
      setWebSocketAutoResponse: (pair: unknown) => {
        if (isCurrent()) durable.pong = pair;
      },
      getWebSocketAutoResponse: () => durable.pong,
      // Clients send no pings, so armed sockets end by their silence.
      getWebSocketAutoResponseTimestamp: () => null,
    };
  }

  #closed(durable: Durable, socket: ServerSocket, code: number): void {
    this.#execute(durable, "webSocketClose", [socket, code]).catch(ignore);
    // Listed until the handler has run its first turn, as a closing socket is.
    durable.sockets = durable.sockets.filter((open) => open !== socket);
  }

  #setAlarm(durable: Durable, at: number): void {
    durable.alarm = at;
    const number = ++durable.alarmNumber;
    const { late, networkLoss } = this.weather;
    const delay = durable.dice.chance(late) ? durable.dice.between(0, 10_000) : 0;
    this.#time.after(at - this.#time.now + delay + durable.dice.between(0, 5), () => {
      if (durable.alarmNumber !== number) return;
      this.#deliverAlarm(durable, 0);
      if (durable.dice.chance(networkLoss)) this.#deliverAlarm(durable, ALARM_RETRIES);
    });
  }

  #deliverAlarm(durable: Durable, attempt: number): void {
    // The runtime delivers no second alarm while one runs.
    if (durable.alarmRunsSince !== undefined) {
      this.#time.after(50, () => this.#deliverAlarm(durable, attempt));
      return;
    }
    if (durable.alarm !== null && durable.alarm <= this.#time.now) durable.alarm = null;
    durable.alarmRunsSince = this.#time.now;
    const ended = () => {
      const took = this.#time.now - (durable.alarmRunsSince ?? this.#time.now);
      durable.alarmRunsSince = undefined;
      this.onAlarm(`${durable.className}/${durable.name}`, took);
    };
    this.#execute(durable, "alarm", []).then(ended, () => {
      ended();
      if (attempt < ALARM_RETRIES && durable.alarm === null)
        this.#time.after(2_000 * 2 ** attempt, () => {
          if (durable.alarm === null) this.#deliverAlarm(durable, attempt + 1);
        });
    });
  }

  /** Alarms that run now, with the time since they began. */
  alarmsRunning(): { readonly what: string; readonly forMs: number }[] {
    return [...this.#durables].flatMap(([what, { alarmRunsSince: since }]) =>
      since === undefined ? [] : [{ what, forMs: this.#time.now - since }],
    );
  }
}

function breakSockets(durable: Durable): void {
  const { sockets } = durable;
  durable.sockets = [];
  // The runtime keeps it as long as the sockets.
  durable.pong = null;
  for (const socket of sockets) socket.break();
}

function listed(
  stored: ReadonlyMap<string, unknown>,
  { prefix, limit, startAfter = "" }: { prefix: string; limit: number; startAfter?: string },
): Map<string, unknown> {
  const keys = [...stored.keys()].filter((key) => key.startsWith(prefix) && key > startAfter);
  return new Map(
    keys
      .toSorted()
      .slice(0, limit)
      .map((key) => [key, stored.get(key)]),
  );
}

/** Safe cast: a missing member fails its first use. */
function asState(state: object): DurableObjectState {
  return state as DurableObjectState;
}

/** Safe cast: the service calls only methods of its objects. */
function methodsOf(object: object): Methods {
  return object as Methods;
}

/** Classes and extra fields of an error do not cross a call. */
function plainError(error: unknown): Error {
  return new Error(error instanceof Error ? error.message : String(error));
}

function ignore(): void {}
