/** models.py of the Python client: the records, and the messages of the streams. */
import type { Streams } from "./bundle-streams.ts";
import type { OpenApi } from "./describe.ts";
import { type JsonSchema, reached, type Schemas } from "./examples.ts";
import {
  docstring,
  fieldName,
  HEAD,
  isAmount,
  isNullable,
  nameOf,
  typeOf,
} from "./python-types.ts";

/** Fields that a log must not contain. */
const SECRET: ReadonlySet<string> = new Set([
  "access_token",
  "secret",
  "ticket",
  "recovery_codes",
  "otpauth_uri",
]);

export function pythonModels(document: OpenApi, { components }: Streams): string {
  const records = document.components?.schemas ?? {};
  const inputs = inputsOf(document, records);
  const bodies = bodiesOf(document, records);
  const schemas = { ...records, ...components.schemas };
  const messages = Object.entries(components.schemas).filter(
    ([, { properties }]) => properties?.["type"] !== undefined && "stream" in properties,
  );
  const ofStreams = new Set(messages.flatMap(([, schema]) => reached(schema, components.schemas)));
  const kept = Object.entries(schemas).filter(
    ([name]) =>
      inputs.has(name) ||
      (name in records ? !bodies.has(name) && !name.endsWith("Page") : ofStreams.has(name)),
  );
  const parts = kept
    // Python evaluates names of other types and base classes where they are written.
    .toSorted(([, a], [, b]) => rank(a) - rank(b))
    .filter(([name]) => nameOf(name) !== "StreamMessage")
    .map(([name, schema]) => define(name, schema, inputs.has(name)));
  return `${HEAD}"""The records of the service and the messages of its streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ._wire import AMOUNT, UNSET, Unset, new_key

${parts.join("\n\n")}


${messages.map(([name, schema]) => define(name, schema, false)).join("\n\n\n")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A message of a type that is newer than this package."""

    type: str
    stream: str
    seq: int
    at: datetime
    data: dict[str, Any]


StreamMessage = (
    ${[...messages.map(([name]) => name), "Event"].join("\n    | ")}
)
`;
}

/** Objects that bodies contain. Their optional fields can be omitted. */
function inputsOf(document: OpenApi, schemas: Schemas): Set<string> {
  const bodies = bodiesOf(document, schemas);
  const within = [...bodies].flatMap((name) => reached(schemas[name] ?? {}, schemas));
  return new Set(within.filter((name) => isClass(schemas[name]) && !bodies.has(name)));
}

/** The bodies themselves, which methods take as arguments. */
function bodiesOf(document: OpenApi, schemas: Schemas): Set<string> {
  const bodies = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ requestBody }) => Object.values(requestBody?.content ?? {}))
    .flatMap(({ schema }) =>
      schema?.$ref === undefined ? [] : [schema.$ref.split("/").at(-1) ?? ""],
    );
  const variants = bodies.flatMap((name) => schemas[name]?.oneOf ?? []);
  return new Set([...bodies, ...variants.map(({ $ref = "" }) => $ref.split("/").at(-1) ?? "")]);
}

function isClass(schema: JsonSchema | undefined): boolean {
  return schema?.properties !== undefined || schema?.allOf !== undefined;
}

function rank(schema: JsonSchema): number {
  return isClass(schema) ? (schema.allOf === undefined ? 1 : 2) : 0;
}

function define(component: string, schema: JsonSchema, input: boolean): string {
  const name = nameOf(component);
  const { description } = schema;
  if (!isClass(schema)) {
    const text = description === undefined ? "" : `\n${docstring(description, "")}`;
    return `${name} = ${typeOf(schema)}${text}`;
  }
  const base = schema.allOf?.find(({ $ref }) => $ref !== undefined)?.$ref;
  const own = schema.properties ?? schema.allOf?.find((part) => part.properties)?.properties ?? {};
  const required = new Set(
    [schema, ...(schema.allOf ?? [])].flatMap((part) => part.required ?? []),
  );
  const fields = Object.entries(own).map(([field, part]) =>
    fieldOf(field, part, { required: required.has(field), input }),
  );
  const said = description === undefined ? [] : [docstring(description, "    "), ""];
  return [
    "@dataclass(frozen=True, slots=True, kw_only=True)",
    `class ${name}${base === undefined ? "" : `(${nameOf(base)})`}:`,
    ...said,
    ...(fields.length === 0 ? ["    pass"] : fields),
  ].join("\n");
}

type Kind = { readonly required: boolean; readonly input: boolean };

function fieldOf(name: string, schema: JsonSchema, { required, input }: Kind): string {
  const type = typeOf(schema);
  const text = schema.description === undefined ? "" : `\n${docstring(schema.description, "    ")}`;
  const head = `    ${fieldName(name)}: ${type}`;
  if (required) return `${head}${SECRET.has(name) ? " = field(repr=False)" : ""}${text}`;
  // A quote of several gets a key of its own, so that the call can be repeated.
  if (input && name === "idempotency_key") return `${head} = field(default_factory=new_key)${text}`;
  // Amounts are text on the wire, and null has a meaning.
  const amount = isAmount(schema) ? ", metadata=AMOUNT" : "";
  if (input && isNullable(schema)) return `${head} | Unset = field(default=UNSET${amount})${text}`;
  const none = type.split(" | ").includes("None") ? "" : " | None";
  return `${head}${none} = ${amount !== "" && input ? "field(default=None, metadata=AMOUNT)" : "None"}${text}`;
}
