/** operations.py of the Python client: a method for each operation. */
import type { OpenApi, Operation, Response } from "./describe.ts";
import type { JsonSchema, Schemas } from "./examples.ts";
import { withDefault } from "./say-defaults.ts";
import { docstring, fieldName, HEAD, isAmount, isNullable, typeOf } from "./python-types.ts";

/** The methods that the TypeScript client does not name after `operationId`; a test compares. */
const NAMES: Readonly<Record<string, string>> = {
  acceptQuote: "accept",
  createQuote: "quote",
  createQuotes: "quote_many",
  createRequest: "request",
  createTicket: "ws_ticket",
  enrolTotp: "start_totp",
  freezeAccount: "freeze",
  getCredential: "whoami",
  getMatch: "get_match",
  getQuote: "get_quote",
  getRequest: "get_request",
  listLedgerEntries: "ledger",
  listQuotesOnRequest: "quotes",
  setCancelAfter: "cancel_after",
  setProtection: "save_protection",
  unfreezeAccount: "unfreeze",
};
/** Descriptions and the page that shows them; streams and their second kind of ticket. */
const WITHOUT_METHOD: ReadonlySet<string> = new Set([
  "createSignedTicket",
  "getAsyncApi",
  "getDocs",
  "getLlms",
  "getOpenApi",
  "getSecurityTxt",
  "openAccountStream",
  "openBookStream",
]);
/** The commands of sockets, by operation. */
const COMMANDS: Readonly<Record<string, string>> = {
  createQuote: "quote",
  createQuotes: "quotes",
  cancelQuote: "cancel_quote",
  acceptQuote: "accept",
};
/** A quote has a deadline by default, as in the TypeScript client. */
const WITH_DEADLINE: ReadonlySet<string> = new Set(["createQuote", "createQuotes"]);
/** Its response must name the terms that were sent. */
const CHECKED: ReadonlySet<string> = new Set(["withdraw"]);
/** The classes, by the first part of the path. Other paths are of the first class. */
const GROUPS: Readonly<Record<string, string>> = {
  "": "ServiceCalls",
  auth: "AuthCalls",
  custody: "CustodyCalls",
  rfq: "RfqCalls",
};
const PAGE_FIELDS: ReadonlySet<string> = new Set(["limit", "last_cursor"]);

type Field = {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly required: boolean;
  /** For the docstring: meaning, range and default. */
  readonly text: string;
};
type Described = Operation & {
  readonly description?: string;
  readonly "x-credential"?: string;
  readonly "x-repeatable"?: boolean;
  readonly responses: Record<string, Response & { description?: string }>;
};
type Route = {
  readonly method: string;
  readonly path: string;
  readonly operation: Described;
  readonly fields: readonly Field[];
  /** The problems of its own, not those of every call. */
  readonly codes: readonly string[];
};

export function pythonOperations({ paths, components }: OpenApi): string {
  const schemas = components?.schemas ?? {};
  const shared = new Map(Object.entries(components?.["responses"] ?? {}));
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { operationId }]) => !WITHOUT_METHOD.has(operationId))
      .map(([method, operation]): Route => ({
        method: method.toUpperCase(),
        path,
        operation,
        fields: fieldsOf(operation, schemas),
        codes: codesOf(operation, shared),
      })),
  );
  const groups = Object.entries(GROUPS).map(([group, name]) => {
    const methods = routes
      .filter(({ path }) => groupOf(path) === group)
      .flatMap((route) => methodsOf(route, schemas));
    return `class ${name}:
    """The operations ${group === "" ? "of the client itself" : `of \`client.${group}\``}."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

${methods.join("\n\n")}`;
  });
  const commands = routes
    .filter(({ operation }) => operation.operationId in COMMANDS)
    .map((route) => commandOf(route));
  return `${HEAD}"""A method for each operation of the service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from . import models as m
from ._pages import Pages
from ._transport import NDJSON, Call, Transport
from ._errors import check_echo
from ._wire import UNSET, Unset, amount_text, fields, new_key

T = TypeVar("T")

${groups.join("\n\n\n")}


class Commands(ABC):
    """The commands of a socket. Each has the arguments of the call over HTTP."""

    @abstractmethod
    async def _command(
        self, op: str, data: dict[str, Any], kind: type[T], timeout: float, max_age_ms: int | None = None
    ) -> T: ...

${commands.join("\n\n")}
`;
}

function groupOf(path: string): string {
  const first = path.split("/")[1] ?? "";
  return first in GROUPS ? first : "";
}

/** Query parameters and fields of the body. Those of variants are optional unless all have them. */
function fieldsOf(operation: Described, schemas: Schemas): Field[] {
  const inQuery = (operation.parameters ?? [])
    .filter((parameter) => parameter.in === "query")
    .map(({ name, schema = {}, required = false, description }) => {
      const text = fieldText(name, { ...schema, ...(description && { description }) }, schemas);
      return { name, schema, required, text };
    });
  const reference = operation.requestBody?.content["application/json"]?.schema?.$ref;
  const body = schemas[reference?.split("/").at(-1) ?? ""] ?? {};
  const variants = body.oneOf?.map(({ $ref = "" }) => schemas[$ref.split("/").at(-1) ?? ""] ?? {});
  const parts = variants ?? [body];
  const inBody = new Map<string, JsonSchema>(
    parts.flatMap(({ properties = {} }) => Object.entries(properties)),
  );
  const needed = [...inBody].map(([name, schema]) => ({
    name,
    schema,
    required: parts.every(({ required = [] }) => required.includes(name)),
    text: fieldText(name, schema, schemas),
  }));
  return [...inQuery, ...needed].toSorted((a, b) => Number(b.required) - Number(a.required));
}

/** What the client does with a field. */
const OWN_TEXT: Readonly<Record<string, string>> = {
  idempotency_key:
    "A repeated call with this key has no second effect for an hour. Default: a new one.",
};

function fieldText(name: string, schema: JsonSchema, schemas: Schemas): string {
  const shared = schemas[schema.$ref?.split("/").at(-1) ?? ""];
  const whole = { ...shared, ...schema };
  const said = OWN_TEXT[name] ?? withDefault(whole).replace(/\.?$/, ".");
  const isSaid = /\b(?:at (?:least|most)|from|only|\d+) \d|\d to \d|native units/i.test(said);
  const range = isSaid ? "" : rangeOf(whole);
  const [, text = said, rest = ""] = /^(.*?\.)( Default: .*)$/s.exec(said) ?? [];
  return `${text}${range === "" ? "" : ` ${range}.`}${rest}`;
}

/** Above it a maximum is that of the number's type. */
const LARGEST = 2 ** 32 - 1;

function rangeOf({ pattern, format, ...schema }: JsonSchema): string {
  const least = schema.minimum ?? schema.minLength ?? schema.minItems;
  const most = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  const unit = schema.items ? " items" : schema.minimum === undefined ? " characters" : "";
  if (isAmount({ pattern: pattern ?? "" })) return "Native units";
  if (format === "uuid") return "A UUID";
  if (format === "date-time") return "With a timezone";
  if (least !== undefined && most !== undefined && most < LARGEST)
    return `${least} to ${most}${unit}`;
  if (least !== undefined) return `At least ${least}${least === 1 ? unit.replace(/s$/, "") : unit}`;
  return pattern === undefined || pattern.length > 60 ? "" : `Matches \`${pattern}\``;
}

function methodsOf(route: Route, schemas: Schemas): string[] {
  if (NDJSON in (success(route.operation).content ?? {})) return [exportOf(route)];
  const page = pageItemOf(route.operation, schemas);
  const { content = {} } = success(route.operation);
  if (page === null)
    return [methodOf(route), ...("application/jose" in content ? [receiptOf(route)] : [])];
  const list = listOf(route, page);
  return "text/csv" in content ? [list, statementOf(route)] : [list];
}

/** The type of the items of a page, or null. */
function pageItemOf(operation: Described, schemas: Schemas): string | null {
  const reference = success(operation).content?.["application/json"]?.schema?.$ref;
  const page = schemas[reference?.split("/").at(-1) ?? ""]?.properties;
  const item = page?.["items"]?.items;
  return item === undefined || page?.["next_cursor"] === undefined ? null : qualified(item);
}

function success({ responses }: Described) {
  return Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1] ?? {};
}

function resultOf(operation: Described): string {
  return qualified(Object.values(success(operation).content ?? {})[0]?.schema ?? {});
}

function nameOfMethod(id: string): string {
  const snake = id.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return NAMES[id] ?? snake.replace(/^(get|list)_/, "");
}

/** The type of an argument or a result, with the names of models.py. */
function qualified(schema: JsonSchema): string {
  return typeOf(schema, "Sequence").replaceAll(
    /(?<!["\w])(?!(?:Sequence|Literal|None|Any)\b)[A-Z]\w*(?!["\w])/g,
    (name) => `m.${name}`,
  );
}

function argumentsOf(fields: readonly Field[], more: readonly string[] = []): string {
  const own = fields.map(({ name, schema, required }) => {
    const type = qualified(schema);
    const head = `${fieldName(name)}: ${type}`;
    if (required) return head;
    return isNullable(schema) ? `${head} | Unset = UNSET` : `${head} | None = None`;
  });
  return ["self", ...(own.length + more.length > 0 ? ["*"] : []), ...own, ...more]
    .map((each) => `        ${each},`)
    .join("\n");
}

/** The arguments as they are sent. */
function sent(fields: readonly Field[]): string {
  if (fields.length === 0) return "{}";
  const pairs = fields.map(({ name, schema }) => {
    const value = fieldName(name);
    // Amounts are text on the wire.
    const text = isAmount(schema) ? `amount_text(${value})` : value;
    return `"${name}": ${name === "idempotency_key" ? `${value} or new_key()` : text}`;
  });
  const keep = fields.filter(({ schema, required }) => !required && isNullable(schema));
  const nullable =
    keep.length === 0 ? "" : `, keep_null={${keep.map(({ name }) => `"${name}"`).join(", ")}}`;
  return `fields({${pairs.join(", ")}}${nullable})`;
}

const TIMEOUT = "timeout: float | None = None";
const MAX_AGE = "max_age_ms: int | None = 1_000";

function codesOf({ responses }: Described, shared: ReadonlyMap<string, unknown>): string[] {
  return Object.entries(responses)
    .filter(([status]) => status === "404" || status === "409")
    .map(([, { $ref, ...own }]) => shared.get($ref?.split("/").at(-1) ?? "") ?? own)
    .flatMap((response) => [
      ...JSON.stringify(response).matchAll(/#\/components\/examples\/(\w+)/g),
    ])
    .map(([, code = ""]) => code);
}

const TEXTS = {
  max_age_ms:
    "Milliseconds from now within which it takes effect or never does, unless `not_after` is given. None: no deadline. Default: 1 000.",
  timeout: "Seconds for the call with its retries. Default: None, no limit.",
};

function argumentTexts(fields: readonly Field[]): string[] {
  return fields.map(({ name, text }) => `${fieldName(name)}: ${text}`);
}

function describe({ operation, fields, codes }: Route, more: (keyof typeof TEXTS)[]): string {
  const { summary, description = "" } = operation;
  const text = `${summary.replace(/\.?$/, ".")} ${description}`;
  return docstring(text, "        ", {
    Args: [...argumentTexts(fields), ...more.map((name) => `${name}: ${TEXTS[name]}`)],
    Raises:
      codes.length === 0 ? [] : [`Problem: ${codes.map((code) => `\`${code}\``).join(", ")}.`],
  });
}

function callOf(route: Route, more: readonly string[]): string {
  const { operation, method, path, fields } = route;
  const flags = [
    ...(operation["x-credential"] === "public" ? ["public=True"] : []),
    ...(method === "GET" || operation["x-repeatable"] === true ? ["repeatable=True"] : []),
    ...more,
  ];
  const where = method === "GET" ? "query" : "body";
  // A POST without fields has no body.
  const data = fields.length === 0 ? [] : [`${where}=${sent(fields)}`];
  const target =
    operation.operationId === "createTicket" ? `self._transport.ticket_path` : `"${path}"`;
  return `Call(${[`"${method}"`, target, ...data, ...flags].join(", ")})`;
}

function methodOf(route: Route): string {
  const { operation, fields } = route;
  const { operationId } = operation;
  const timed = WITH_DEADLINE.has(operationId);
  const result = resultOf(operation);
  const call = callOf(route, ["timeout=timeout", ...(timed ? ["max_age_ms=max_age_ms"] : [])]);
  const body = CHECKED.has(operationId)
    ? `        call = ${call}
        return check_echo(call.body, await self._transport.call(call, ${result}))`
    : `        return await self._transport.call(${call}, ${result})`;
  return `    async def ${nameOfMethod(operationId)}(
${argumentsOf(fields, [...(timed ? [MAX_AGE] : []), TIMEOUT])}
    ) -> ${result}:
${describe(route, [...(timed ? ["max_age_ms" as const] : []), "timeout"])}
${body}`;
}

function listOf(list: Route, item: string): string {
  const ofPage = (text: string) => text.replace("number of items", "number of items of a page");
  const fields = list.fields.map((field) => ({ ...field, text: ofPage(field.text) }));
  const route = { ...list, fields };
  return `    def ${nameOfMethod(route.operation.operationId)}(
${argumentsOf(route.fields, [TIMEOUT])}
    ) -> Pages[${item}]:
${describe(route, ["timeout"])}
        call = ${callOf(route, ["timeout=timeout"])}
        return Pages(self._transport, call, ${item})`;
}

const NDJSON = "application/x-ndjson";
/** The types of the lines, by `kind`. */
const EXPORTED = { requests: "m.RequestItem", quotes: "m.Quote" };

/** A list that comes as lines of JSON. */
function exportOf(route: Route): string {
  const { requests, quotes } = EXPORTED;
  return `    def ${nameOfMethod(route.operation.operationId)}(
${argumentsOf(route.fields, [TIMEOUT])}
    ) -> Pages[${requests} | ${quotes}]:
${describe(route, ["timeout"])}
        call = ${callOf(route, ["timeout=timeout", "accept=NDJSON"])}
        item: type[${requests} | ${quotes}] = ${requests} if kind == "requests" else ${quotes}
        return Pages(self._transport, call, item)`;
}

const STATEMENT =
  "The whole list as CSV (RFC 4180). Its last line proves that it is complete. Raises `NoAnswer` otherwise.";

/** The same list as CSV. */
function statementOf(route: Route): string {
  const rest = { ...route, fields: route.fields.filter(({ name }) => !PAGE_FIELDS.has(name)) };
  return `    async def statement(
${argumentsOf(rest.fields, [TIMEOUT])}
    ) -> str:
${docstring(STATEMENT, "        ", { Args: [...argumentTexts(rest.fields), `timeout: ${TEXTS.timeout}`] })}
        return await self._transport.statement(${callOf(rest, ["timeout=timeout", 'accept="text/csv"'])})`;
}

/** The same record as a receipt. */
function receiptOf(route: Route): string {
  const name = nameOfMethod(route.operation.operationId).replace(/^get_/, "");
  const summary = `The ${name} as a receipt, which \`receipts.verify_receipt\` reads.`;
  const operation = { ...route.operation, summary, description: "" };
  return `    async def ${name}_receipt(
${argumentsOf(route.fields, [TIMEOUT])}
    ) -> str:
${describe({ ...route, operation }, ["timeout"])}
        return await self._transport.text(${callOf(route, ["timeout=timeout", 'accept="application/jose"'])})`;
}

function commandOf({ operation, fields }: Route): string {
  const { operationId } = operation;
  const timed = WITH_DEADLINE.has(operationId);
  const result = resultOf(operation);
  const age = timed ? ", max_age_ms" : "";
  const args = [
    ...argumentTexts(fields),
    ...(timed ? [`max_age_ms: ${TEXTS.max_age_ms}`] : []),
    "timeout: Seconds for the result. Default: 30.",
  ];
  return `    async def ${nameOfMethod(operationId)}(
${argumentsOf(fields, [...(timed ? [MAX_AGE] : []), "timeout: float = 30"])}
    ) -> ${result}:
${docstring("As the call over HTTP, on the socket of this stream.", "        ", { Args: args })}
        data = ${sent(fields)}
        return await self._command("${COMMANDS[operationId]}", data, ${result}, timeout${age})`;
}
