import { useSyncExternalStore } from "react";
import { formatTime, relative } from "../units.ts";
import { clockNow, everyQuarterSecond, secondNow } from "./countdown.tsx";

/** How long ago or in how long. The exact instant is in the title and in the accessible text. */
export function When({ at }: { at: string }) {
  // Renders again only when the text changes.
  const text = useSyncExternalStore(everyQuarterSecond, () => relative(at, secondNow()));
  return (
    <time dateTime={at} title={formatTime(at)}>
      {text}
      <span className="sr">, {formatTime(at)}</span>
    </time>
  );
}

/** As `relative`, without following the clock. */
export function until(at: string): string {
  return relative(at, clockNow());
}
