/**
 * Values of fields. A field without a list of values, and that is no number or boolean, has its
 * meaning by its name: a quote id must be one of a quote. `fieldsWithoutSource` finds those that
 * the soak does not know.
 */
import { randomUUID } from "node:crypto";
import type { Dice } from "../../actors/dice.ts";
import { type Caller, type Ids, nextCode } from "../../actors/callers.ts";
import type { JsonSchema } from "../../openapi/examples.ts";
import { type Field, fieldsOf } from "./operations.ts";

export type Scene = {
  readonly dice: Dice;
  readonly caller: Caller;
  readonly ids: Ids;
  /** `POST /rfq/quote`, or the `op` of a socket command. */
  readonly operation: string;
};

/** The tokens that the callers hold, so that some commands succeed. */
export const BOOKS = [
  { venue_id: "venue_one", asset_id: "0xf1" },
  { venue_id: "venue_one", asset_id: "0xf2" },
  { venue_id: "venue_two", asset_id: "0xf1" },
] as const;
const LABELS = ["alpha", "beta", "a:1", "~!#"];
const DAY_MS = 86_400_000;
const FIRST_PASSWORD = "correct horse battery";

const at = (ms: number) => new Date(Date.now() + ms).toISOString();
const id =
  (name: string) =>
  ({ ids, dice, caller }: Scene) =>
    ids.pick(dice, name, caller) ?? randomUUID();
const orNull =
  (value: (scene: Scene) => unknown) =>
  (scene: Scene): unknown =>
    scene.dice.chance(0.4) ? null : value(scene);
const amount = ({ dice }: Scene) => {
  const units = BigInt(dice.between(1, dice.chance(0.9) ? 2_000_000 : 2_000_000_000));
  return dice.chance(0.3) ? `0x${units.toString(16)}` : units.toString();
};
const usdcLimit = orNull(({ dice }) => String(dice.pick([0, 1, 5_000_000, 10 ** 12])));
const instant = ({ dice }: Scene) => at(dice.between(-2 * DAY_MS, DAY_MS));

/** They name a request of another user. */
const QUOTES = new Set(["POST /rfq/quote", "POST /rfq/quotes", "quote", "quotes"]);

/** Values by the name of their field. */
const SOURCES: Readonly<Record<string, (scene: Scene) => unknown>> = {
  request_id: ({ ids, dice, caller, operation }) =>
    ids.pick(dice, "request_id", QUOTES.has(operation) ? undefined : caller) ?? randomUUID(),
  quote_id: id("quote_id"),
  replaces: id("quote_id"),
  match_id: id("match_id"),
  withdrawal_id: id("withdrawal_id"),
  address_id: id("address_id"),
  api_key_id: id("api_key_id"),
  ref_id: (scene) => id(scene.dice.pick(["match_id", "withdrawal_id"]))(scene),
  client_withdrawal_id: (scene) =>
    scene.dice.chance(0.3)
      ? id("client_withdrawal_id")(scene)
      : `fuzz-${scene.dice.between(1, 1e9)}`,
  ticket: id("ticket"),
  // Well formed, because only a notice has one that counts.
  token: () => `${randomUUID()}.m1.${"A".repeat(43)}`,
  last_cursor: id("next_cursor"),
  venue_id: ({ dice }) => dice.pick(BOOKS).venue_id,
  venue: ({ dice }) => dice.pick(BOOKS).venue_id,
  venues: orNull(({ dice }) => [dice.pick(BOOKS).venue_id]),
  asset_id: ({ dice }) => dice.pick(BOOKS).asset_id,
  chain: () => "local",
  amount,
  usdc_amount: amount,
  min_amount: ({ dice }) => String(dice.between(0, 1_000_000)),
  max_amount: ({ dice }) => String(dice.between(0, 1_000_000_000)),
  max_usdc: orNull(amount),
  max_usdc_per_trade: usdcLimit,
  max_usdc_per_day: usdcLimit,
  max_trade_usdc_per_day: usdcLimit,
  withdraw_max_usdc_per_day: usdcLimit,
  withdraw_approval_above: usdcLimit,
  label: ({ dice }) => dice.pick(LABELS),
  event_id: ({ dice }) => dice.pick(LABELS),
  category: ({ dice }) => dice.pick(LABELS),
  limit: ({ dice }) => dice.pick([0, 1, 5, 50, 500, 501]),
  q: ({ dice }) => dice.pick(["a", "yes", "Will the"]),
  asset: ({ dice }) => dice.pick(["usdc", "venue_one:0xf1"]),
  assets: ({ dice }) => dice.pick(["0xab", "0xab,0xcd", "0x1,0x1"]),
  types: ({ dice, operation }) =>
    operation === "POST /account/create-webhook"
      ? ["match.created"]
      : dice.pick(["match.created", "quote.opened,account.notice"]),
  endpoint_id: id("endpoint_id"),
  url: () => "http://127.0.0.1:9/",
  reasons: ({ dice }) => dice.pick(["trade", "trade,fee", "deposit,withdrawal,release"]),
  address: ({ dice }) => `0x${dice.pick(["aa", "bb", "cc"]).repeat(20)}`,
  to_address: ({ dice }) => `0x${dice.pick(["aa", "bb", "cc"]).repeat(20)}`,
  addresses: orNull(() => ["0x52908400098527886E0F7030069857D2E4169EE7"]),
  day: () => new Date().toISOString().slice(0, 10),
  allowed_ips: orNull(() => ["10.0.0.0/8", "127.0.0.1"]),
  expires_at: orNull(({ dice }) => at(dice.between(1, 300) * DAY_MS)),
  not_after: ({ dice }) => at(dice.chance(0.9) ? 20_000 : dice.between(-5_000, 50)),
  from: instant,
  to: instant,
  // Small, so that protections trip and end while the soak runs.
  max_matches: orNull(({ dice }) => dice.between(1, 4)),
  cooldown_secs: orNull(({ dice }) => dice.between(1, 5)),
  idempotency_key: ({ dice }) => `k${dice.between(1, 500)}`,
  "Idempotency-Key": ({ dice }) => `h${dice.between(1, 500)}`,
  email: ({ caller, operation }) =>
    operation === "POST /auth/register" ? `${randomUUID()}@fuzz.example` : caller.email,
  password: ({ caller, operation }) =>
    operation === "POST /auth/register" ? FIRST_PASSWORD : caller.password,
  new_password: ({ dice }) => `battery staple ${dice.between(1, 1e9)}`,
  totp_code: ({ caller, dice, operation }) =>
    nextCode(caller, { confirms: operation === "POST /auth/confirm-totp" }) ??
    String(dice.between(100_000, 999_999)),
  recovery_code: ({ caller }) => caller.recoveryCodes.pop() ?? "AAAA-BBBB-CCCC-DDDD",
};

/** Fields that are mostly left out, because a value would end what the others do. */
const SELDOM = new Set([
  "replaces",
  "request_approval",
  "recovery_code",
  "not_after",
  "last_cursor",
  "require_idempotency",
]);
/** Of these an operation takes exactly one, unless it requires one of them. */
const ONE_OF: readonly (readonly string[])[] = [
  ["amount", "usdc_amount"],
  ["withdrawal_id", "client_withdrawal_id"],
  ["match_id", "quote_id", "request_id"],
  ["quote_id", "price"],
];
const FOLLOWED_CHANCE = 0.9;

function validValue(scene: Scene, name: string, schema: JsonSchema): unknown {
  const { dice } = scene;
  const source = SOURCES[name];
  if (source !== undefined) return source(scene);
  if (schema.enum !== undefined) return dice.pick(schema.enum);
  const types = [schema.type ?? []].flat();
  if (types.includes("boolean")) return dice.chance(0.5);
  if (types.includes("integer"))
    return dice.between(schema.minimum ?? 0, Math.min(schema.maximum ?? 600, 1_000_000));
  if (types.includes("array")) {
    const { items = {}, minItems = 0, maxItems = 3 } = schema;
    const count = dice.between(minItems, dice.chance(0.9) ? Math.min(maxItems, 4) : maxItems);
    return Array.from({ length: count }, () => validValue(scene, `${name}[]`, items));
  }
  if (types.includes("object")) return validObject(scene, fieldsOf(schema));
  throw new Error(`no values for ${name} of ${scene.operation}`);
}

export function validObject(scene: Scene, fields: readonly Field[]): Record<string, unknown> {
  const share = scene.dice.pick([0.1, 0.5, 0.9]);
  const chosen = new Set(
    fields
      .filter(
        ({ name, required }) => required || scene.dice.chance(SELDOM.has(name) ? share / 8 : share),
      )
      .map(({ name }) => name),
  );
  if (scene.dice.chance(FOLLOWED_CHANCE)) followRules(scene.dice, fields, chosen);
  return Object.fromEntries(
    fields
      .filter(({ name }) => chosen.has(name))
      .map(({ name, schema }) => [name, validValue(scene, name, schema)]),
  );
}

/** Rules that JSON Schema does not say. */
function followRules(dice: Dice, fields: readonly Field[], chosen: Set<string>): void {
  const optional = new Set(fields.filter(({ required }) => !required).map(({ name }) => name));
  for (const names of ONE_OF) {
    const known = names.filter((name) => optional.has(name));
    if (known.length < 2 || known.length < names.length) continue;
    for (const name of known) chosen.delete(name);
    chosen.add(dice.pick(known));
  }
  // An accept by price names the request.
  if (optional.has("price"))
    for (const name of ["request_id", "side"])
      if (!chosen.has("price")) chosen.delete(name);
      else if (name === "request_id" || dice.chance(0.5)) chosen.add(name);
  if (optional.has("accept_price") && !chosen.has("accept_price")) chosen.delete("accept_side");
  // An asset id is unique only within its venue.
  if (chosen.has("asset_id") && optional.has("venue_id")) chosen.add("venue_id");
  if (chosen.has("venue_id") && optional.has("amount")) chosen.add("asset_id");
}

/** Names of fields, at any depth, of which the soak knows no values. */
export function fieldsWithoutSource(fields: readonly Field[]): string[] {
  return fields.flatMap(({ name, schema }) => {
    if (name in SOURCES || schema.enum !== undefined) return [];
    const types = [schema.type ?? []].flat();
    if (types.includes("boolean") || types.includes("integer")) return [];
    if (types.includes("array") && schema.items !== undefined)
      return fieldsWithoutSource([
        { name: `${name}[]`, in: "body", required: true, schema: schema.items },
      ]);
    if (types.includes("object")) return fieldsWithoutSource(fieldsOf(schema));
    return [name];
  });
}

const STRANGE: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e308,
  "",
  " ",
  "0",
  "0x",
  "-1",
  "1e3",
  "4611686018427387904",
  "4611686018427387905",
  `0x${"f".repeat(64)}`,
  `1${"0".repeat(77)}`,
  "00000000-0000-0000-0000-000000000000",
  "0190a0b0-0000-7000-8000-000000000000",
  "\u0000",
  "\ud800",
  "é🙂",
  "' OR 1=1 --",
  "../../x",
  "9999-12-31T23:59:59Z",
  "2026-02-30T00:00:00Z",
  "a".repeat(5_000),
  [],
  {},
  [null],
  { a: { b: [] } },
];

/** Differs from `value` by little: a limit just passed, another type, or a strange text. */
export function strangeValue(dice: Dice, schema: JsonSchema, value: unknown): unknown {
  if (typeof value === "number" && dice.chance(0.4))
    return dice.pick([(schema.minimum ?? 1) - 1, (schema.maximum ?? 1) + 1, String(value), -value]);
  if (Array.isArray(value) && value.length > 0 && dice.chance(0.4))
    return dice.chance(0.5)
      ? Array.from({ length: (schema.maxItems ?? 50) + 1 }, () => value[0])
      : value.with(dice.between(0, value.length - 1), dice.pick(STRANGE));
  return dice.pick(STRANGE);
}
