/** Text of amounts and prices as the console shows and reads them. No float holds an amount. */
import { formatUnits as plain, parseUnits as exact } from "@rfq-custody/client";

/** `1234500000n` as `1234.5`: every digit, for programs. */
export { plain as exactUnits };

const ONE = 1_000_000n;
/** Of numbers and dates alike. `parseUnits` reads what it writes. */
export const LOCALE = "en-GB";
const NUMBER = new Intl.NumberFormat(LOCALE, {
  minimumFractionDigits: 2,
  maximumFractionDigits: 6,
});

/** `1234500000n` as `1,234.50`: at least two decimals, no more than needed. */
export function formatUnits(amount: bigint): string {
  // Safe cast: a decimal number, of which a string keeps every digit.
  return NUMBER.format(plain(amount) as `${number}`).replace("-", "−");
}

/** As `formatUnits`, with the sign of a gain too. */
export function formatSigned(amount: bigint): string {
  return `${amount > 0n ? "+" : ""}${formatUnits(amount)}`;
}

/** As `formatUnits` without useless zeros: `1234500000n` as `1,234.5`. */
export function formatTokens(amount: bigint): string {
  return formatUnits(amount).replace(/\.?0+$/, "");
}

const CENT = 10_000n;

/** To the cent, rounded down, for where the exact amount is elsewhere. Less than a cent stays. */
export function toCent(amount: bigint): bigint {
  const rest = amount % CENT;
  return rest === amount ? amount : amount - rest;
}

/** To the cent, rounded up, for what somebody pays. */
export function upToCent(amount: bigint): bigint {
  return ((amount + CENT - 1n) / CENT) * CENT;
}

/** `842310000000n` as `842k`: for volumes, where the digits say nothing. */
export function compactUnits(amount: bigint): string {
  const whole = amount / ONE;
  for (const [size, unit] of [
    [1_000_000n, "M"],
    [1_000n, "k"],
  ] as const)
    if (whole >= 10n * size) return `${whole / size}${unit}`;
    else if (whole >= size) return `${whole / size}.${((whole % size) * 10n) / size}${unit}`;
  return whole > 0n ? String(whole) : "under 1";
}

/** A price in millionths as a chance: `634000` is `63.4%`. */
export function formatChance(price: number): string {
  return `${tenths(price)}%`;
}

/** As `formatPrice`, to a hundredth of a cent: for prices that nobody accepts. Empty for none. */
export function roughPrice(price: number | null): string {
  return price === null ? "" : formatPrice(Math.round(price / 100) * 100);
}

/** As `formatChance` without its sign: `41000` is `4.1`. */
export function tenths(price: number): string {
  const rounded = Math.round(price / 1_000);
  return `${Math.floor(rounded / 10)}.${rounded % 10}`;
}

/** Commas only before three digits, because `1,5` is not fifteen. */
const AMOUNT = /^(\d{1,3}(,\d{3})+|\d+)(\.\d{1,6})?$/;

/** Native units of a text such as `1,234.5`, or null if it is no amount above zero. */
export function parseUnits(text: string): bigint | null {
  const given = text.trim();
  if (!AMOUNT.test(given)) return null;
  try {
    const amount = exact(given.replaceAll(",", ""));
    return amount > 0n ? amount : null;
  } catch {
    return null;
  }
}

/** A price in millionths of a USDC as cents: `650000` is `65.00¢`. */
export function formatPrice(price: number): string {
  const decimals = String(price % 10_000)
    .padStart(4, "0")
    .replace(/0{1,2}$/, "");
  return `${Math.floor(price / 10_000)}.${decimals}¢`;
}

/** As `formatPrice` for columns, without the sign: `642000` is `64.2`. */
export function formatCents(price: number): string {
  return price % 1_000 === 0 ? tenths(price) : formatPrice(price).slice(0, -1);
}

/** Millionths of a USDC from cents such as `65` or `65.25`, or null outside 0.0001 to 100. */
export function parsePrice(text: string): number | null {
  const match = /^(\d{1,3})(?:\.(\d{1,4}))?$/.exec(text.trim().replace("¢", ""));
  if (match === null) return null;
  const price = Number(match[1]) * 10_000 + Number((match[2] ?? "").padEnd(4, "0"));
  return price >= 1 && price <= 1_000_000 ? price : null;
}

/** USDC that `amount` tokens are worth at `price`, rounded up as the service does. */
export function worth(amount: bigint, price: number): bigint {
  return (amount * BigInt(price) + ONE - 1n) / ONE;
}

/** Tokens that `usdc` buys at `price`, rounded down. */
export function tokensFor(usdc: bigint, price: number): bigint {
  return (usdc * ONE) / BigInt(price);
}

/** The size of a request, which is in tokens or in USDC. */
export function sizeOf({ amount, usdc_amount }: { amount?: bigint; usdc_amount?: bigint }): string {
  return amount === undefined ? `${formatTokens(usdc_amount ?? 0n)} USDC` : formatTokens(amount);
}

/** What tells an asset from others, or from USDC, whose ids are null. */
export function assetKey(asset: Readonly<Record<"venue_id" | "asset_id", string | null>>): string {
  return `${asset.venue_id} ${asset.asset_id}`;
}

export function shortId(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

// Kept, because making one takes longer than rendering a row.
const TIME = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });
const DATE = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium" });

/** The last instant of a minute of local time, as a field of minutes names it. */
export function endOfMinute(minute: string): Date {
  return new Date(new Date(minute).getTime() + 59_999);
}

export function formatTime(at: string): string {
  return TIME.format(Date.parse(at));
}

const STEPS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
] as const;
/** Older instants are dates. */
const DAYS = 7;

/** `at` as seen from `now`: `12 s ago`, `in 3 h`, or a date. */
export function relative(at: string, now: number): string {
  const secs = Math.round((Date.parse(at) - now) / 1_000);
  const size = Math.abs(secs);
  if (size >= DAYS * 86_400) return DATE.format(Date.parse(at));
  const [length, unit] = STEPS.find(([step]) => size >= step) ?? [1, "s"];
  const text = `${Math.floor(size / length)} ${unit}`;
  return secs > 0 ? `in ${text}` : `${text} ago`;
}
