/**
 * JSON in, without losing digits or meaning.
 *
 * `JSON.parse` keeps the last of two equal keys and rounds large numbers; either could change an order silently. So the
 * text is scanned once for depth and repeated keys, and each number keeps its source text.
 */
import { type FieldError, invalidRequest } from "../platform/problem.ts";

/** A JSON number as it was written: `1e3`, `1000.0`, or 78 digits. */
export class JsonNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

/** Deeper than any body of this API, and shallow enough that no parser's stack is at risk. */
const MAX_DEPTH = 16;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The fields of a JSON object. No bytes at all are `{}`. Repeated keys go to `errors`, so that the rest can be checked
 * too; a text that is no JSON object is thrown as `invalid_request`.
 */
export function parseJsonObject(
  bytes: Uint8Array,
  errors: FieldError[],
  at = "body",
): Record<string, unknown> {
  if (bytes.byteLength === 0) return {};
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw invalidRequest([{ path: at, message: "is not UTF-8" }]);
  }
  const value = parse(text, errors, at);
  if (!isObject(value)) throw invalidRequest([{ path: at, message: "must be a JSON object" }]);
  return value;
}

/** Any JSON value; numbers become `JsonNumber`. Throws `invalid_request`. */
export function parseJson(text: string, at = "body"): unknown {
  const errors: FieldError[] = [];
  const value = parse(text, errors, at);
  if (errors.length > 0) throw invalidRequest(errors);
  return value;
}

function parse(text: string, errors: FieldError[], at: string): unknown {
  try {
    // The grammar first: on valid text the scan is linear, and the reviver, which recurses, never meets great depth.
    JSON.parse(text);
  } catch {
    throw invalidRequest([{ path: at, message: "is not valid JSON" }]);
  }
  const found = scan(text, at);
  if (found === "too deep")
    throw invalidRequest([{ path: at, message: `is nested deeper than ${MAX_DEPTH}` }]);
  errors.push(...found);
  return parseWithSource(text, (key, member, source) => {
    if (key === "__proto__") return undefined;
    if (typeof member === "number") return new JsonNumber(source ?? String(member));
    if (typeof member === "string" && !member.isWellFormed())
      throw invalidRequest([{ path: at, message: "holds a lone surrogate, which is no text" }]);
    return member;
  });
}

type Container =
  | { kind: "object"; keys: Set<string>; key: string }
  | { kind: "array"; index: number };

/** Nesting and keys of a text whose grammar is known to be right. */
function scan(text: string, at: string): FieldError[] | "too deep" {
  const stack: Container[] = [];
  const keys: FieldError[] = [];
  const token = /"(?:[^"\\]|\\[^])*"(\s*:)?|[{}[\],]/g;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const top = stack.at(-1);
    if (match[0] === "{" || match[0] === "[") {
      if (stack.length === MAX_DEPTH) return "too deep";
      stack.push(
        match[0] === "{"
          ? { kind: "object", keys: new Set(), key: "" }
          : { kind: "array", index: 0 },
      );
    } else if (match[0] === "}" || match[0] === "]") stack.pop();
    else if (match[0] === ",") {
      if (top?.kind === "array") top.index++;
    } else if (match[1] !== undefined && top?.kind === "object") {
      top.key = readKey(match[0].slice(0, -match[1].length));
      const error = top.keys.has(top.key)
        ? "is given twice"
        : top.key === "__proto__"
          ? "is not a field"
          : undefined;
      if (error !== undefined) keys.push({ path: pathOf(stack, at), message: error });
      top.keys.add(top.key);
    }
  }
  return keys;
}

/** Escapes are resolved first: `"a"` and `"\u0061"` are one key. */
function readKey(literal: string): string {
  return String(JSON.parse(literal));
}

function pathOf(stack: readonly Container[], at: string): string {
  return stack.reduce(
    (path, part) => `${path}.${part.kind === "object" ? shortName(part.key) : part.index}`,
    at,
  );
}

/** A name that a caller chose, cut to a length that is safe to repeat in an answer. */
export function shortName(name: string): string {
  return name.length <= 64 ? name : `${name.slice(0, 64)}…`;
}

/** A JSON number's source text as an exact integer: `1e3` and `1000.0` are integers, `1.5` is none. */
export function parseJsonInteger(text: string): bigint | undefined {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (parts === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponentText = "0"] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") return 0n;
  // Counted by hand: `/0+$/` is quadratic on a long run of zeros that ends in another digit.
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === 48) end--;
  const significant = digits.slice(0, end);
  const trailing = digits.length - significant.length;
  const exponent = Number(exponentText) - fraction.length + trailing;
  // 2^256 has 78 digits: anything longer is refused before it is expanded.
  if (exponent < 0 || significant.length + exponent > 78) return undefined;
  const value = BigInt(significant) * 10n ** BigInt(exponent);
  return sign === "-" ? -value : value;
}

type SourceReviver = (key: string, value: unknown, source: string | undefined) => unknown;

/** ES2025's third argument of the reviver, which the ES2024 library types do not know. */
function parseWithSource(text: string, revive: SourceReviver): unknown {
  const reviver = function (
    this: unknown,
    key: string,
    value: unknown,
    ...rest: unknown[]
  ): unknown {
    const context = rest[0];
    const source =
      isObject(context) && typeof context["source"] === "string" ? context["source"] : undefined;
    return revive(key, value, source);
  };
  return JSON.parse(text, reviver);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof JsonNumber)
  );
}

/** Whether two parsed values say the same, whatever the order of keys; numbers by their spelling. */
export function sameJson(a: unknown, b: unknown): boolean {
  return stableText(a) === stableText(b);
}

/** One spelling for a validated value (bigint, Date-free): the terms that an idempotency key is bound to. */
export function stableText(value: unknown): string {
  if (value instanceof JsonNumber) return value.source;
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(stableText).join(",")}]`;
  if (isObject(value)) {
    const members = Object.keys(value)
      .filter((key) => value[key] !== undefined)
      .sort();
    return `{${members.map((key) => `${JSON.stringify(key)}:${stableText(value[key])}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
