import type { Position } from "@rfq-custody/client";
import type { ReactNode } from "react";
import { formatChance, formatPoints, formatUnits } from "../units.ts";

/** A price as a chance, for example 63.4%. */
export function Chance({ price }: { price: number }) {
  return <>{formatChance(price)}</>;
}

/** A change in points with its sign, in words too. */
export function Change({ change }: { change: number }) {
  if (change === 0) return <span className="muted">unchanged</span>;
  const up = change > 0;
  return (
    <span className={up ? "up" : "down"}>
      <span aria-hidden="true">{up ? "▲" : "▼"}</span>
      <span className="sr">{up ? "up" : "down"}</span> {formatPoints(Math.abs(change))}
    </span>
  );
}

/** What the sales of a position have won or lost, in USDC. Empty without one. */
export function resultOf({ realized, sold }: Position): ReactNode {
  if (realized === null || sold === 0n) return "";
  return (
    <span className={realized < 0n ? "down" : "up"}>
      {realized > 0n ? "+" : ""}
      {formatUnits(realized)}
    </span>
  );
}
