/** How badly D1 and the network behave. Steps change it; a quiet point sets it to clear. */
import type { Dice } from "../actors/dice.ts";

export type Weather = {
  readonly name: string;
  /** Milliseconds that one way to D1 takes. */
  readonly database: readonly [number, number];
  /** Milliseconds that one way between Worker and object takes. */
  readonly network: readonly [number, number];
  /** Probability that a call to D1 loses its request or its answer. */
  readonly databaseLoss: number;
  /** Probability that a call between Worker and object loses its request or its answer. */
  readonly networkLoss: number;
  /** Probability that a call takes seconds. */
  readonly late: number;
};

export const CLEAR: Weather = {
  name: "clear",
  database: [1, 8],
  network: [0, 2],
  databaseLoss: 0,
  networkLoss: 0,
  late: 0,
};

export const WEATHERS: Readonly<Record<string, Weather>> = {
  clear: CLEAR,
  jitter: { ...CLEAR, name: "jitter", database: [1, 60], network: [0, 40], late: 0.01 },
  lossy: { ...CLEAR, name: "lossy", databaseLoss: 0.03, networkLoss: 0.02, late: 0.005 },
  slow: { ...CLEAR, name: "slow", database: [300, 500] },
  storm: {
    name: "storm",
    database: [1, 200],
    network: [0, 100],
    databaseLoss: 0.1,
    networkLoss: 0.08,
    late: 0.03,
  },
};

export const WEATHER_WEIGHTS = { clear: 3, jitter: 4, lossy: 4, slow: 2, storm: 2 };

/** The fate of one call: which half is lost, and how long both ways take. */
export type Fate = {
  readonly lost: "nothing" | "request" | "answer";
  readonly there: number;
  readonly back: number;
};

/** Longest delay of a late call. Quiet points last longer. */
const LATE_MS = 20_000;

/** Of a call to D1, or between a Worker and an object. `way` if the call goes elsewhere. */
export function fateOf(
  dice: Dice,
  weather: Weather,
  to: "database" | "network",
  way = weather[to],
): Fate {
  const { [`${to}Loss` as const]: loss, late } = weather;
  const there = dice.between(...way);
  const back = dice.between(...way);
  if (loss === 0 && late === 0) return { lost: "nothing", there, back };
  const draw = dice.next();
  const delay = dice.chance(late) ? dice.between(100, LATE_MS) : 0;
  if (draw >= loss) return { lost: "nothing", there: there + delay, back };
  const lost = draw < loss / 2 ? "request" : "answer";
  return { lost, there: there + delay, back: dice.between(1, 3_000) };
}
