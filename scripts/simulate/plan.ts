/**
 * The steps of a seed. Each has its own dice, so that removing one leaves the choices of the others
 * as they are, and a failing list can be cut.
 */
import { Dice } from "../actors/dice.ts";
import { WEATHER_WEIGHTS } from "./weather.ts";

const ACTIONS = {
  open_request: 170,
  place_quote: 330,
  accept: 150,
  cancel_quote: 80,
  cancel_request: 30,
  set_accept_price: 40,
  cancel_quotes: 12,
  several_quotes: 40,
  save_protection: 24,
  reset_protection: 16,
  cancel_after: 24,
  repeat: 60,
  subscribe: 80,
  unsubscribe: 50,
  restart: 12,
  restart_custody: 5,
  hibernate: 14,
  split: 5,
  kill_worker: 8,
  freeze: 4,
  unfreeze: 8,
  revoke_key: 2,
  end_sessions: 2,
  pause_venue: 1,
  resume_venue: 4,
  outage: 5,
  deposit: 25,
  withdraw: 25,
  approve: 24,
  new_address: 2,
  fail: 3,
  retry: 2,
  pause_withdrawals: 1,
  resume_withdrawals: 5,
  reorganise: 6,
  node_away: 6,
  evict: 3,
  pause_vault: 1,
  read_ledger: 40,
  archive_away: 3,
  archive_lies: 4,
  archive_damage: 8,
} as const;

type Action = keyof typeof ACTIONS;
type StepKind = Action | "weather" | "quiet";

export type Step = {
  /** Its place in the whole plan. */
  readonly index: number;
  readonly kind: StepKind;
  /** Milliseconds before it. */
  readonly waitMs: number;
  readonly weather: string;
};

/** Steps between two quiet points. */
const PHASE = 800;
/** Mean milliseconds between two steps of a phase. */
const PACES = [2, 20, 100];
/** Actions that stop makers from quoting. Half of the phases have none, so that more is traded. */
const SAFEGUARDS: ReadonlySet<Action> = new Set([
  "save_protection",
  "reset_protection",
  "cancel_after",
]);
/** Actions that disturb. A phase in clear weather has none of them. */
const DISTURBANCES: ReadonlySet<Action> = new Set([
  "restart",
  "restart_custody",
  "split",
  "kill_worker",
  "outage",
]);

/** `steps` actions, and after each phase a quiet point. */
export function planOf(seed: string, steps: number, phaseSteps = PHASE): Step[] {
  const plan: Step[] = [];
  const add = (kind: StepKind, waitMs: number, weather: string) =>
    plan.push({ index: plan.length, kind, waitMs, weather });
  for (let done = 0, phase = 0; done < steps; phase++) {
    const dice = new Dice(`${seed}/phase/${phase}`);
    const weather = dice.weighted(WEATHER_WEIGHTS);
    const calm = weather === "clear" || weather === "slow";
    const guarded = dice.chance(0.5);
    // In slow weather a book is never idle, so work that waits for idleness shows.
    const pace = weather === "slow" ? 40 : dice.pick(PACES);
    add("weather", 0, weather);
    for (let count = 0; count < phaseSteps && done < steps; count++, done++) {
      let action = dice.weighted(ACTIONS);
      if ((calm && DISTURBANCES.has(action)) || (!guarded && SAFEGUARDS.has(action)))
        action = "place_quote";
      add(action, dice.between(0, 2 * pace), weather);
    }
    add("quiet", 0, "clear");
  }
  return plan;
}
