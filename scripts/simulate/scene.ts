/** What the parts of the simulated world share. */
import type { Dice } from "../actors/dice.ts";
import type { Calls } from "./calls.ts";
import type { Credentials } from "./credentials.ts";
import type { Database } from "./database.ts";
import type { People } from "./people.ts";
import type { Violation } from "./violation.ts";
import type { Process, VirtualTime } from "./virtual-time.ts";

export type Scene = {
  readonly time: VirtualTime;
  readonly seed: string;
  readonly env: Env;
  readonly database: Database;
  readonly people: People;
  readonly calls: Calls;
  readonly credentials: Credentials;
  /** Runs work in a process of its own, which a step can kill. */
  readonly start: (name: string, dice: Dice, work: () => Promise<void>) => Process;
  /** The same, and runs the events until the work has ended. */
  readonly finish: (name: string, dice: Dice, work: () => Promise<void>) => Promise<void>;
  readonly fail: (violation: Violation) => void;
};
