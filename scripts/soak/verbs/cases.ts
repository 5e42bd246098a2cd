/** Calls of an operation: valid ones, ones that differ from those by little, and broken ones. */
import type { Dice } from "../../actors/dice.ts";
import type { Field, Operation, SocketCommand } from "./operations.ts";
import { type Scene, strangeValue, validObject } from "./values.ts";

export type Kind = "valid" | "near" | "invalid";

/** A call before it is signed. */
export type Case = {
  readonly kind: Kind;
  readonly operation: Operation;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** How it authenticates; `other` is what the operation does not take. */
  readonly credential: "session" | "api_key" | "none";
};

type Values = Record<string, unknown>;

export function drawKind(dice: Dice): Kind {
  return dice.weighted({ valid: 6, near: 3, invalid: 1 });
}

export function makeCase(scene: Scene, operation: Operation, kind: Kind): Case {
  const { dice } = scene;
  const { fields } = operation;
  const values = validObject(scene, fields);
  if (kind === "near") changeOne(dice, fields, values);
  const inPlace = (where: Field["in"]) =>
    Object.fromEntries(
      Object.entries(values).filter(
        ([name]) => (fields.find((field) => field.name === name)?.in ?? "body") === where,
      ),
    );
  const headers = Object.fromEntries(
    Object.entries(inPlace("header")).map(([name, value]) => [name, headerText(value)]),
  );
  const body = operation.hasBody ? JSON.stringify(inPlace("body")) : undefined;
  return {
    kind,
    operation,
    target: targetOf(operation, inPlace("query"), kind === "invalid" ? dice : undefined),
    ...(kind === "invalid" ? broken(dice, body, headers) : { body, headers }),
    credential: credentialOf(dice, operation, kind),
  };
}

/** A frame of a socket, with its id if it has one that the service can read. */
export function makeFrame(
  scene: Scene,
  { op, fields }: SocketCommand,
  kind: Kind,
): { readonly frame: string; readonly id: string | undefined } {
  const { dice } = scene;
  const id = `c${dice.between(1, 1e9)}`;
  if (kind === "invalid")
    return { frame: brokenText(dice, JSON.stringify({ id, op })), id: undefined };
  const values = validObject(scene, fields);
  if (kind === "near") changeOne(dice, fields, values);
  const frame = JSON.stringify({ id, op, ...values });
  // Text that is no Unicode cannot be parsed, so its id cannot be read either.
  return { frame, id: frame.includes(String.raw`\ud800`) ? undefined : id };
}

/** Leaves out what is required, adds what is unknown, or changes one value. */
function changeOne(dice: Dice, fields: readonly Field[], values: Values): void {
  const names = Object.keys(values);
  const what = dice.weighted({ leave_out: 1, add: 1, change: names.length > 0 ? 6 : 0 });
  if (what === "add" || names.length === 0) {
    values["surprise"] = 1;
    return;
  }
  const name = dice.pick(names);
  if (what === "leave_out") delete values[name];
  else {
    const schema = fields.find((field) => field.name === name)?.schema ?? {};
    values[name] = strangeValue(dice, schema, values[name]);
  }
}

function targetOf({ path }: Operation, query: Values, dice?: Dice): string {
  const pairs = Object.entries(query).map(
    ([name, value]) => `${name}=${encodeURIComponent(queryText(value))}`,
  );
  if (dice !== undefined && dice.chance(0.5))
    pairs.push(
      dice.pick([pairs[0] ?? "a", "%zz", "%00=%00", "limit=%ff", "=", "&&", "a".repeat(9_000)]),
    );
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`;
}

/** A lone surrogate cannot be encoded, so it is replaced. */
function queryText(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.toWellFormed();
}

function headerText(value: unknown): string {
  // Printable ASCII only, because a client sends nothing else.
  return queryText(value)
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .slice(0, 500);
}

function credentialOf(dice: Dice, { credential }: Operation, kind: Kind): Case["credential"] {
  if (kind === "invalid" && dice.chance(0.2)) return dice.pick(["session", "api_key", "none"]);
  if (credential === "public") return "none";
  return credential === "any" ? dice.pick(["session", "api_key"]) : credential;
}

function broken(
  dice: Dice,
  body: string | undefined,
  headers: Readonly<Record<string, string>>,
): Pick<Case, "body" | "headers"> {
  const type = dice.pick([
    "application/json",
    "text/plain",
    "application/json; charset=latin1",
    "",
  ]);
  // `fetch` sends no body with GET.
  if (body === undefined) return { body, headers: { ...headers, accept: "text/strange" } };
  return { body: brokenText(dice, body), headers: { ...headers, "content-type": type } };
}

function brokenText(dice: Dice, text: string): string {
  const depth = dice.between(100, 5_000);
  return dice.pick([
    "",
    "null",
    "[]",
    '"text"',
    "{",
    text.slice(0, -1),
    `${text}${text}`,
    text.replace("{", '{"__proto__":{"a":1},'),
    text.replace("{", '{"constructor":1,'),
    `${"[".repeat(depth)}${"]".repeat(depth)}`,
    `{"a":${"9".repeat(400)}}`,
    `{"a":"${"x".repeat(70_000)}"}`,
    "\ufeff{}",
  ]);
}
