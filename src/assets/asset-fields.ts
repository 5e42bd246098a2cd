/** Fields for assets, amounts, prices and addresses on the wire (contract.md section 1). */
import * as z from "zod";
import { described, field, oneOf, pattern, textField } from "../http/fields.ts";
import { parseAddress } from "./address.ts";
import { parseJsonInteger } from "../http/json.ts";
import { parseU256, U256_MAX } from "./amount.ts";
import { canonicalAssetId } from "./asset.ts";
import { MAX_NATIVE_UNITS } from "../platform/sql.ts";
import { VENUE_ID } from "../platform/venues.ts";

/** The patterns allow 77 decimal digits, because none can express "at most 2^256-1". */
const LARGEST = ". At most 2^256-1, although the pattern excludes numbers of 78 decimal digits.";

/** An amount within bounds. Generated clients need one type a field. A JSON integer is valid too. */
function amountField(
  { least = 0n, most = U256_MAX }: { readonly least?: bigint; readonly most?: bigint },
  rule: string,
  documented: { pattern: string; description: string; type?: ("string" | "null")[] },
) {
  return field(
    (text, source) => {
      const amount = parseU256(text, source);
      return amount !== undefined && amount >= least && amount <= most ? amount : undefined;
    },
    `must be ${rule}, as decimal text, 0x hex text or a JSON number`,
    { type: "string", examples: ["1000000", "0xf4240"], ...documented },
  );
}

export const u256 = amountField({}, "a non-negative integer up to 2^256-1", {
  pattern: "^(0*[0-9]{1,77}|0x0*[0-9a-fA-F]{1,64})$",
  description: `U256: decimal string, 0x hex string or JSON integer${LARGEST}`,
});

export const positiveU256 = amountField({ least: 1n }, "a positive integer up to 2^256-1", {
  pattern: "^(0*[1-9][0-9]{0,76}|0x0*[1-9a-fA-F][0-9a-fA-F]{0,63})$",
  description: `U256 of at least 1: decimal string, 0x hex string or JSON integer${LARGEST}`,
});

/** The largest limit on USDC of a user. Sums are compared with it as doubles, exact up to here. */
const MAX_USDC_LIMIT = BigInt(Number.MAX_SAFE_INTEGER);

/** A limit that a user sets on amounts of USDC, in native units. Its fields are nullable. */
export const usdcLimit = amountField({ most: MAX_USDC_LIMIT }, "an integer from 0 to 2^53-1", {
  type: ["string", "null"],
  pattern: "^(0*[0-9]{1,15}|0x0*[0-9a-fA-F]{1,13})$",
  description: "Native units of USDC, up to 2^53-1",
});

/** An amount of USDC that a balance can hold. */
export const positiveUsdc = amountField(
  { least: 1n, most: MAX_NATIVE_UNITS },
  "a positive integer up to 2^62",
  {
    pattern: "^(0*[1-9][0-9]{0,18}|0x0*[1-9a-fA-F][0-9a-fA-F]{0,15})$",
    description: "Native units of USDC from 1 to 2^62: decimal string, 0x hex string or integer",
  },
);

/** Native units in decimal, for the filters of the ledger. */
export const decimalUnits = textField(
  (text) => (/^\d+$/.test(text) ? parseU256(text, "query") : undefined),
  "must be a decimal integer from 0 to 2^256-1",
  { type: "string", pattern: "^0*[0-9]{1,77}$", description: `Native units in decimal${LARGEST}` },
);

const PRICE_MAX = 1_000_000;

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
    // Decimal text is valid too, but generated clients need one type a field.
    type: "integer",
    minimum: 1,
    maximum: PRICE_MAX,
    description: "USDC for one token, scaled by 1e6: 650000 means 0.65",
  },
);

/** An asset id. Handlers receive its canonical form. */
export const assetId = textField(
  canonicalAssetId,
  "must be 0x followed by 1 to 64 hexadecimal digits",
  {
    type: "string",
    pattern: "^0x[0-9a-fA-F]{1,64}$",
    description: "Outcome token of the venue. Leading zeros and case are ignored.",
  },
);

/** Assets that a call or a socket chooses. Their ids fit into a socket's attachment of 16 KiB. */
export const MAX_ASSETS = 200;

/** Ids of assets of one venue. Handlers receive their canonical forms. */
export function assetList(description: string) {
  return textField(
    (text) => {
      const ids = text.split(",").map(canonicalAssetId);
      return ids.length <= MAX_ASSETS && ids.every((id) => id !== undefined) ? ids : undefined;
    },
    `must be 1 to ${MAX_ASSETS} asset ids, separated by commas`,
    {
      type: "string",
      pattern: "^0x[0-9a-fA-F]{1,64}(,0x[0-9a-fA-F]{1,64})*$",
      maxLength: 67 * MAX_ASSETS - 1,
      description: `${description}: 1 to ${MAX_ASSETS} ids, separated by commas`,
    },
  );
}

/** An address. Handlers receive its EIP-55 form. */
export const address = textField(
  parseAddress,
  "must be 0x followed by 40 hexadecimal digits; mixed case must pass the EIP-55 checksum",
  {
    type: "string",
    pattern: "^0x[0-9a-fA-F]{40}$",
    description: "Mixed case must pass the EIP-55 checksum",
  },
);

/** Whether the deployment serves the venue is checked where the settings are known. */
export const venueField = pattern(VENUE_ID, "must be a venue of GET /config").meta({
  description: "Venue of the asset, as in GET /config",
  examples: ["venue_one"],
});

export function venueOut(description: string) {
  return z
    .string()
    .regex(VENUE_ID)
    .meta({ description, examples: ["venue_one"] });
}

export const SIDES = ["Bid", "Ask"] as const;
export type Side = (typeof SIDES)[number];
export const REQUEST_SIDES = [...SIDES, "TwoWay"] as const;
export type RequestSide = (typeof REQUEST_SIDES)[number];
export const requestSideField = described(
  oneOf(REQUEST_SIDES),
  "Bid: you buy the asset. Ask: you sell it. TwoWay: makers quote either side.",
);
