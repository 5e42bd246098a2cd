/** Request fields of what can be held and traded, as they are written on the wire (contract.md section 1). */
import { field, oneOf, textField } from "../http/fields.ts";
import { parseAddress } from "./address.ts";
import { parseJsonInteger, parseU256 } from "./amount.ts";
import { canonicalAssetId } from "./asset.ts";
import { VENUES } from "../platform/venues.ts";

const U256_FORMS =
  "must be a non-negative integer up to 2^256-1, as decimal text, 0x hex text or a JSON number";

/** No pattern says "below 2^256" in decimal; the description of a pattern that ends at 77 digits does. */
const LARGEST = "; up to 2^256-1, also where that takes 78 decimal digits";

const U256_DOCUMENTED: { type: ("string" | "integer")[]; examples: string[] } = {
  type: ["string", "integer"],
  examples: ["1000000", "0xf4240"],
};

export const u256 = field(parseU256, U256_FORMS, {
  ...U256_DOCUMENTED,
  minimum: 0,
  pattern: "^(0*[0-9]{1,77}|0x0*[0-9a-fA-F]{1,64})$",
  description: `U256: decimal string, 0x hex string, or JSON integer${LARGEST}`,
});

/** An amount that something is asked for: at least one native unit. */
export const positiveU256 = field(
  (text, source) => {
    const amount = parseU256(text, source);
    return amount === 0n ? undefined : amount;
  },
  U256_FORMS.replace("a non-negative", "a positive"),
  {
    ...U256_DOCUMENTED,
    minimum: 1,
    pattern: "^(0*[1-9][0-9]{0,76}|0x0*[1-9a-fA-F][0-9a-fA-F]{0,63})$",
    description: `U256 of at least 1: decimal string, 0x hex string, or JSON integer${LARGEST}`,
  },
);

/** Non-negative decimal native units, as the ledger's filters take them. */
export const decimalUnits = textField(
  (text) => {
    return /^\d+$/.test(text) ? parseU256(text, "query") : undefined;
  },
  "must be a decimal integer from 0 to 2^256-1",
  { type: "string", pattern: "^0*[0-9]{1,77}$", description: `Native units, decimal${LARGEST}` },
);

const PRICE_MAX = 1_000_000;

/** Scaled by 1e6: 650000 is 0.65. */
export const price = field(
  (text, source) => {
    const value =
      source === "number"
        ? parseJsonInteger(text)
        : /^\d{1,7}$/.test(text)
          ? BigInt(text)
          : undefined;
    return value !== undefined && value >= 1n && value <= BigInt(PRICE_MAX)
      ? Number(value)
      : undefined;
  },
  `must be an integer from 1 to ${PRICE_MAX}`,
  {
    type: ["integer", "string"],
    minimum: 1,
    maximum: PRICE_MAX,
    pattern: "^([1-9][0-9]{0,5}|1000000)$",
    description: "Price scaled by 1e6: 650000 is 0.65",
  },
);

/** In canonical form: minimal lower-case hex. */
export const assetId = textField(canonicalAssetId, "must be 0x and 1 to 64 hex digits", {
  type: "string",
  pattern: "^0x[0-9a-fA-F]{1,64}$",
  description: "An outcome token of its venue; leading zeros and case do not matter",
});

/** In EIP-55 form. */
export const address = textField(
  parseAddress,
  "must be 0x and 40 hex digits, with a valid EIP-55 checksum if of mixed case",
  {
    type: "string",
    pattern: "^0x[0-9a-fA-F]{40}$",
    description: "Of mixed case, it must pass the EIP-55 checksum",
  },
);

export const venueField = oneOf(VENUES);
const SIDES = ["Bid", "Ask"] as const;
export type Side = (typeof SIDES)[number];
export const sideField = oneOf(SIDES);
