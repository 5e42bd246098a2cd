/**
 * Parses JSON without losing digits or keys.
 *
 * `JSON.parse` keeps the last of two equal keys and rounds large numbers. Either could silently
 * change a command. So the text is scanned for depth and repeated keys, and each number keeps its
 * source text.
 */
import { type FieldError, invalidRequest, type Problem } from "../platform/problem.ts";

/** A JSON number as it was written, such as `1e3`, `1000.0` or 78 digits. */
export class JsonNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

/** More than any body of this API needs, and too little to overflow a parser's stack. */
export const MAX_DEPTH = 16;
/** Members of an object, list or query: more than a request has. Checked before slow validation. */
export const MAX_MEMBERS = 64;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The fields of a JSON object; an empty body equals `{}`. Adds repeated keys to `errors`, so that
 * other fields can be validated too. Throws `invalid_request` if the text is not a JSON object.
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

/** Parses any JSON value. Numbers become `JsonNumber`. Throws `invalid_request`. */
export function parseJson(text: string, at = "body"): unknown {
  const errors: FieldError[] = [];
  const value = parse(text, errors, at);
  if (errors.length > 0) throw invalidRequest(errors);
  return value;
}

function parse(text: string, errors: FieldError[], at: string): unknown {
  // RFC 8259, section 8.1. Some tools write one without being asked.
  if (text.startsWith("\uFEFF"))
    throw invalidRequest([{ path: at, message: "must not begin with a byte order mark" }]);
  try {
    // Check the syntax first, because the scan assumes valid JSON. The scan in turn limits the
    // depth before the reviver below recurses.
    JSON.parse(text);
  } catch {
    throw invalidRequest([{ path: at, message: "is not valid JSON" }]);
  }
  errors.push(...scan(text, at));
  // The third argument is missing in the ES2024 library types.
  const revive = (key: string, member: unknown, context?: { source?: string }): unknown => {
    if (key === "__proto__") return undefined;
    if (typeof member === "number") return new JsonNumber(context?.source ?? String(member));
    if (typeof member === "string" && !member.isWellFormed())
      throw invalidRequest([{ path: at, message: "contains an unpaired surrogate" }]);
    return member;
  };
  return JSON.parse(text, revive);
}

type Container =
  | { kind: "object"; members: number; keys: Set<string>; key: string }
  | { kind: "array"; index: number };

/** Repeated keys of valid JSON. Throws `invalid_request` at the first member beyond a limit. */
function scan(text: string, at: string): FieldError[] {
  const stack: Container[] = [];
  const keys: FieldError[] = [];
  const token = /"(?:[^"\\]|\\[^])*"(\s*:)?|[{}[\],]/g;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const top = stack.at(-1);
    if (match[0] === "{" || match[0] === "[") {
      if (stack.length === MAX_DEPTH)
        throw invalidRequest([
          { path: at, message: `must not be nested deeper than ${MAX_DEPTH} levels` },
        ]);
      stack.push(
        match[0] === "{"
          ? { kind: "object", members: 0, keys: new Set(), key: "" }
          : { kind: "array", index: 0 },
      );
    } else if (match[0] === "}" || match[0] === "]") stack.pop();
    else if (match[0] === ",") {
      if (top?.kind === "array" && ++top.index === MAX_MEMBERS) throw tooMany(stack, at, "items");
    } else if (match[1] !== undefined && top?.kind === "object") {
      if (++top.members > MAX_MEMBERS) throw tooMany(stack, at, "fields");
      // Escapes are resolved, because `"a"` and `"\u0061"` are the same key.
      top.key = String(JSON.parse(match[0].slice(0, -match[1].length)));
      const error = top.keys.has(top.key)
        ? "duplicate field"
        : top.key === "__proto__"
          ? "unknown field"
          : undefined;
      if (error !== undefined) keys.push({ path: pathOf(stack, at), message: error });
      top.keys.add(top.key);
    }
  }
  return keys;
}

function tooMany(stack: readonly Container[], at: string, what: "fields" | "items"): Problem {
  return invalidRequest([
    {
      path: pathOf(stack.slice(0, -1), at),
      message: `must not have more than ${MAX_MEMBERS} ${what}`,
    },
  ]);
}

function pathOf(stack: readonly Container[], at: string): string {
  const names = stack.map((part) => (part.kind === "object" ? shortName(part.key) : part.index));
  return shortPath([at, ...names].join("."));
}

/** A path that may consist of names that the caller chose, shortened like them. */
export function shortPath(path: string): string {
  return path.length <= 160 ? path : `${path.slice(0, 160)}…`;
}

/** A name that the caller chose, shortened so that a response can contain it. */
export function shortName(name: string): string {
  return name.length <= 64 ? name : `${name.slice(0, 64)}…`;
}

/** The source of a JSON number as an exact integer: `1e3` and `1000.0` are, `1.5` is not. */
export function parseJsonInteger(text: string): bigint | undefined {
  if (/^(?:0|[1-9]\d{0,17})$/.test(text)) return BigInt(text);
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (parts === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponentText = "0"] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") return 0n;
  // A loop, because `/0+$/` takes quadratic time if another digit follows many zeros.
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === 48) end--;
  const significant = digits.slice(0, end);
  const trailing = digits.length - significant.length;
  const exponent = Number(exponentText) - fraction.length + trailing;
  // 2^256 has 78 digits. Reject longer numbers before expanding the exponent.
  if (exponent < 0 || significant.length + exponent > 78) return undefined;
  const value = BigInt(significant) * 10n ** BigInt(exponent);
  return sign === "-" ? -value : value;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof JsonNumber)
  );
}
