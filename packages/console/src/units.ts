/** Text of amounts and prices as the console shows and reads them. No float holds an amount. */
import { formatUnits as plain, parseUnits as exact } from "@rfq-custody/client";

const ONE = 1_000_000n;

/** `1234500000n` as `1,234.50`: at least two decimals, no more than needed. */
export function formatUnits(amount: bigint): string {
  const [whole = "", decimals = ""] = plain(amount).replace("-", "−").split(".");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${decimals.padEnd(2, "0")}`;
}

/** Native units of a text such as `1,234.5`, or null if it is no amount above zero. */
export function parseUnits(text: string): bigint | null {
  try {
    const amount = exact(text.trim().replaceAll(",", ""));
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

/** The size of a request, which is in tokens or in USDC. */
export function sizeOf({ amount, usdc_amount }: { amount?: bigint; usdc_amount?: bigint }): string {
  if (amount !== undefined) return formatUnits(amount);
  return usdc_amount === undefined ? "–" : `${formatUnits(usdc_amount)} USDC`;
}

export function shortId(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

export function formatTime(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
