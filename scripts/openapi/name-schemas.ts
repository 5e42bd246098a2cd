/**
 * Gives the types that many operations share a name in `components`, so that a generated client has
 * one `Side` and one `Venue` instead of a copy for each field.
 */
import { REQUEST_SIDES, SIDES } from "../../src/assets/asset-fields.ts";
import { LISTED_DEPOSIT_STATUSES, WITHDRAWAL_STATUSES } from "../../src/custody/column-values.ts";
import { SCOPES } from "../../src/platform/actor.ts";
import { VENUE_ID } from "../../src/platform/venues.ts";
import { MARKET_STATUSES } from "../../src/rfq/markets/market.ts";
import { ROLES } from "../../src/rfq/schemas.ts";
import { CLOSE_REASONS, QUOTE_STATUSES, REQUEST_STATUSES } from "../../src/rfq/statuses.ts";
import type { JsonSchema } from "./examples.ts";

/** The sets of values that have a name, by their enum. */
const NAME_OF_ENUM: ReadonlyMap<string, string> = new Map(
  Object.entries({
    Scope: SCOPES,
    Side: SIDES,
    RequestSide: REQUEST_SIDES,
    RequestStatus: REQUEST_STATUSES,
    QuoteStatus: QUOTE_STATUSES,
    TradeRole: ROLES,
    MarketStatus: MARKET_STATUSES,
    CloseReason: CLOSE_REASONS,
    DepositStatus: LISTED_DEPOSIT_STATUSES,
    WithdrawalStatus: WITHDRAWAL_STATUSES,
  }).map(([name, values]) => [JSON.stringify(values), name]),
);
/** Named types whose rules differ from those of their fields. A venue is open to new values. */
const COMPLETE: Readonly<Record<string, JsonSchema>> = {
  Venue: {
    type: "string",
    pattern: VENUE_ID.source,
    description: "A venue. GET /config lists those of the deployment, and their number may grow.",
    examples: ["venue_one", "venue_two", "venue_three"],
  },
  AssetId: {
    type: "string",
    pattern: "^0x[0-9a-fA-F]{1,64}$",
    description:
      "Id of an outcome token in the ERC-1155 contract of its venue. Leading zeros and case are " +
      "ignored in requests.",
  },
  Price: {
    type: "integer",
    minimum: 1,
    maximum: 1_000_000,
    description: "USDC for one token, scaled by 1e6: 650000 means 0.65",
  },
  Amount: {
    type: "string",
    pattern: "^0x(0|[1-9a-f][0-9a-f]{0,63})$",
    description: "Native units as canonical hexadecimal. USDC and outcome tokens have 6 decimals.",
  },
};
/** The text types that have a name, by their pattern. */
const NAME_OF_PATTERN: ReadonlyMap<string | undefined, string> = new Map(
  Object.entries(COMPLETE).flatMap(([name, { pattern }]) =>
    pattern === undefined ? [] : [[pattern, name]],
  ),
);
/** Types that only the name of their field tells apart. Their schemas have no other rule. */
const NAME_OF_FIELD: ReadonlyMap<string, string> = new Map([
  ["asset_id", "AssetId"],
  ["price", "Price"],
]);
/** What the values mean. Other named types are described by the fields that have them. */
const DESCRIPTIONS: Readonly<Record<string, JsonSchema>> = {
  Side: { description: "Bid: the requester buys the asset. Ask: the requester sells it." },
  RequestSide: { description: "Bid: the requester buys. Ask: they sell. TwoWay: either." },
};

/** Replaces the types that have a name, and adds them to `schemas`. */
export function nameSchemas(part: unknown, schemas: Record<string, JsonSchema>): void {
  const named = new Map<string, JsonSchema>();
  replaceIn(part, named);
  for (const schema of Object.values(schemas)) replaceIn(schema, named);
  for (const [name, schema] of [...named].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    schemas[name] = COMPLETE[name] ?? { ...schema, ...DESCRIPTIONS[name] };
}

function replaceIn(part: unknown, named: Map<string, JsonSchema>): void {
  if (typeof part !== "object" || part === null) return;
  for (const [key, child] of Object.entries(part)) {
    if (key === "example" || key === "examples" || key === "default") continue;
    const replaced = asReference(key, child, named);
    if (replaced === undefined) replaceIn(child, named);
    else (part as Record<string, unknown>)[key] = replaced;
  }
}

/** A reference to the named type, or undefined if the schema has no name. */
function asReference(
  key: string,
  child: unknown,
  named: Map<string, JsonSchema>,
): JsonSchema | undefined {
  if (!isSchema(child)) return undefined;
  const { description, type, ...rules } = child;
  const types = [type].flat();
  const values = child.enum?.filter((value) => value !== null);
  const byField = NAME_OF_FIELD.get(key);
  const plain = Object.keys(rules).every((rule) => ["minimum", "maximum"].includes(rule));
  const name =
    (values === undefined ? undefined : NAME_OF_ENUM.get(JSON.stringify(values))) ??
    NAME_OF_PATTERN.get(child.pattern) ??
    (plain && types.includes(String(COMPLETE[byField ?? ""]?.type)) ? byField : undefined);
  if (name === undefined) return undefined;
  named.set(name, { type: types[0] ?? "string", ...(values ? { enum: values } : {}) });
  const reference: JsonSchema = { $ref: `#/components/schemas/${name}` };
  const described = description === undefined ? {} : { description };
  const defaults = child.default === undefined ? {} : { default: child.default };
  // A null inside the enum would be one of the values that generators name.
  return types.includes("null")
    ? { anyOf: [reference, { type: "null" }], ...described, ...defaults }
    : { ...reference, ...described, ...defaults };
}

function isSchema(child: unknown): child is JsonSchema {
  return typeof child === "object" && child !== null && "type" in child;
}
