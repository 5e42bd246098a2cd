import { formatChance, formatPoints } from "../units.ts";

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
