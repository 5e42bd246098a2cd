/** What GET /status says of each component: its worst open alert, or a pause. */
import type { AlertKind } from "../platform/alert-kinds.ts";
import type { KILL_SWITCHES } from "../platform/kill-switches.ts";

export const COMPONENTS = ["trading", "deposits", "withdrawals"] as const;
type Component = (typeof COMPONENTS)[number];
export type ComponentStatus = Readonly<Record<Component, "ok" | "slow" | "paused">>;
type Shown = { readonly [Name in Component]?: "slow" | "paused" };

const SLOW_CHAIN = { deposits: "slow", withdrawals: "slow" } as const;
const SLOW_PAYMENT = { withdrawals: "slow" } as const;

/** Kinds whose effect every user sees anyway. Others are hidden from thieves, who read the page. */
const ALERTS_SHOWN: { readonly [Kind in AlertKind]?: Shown } = {
  clock_ahead: { trading: "paused" },
  chain_unreachable: SLOW_CHAIN,
  finality_stalled: SLOW_CHAIN,
  nodes_disagree: SLOW_CHAIN,
  chain_halted: { deposits: "paused", withdrawals: "paused" },
  payer_halted: { withdrawals: "paused" },
  vault_paused: { withdrawals: "paused" },
  payer_failing: SLOW_PAYMENT,
  node_refused: SLOW_PAYMENT,
  fee_ceiling: SLOW_PAYMENT,
  limit_reached: SLOW_PAYMENT,
  payment_refused: SLOW_PAYMENT,
  token_refuses: SLOW_PAYMENT,
  withdrawal_late: SLOW_PAYMENT,
};
const SHOWN: ReadonlyMap<string, Shown> = new Map(Object.entries(ALERTS_SHOWN));

const SWITCHES: Readonly<Record<(typeof KILL_SWITCHES)[number], Shown>> = {
  withdrawals_paused: { withdrawals: "paused" },
  storage_full: { trading: "paused" },
};
const SWITCHES_SHOWN: ReadonlyMap<string, Shown> = new Map(Object.entries(SWITCHES));

export function componentStatus(seen: {
  readonly alerts: readonly string[];
  readonly switches: readonly string[];
  /** Whether all venues are paused. GET /config names those that are. */
  readonly venuesPaused: boolean;
  /** Whether a chain has not moved for minutes, for which there is no alert yet. */
  readonly chainsStill: boolean;
}): ComponentStatus {
  const shown: readonly (Shown | undefined)[] = [
    ...seen.alerts.map((kind) => SHOWN.get(kind)),
    ...seen.switches.map((name) => SWITCHES_SHOWN.get(name)),
    seen.venuesPaused ? { trading: "paused" } : undefined,
    seen.chainsStill ? SLOW_CHAIN : undefined,
  ];
  const worst = (component: Component) => {
    const all = shown.map((of) => of?.[component]);
    if (all.includes("paused")) return "paused";
    return all.includes("slow") ? "slow" : "ok";
  };
  return {
    trading: worst("trading"),
    deposits: worst("deposits"),
    withdrawals: worst("withdrawals"),
  };
}
