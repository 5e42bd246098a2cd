/** Amounts and prices of the entrypoint's results as decimal text. */

/** Fields in USDC. The record may be of another asset. */
const USDC_FIELDS: ReadonlySet<string> = new Set([
  "usdc_amount",
  "fee",
  "taker_fee",
  "maker_fee",
  "held",
  "max_usdc_per_trade",
  "max_usdc_per_day",
]);
/** Fields in the asset of the record. */
const ASSET_FIELDS: ReadonlySet<string> = new Set([
  "amount",
  "balance",
  "pending_balance",
  "promised",
  "owed_to_users",
  "fees",
  "pairs",
  "losses",
  "issued",
  "holdings",
  "surplus",
]);
const PRICES: ReadonlySet<string> = new Set(["price", "best_price"]);
const DECIMALS = 6;

/** Larger numbers than a balance can hold stay as they are. */
export function isAmount(name: string, value: unknown): value is string {
  const named = USDC_FIELDS.has(name) || ASSET_FIELDS.has(name) || name.startsWith("issued_");
  return named && typeof value === "string" && /^-?0x[0-9a-f]{1,31}$/.test(value);
}

export function isPrice(name: string, value: unknown): value is number {
  return PRICES.has(name) && typeof value === "number";
}

export function amountText(name: string, value: string, record: Record<string, unknown>): string {
  const ofToken = !USDC_FIELDS.has(name) && typeof record["asset_id"] === "string";
  const units = value.startsWith("-") ? -BigInt(value.slice(1)) : BigInt(value);
  return `${decimal(units)} ${ofToken ? "tokens" : "USDC"}`;
}

export function priceText(price: number): string {
  return decimal(BigInt(price));
}

/** `1 234.5` for 1234500000 units. */
export function decimal(units: bigint): string {
  const digits = String(units < 0n ? -units : units).padStart(DECIMALS + 1, "0");
  const whole = digits.slice(0, -DECIMALS).replace(/\B(?=(\d{3})+$)/g, " ");
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, "");
  return `${units < 0n ? "-" : ""}${whole}${fraction === "" ? "" : `.${fraction}`}`;
}
