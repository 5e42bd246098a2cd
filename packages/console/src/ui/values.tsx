/** How amounts, prices, assets and times are shown. */
import { type ReactNode, useState, useSyncExternalStore } from "react";
import { type Asset, useNames } from "../names.ts";
import { marketHref } from "../router.ts";
import {
  formatPrice,
  formatSigned,
  formatTime,
  formatTokens,
  formatUnits,
  relative,
  roughPrice,
  shortId,
  tenths,
  toCent,
} from "../units.ts";
import { clockNow, everyQuarterSecond, secondNow } from "./clock.ts";

/** What an asset is called, a market's outcome beneath its title. With a link to its page. */
export function AssetName({ asset }: { asset: Asset }) {
  const { title, outcome } = useNames()(asset);
  const { venue_id, asset_id } = asset;
  const name = (
    <>
      <b>{title}</b> <small className="sub">{outcome}</small>
    </>
  );
  if (venue_id === null || asset_id === null) return name;
  return (
    <a className="asset" href={marketHref({ venue_id, asset_id })}>
      {name}
    </a>
  );
}

/** An amount to the cent, with the exact one in its title. Empty for nothing. */
export function tokensOf(amount: bigint | null | undefined): ReactNode {
  return rounded(amount, formatTokens);
}

/** As `tokensOf`, with two decimals at least. */
export function usdcOf(amount: bigint | null | undefined): ReactNode {
  return rounded(amount, formatUnits);
}

function rounded(amount: bigint | null | undefined, format: (amount: bigint) => string) {
  if (amount === null || amount === undefined || amount === 0n) return "";
  return <span title={format(amount)}>{format(toCent(amount))}</span>;
}

/** A change in points with its sign, in words too. */
export function Change({ change }: { change: number }) {
  if (change === 0) return <span className="muted">unchanged</span>;
  const up = change > 0;
  return (
    <span className={up ? "up" : "down"}>
      <span aria-hidden="true">{up ? "▲" : "▼"}</span>
      <span className="sr">{up ? "up" : "down"}</span> {tenths(Math.abs(change))}
    </span>
  );
}

/** Money won or lost, with the share of `paid` that it is. Empty for null. */
export function Result({ result, paid }: { result: bigint | null; paid?: bigint }) {
  if (result === null) return null;
  const share = paid === undefined || paid === 0n ? null : Number((result * 1_000n) / paid) / 10;
  return (
    <span
      className={result < 0n ? "down" : result > 0n ? "up" : "muted"}
      title={formatSigned(result)}
    >
      <b>{formatSigned(toCent(result))}</b>
      {share === null ? null : (
        <small>
          {" "}
          {share > 0 ? "+" : share < 0 ? "−" : ""}
          {Math.abs(share).toFixed(1)}%
        </small>
      )}
    </span>
  );
}

/** A price to a hundredth of a cent, with the exact one in its title. */
export function Price({ price }: { price: number }) {
  return <span title={formatPrice(price)}>{roughPrice(price)}</span>;
}

/** An id, address or hash: its ends, or all of it with `whole`. A press copies it. */
export function Id({ id, whole = false }: { id: string; whole?: boolean }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="id"
      title={id}
      onClick={() => void navigator.clipboard.writeText(id).then(() => setCopied(true))}
      onBlur={() => setCopied(false)}
    >
      <span className="sr">Copy </span>
      <code>{whole ? id : shortId(id)}</code>
      <span role="status">{isCopied ? " copied" : ""}</span>
    </button>
  );
}

export function Countdown({ until }: { until: string }) {
  // Renders again only when the number changes.
  const left = useSyncExternalStore(everyQuarterSecond, () => secondsTo(until));
  if (left === 0) return <span className="muted">over</span>;
  const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  return <span className={left <= 5 ? "soon" : ""}>{text}</span>;
}

/** Zero at its end, and at least one before. */
function secondsTo(until: string): number {
  const end = Date.parse(until);
  return end <= clockNow() ? 0 : Math.max(1, Math.floor((end - secondNow()) / 1_000));
}

/** A ring that drains for as long as the quote lives, amber in its last ten seconds. */
export function Ring({ from, until }: { from: string; until: string }) {
  const secs = useSyncExternalStore(everyQuarterSecond, () => secondsTo(until));
  const life = Date.parse(until) - Date.parse(from);
  const share = Math.min(1, (secs * 1_000) / Math.max(1_000, life));
  return (
    <svg
      className={secs <= 10 ? "ring low" : "ring"}
      viewBox="0 0 48 48"
      width="48"
      height="48"
      role="img"
      aria-label={`${secs} seconds left`}
    >
      <circle cx="24" cy="24" r="21" />
      <circle
        className="left"
        cx="24"
        cy="24"
        r="21"
        pathLength="100"
        strokeDasharray={`${(share * 100).toFixed(1)} 100`}
        transform="rotate(-90 24 24)"
      />
      <text x="24" y="29" textAnchor="middle">
        {secs}
      </text>
    </svg>
  );
}

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
export function fromNow(at: string): string {
  return relative(at, clockNow());
}
