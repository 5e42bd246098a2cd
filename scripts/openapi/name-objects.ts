/**
 * Gives every object of the description a name in `components`: a body by its operation
 * (`AcceptQuoteBody`), a response likewise (`EndSessionsResult`), and an object within another by
 * its field (`WithdrawalFailure`). Without a name, each generator invents its own.
 */
import type { Operation } from "./describe.ts";
import { fieldsOfChoice, type JsonSchema } from "./examples.ts";

/** Better names than those by the rule. Changing one renames a type of generated clients. */
const BETTER: Readonly<Record<string, string>> = {
  ApiKeyLimits: "KeyLimits",
  CancelQuoteResult: "CancelledQuote",
  CancelQuotesResult: "CancelledQuotes",
  CancelRequestResult: "CancelledRequest",
  ConfigChainsItem: "ChainConfig",
  ConfigVenuesItem: "VenueConfig",
  ConfirmTotpResult: "TotpCodes",
  CreateApiKeyBody: "NewApiKey",
  NewApiKeyLimits: "NewKeyLimits",
  CreateQuoteBody: "QuoteTerms",
  CreateQuotesBody: "SeveralQuotes",
  SeveralQuotesQuotesItem: "SeveralQuotesItem",
  CreateQuotesResult: "QuoteResults",
  CreateRequestBody: "RequestTerms",
  EndSessionsResult: "EndedSessions",
  EnrolTotpResult: "TotpSecret",
  GetHealthResult: "Health",
  GetSigningKeysResult: "SigningKeys",
  GetTimeResult: "ServerTime",
  ListDepositAddressesResult: "DepositAddresses",
  PolicyStatePolicy: "Policy",
  PolicyStateUsed: "PolicyUse",
  ProblemErrorsItem: "FieldError",
  ProblemSigned: "SignedParts",
  RemoveTotpResult: "TotpRemoval",
  RequestItemBestPrices: "BestPrices",
  SetPolicyBody: "PolicyChange",
  SetProtectionBody: "ProtectionTerms",
  WhoAmITotp: "TotpState",
  WithdrawBody: "WithdrawalTerms",
};

type Schemas = Record<string, JsonSchema>;

export function nameObjects(operations: readonly Operation[], schemas: Schemas): void {
  // Equal objects share the name of the first.
  const names = new Map<string, string>();
  const unused = new Set(Object.keys(BETTER));
  for (const [name, schema] of Object.entries(schemas)) nameWithin(name, schema);
  for (const { operationId, requestBody, responses } of operations) {
    const subject = capital(operationId);
    for (const media of Object.values(requestBody?.content ?? {}))
      media.schema = named(`${subject}Body`, media.schema);
    for (const media of Object.values(responses).flatMap(({ content }) =>
      Object.values(content ?? {}),
    ))
      media.schema = named(`${subject}Result`, media.schema);
  }
  if (unused.size > 0) throw new Error(`No object is named ${[...unused].join(", ")} by the rule.`);

  /** A reference to the object. Other schemas and `any object` stay as they are. */
  function named(rule: string, schema: JsonSchema | undefined): JsonSchema {
    if (schema?.properties === undefined) return schema ?? {};
    nameWithin(rule, schema);
    const { description, type, ...rules } = schema;
    const object = { type: "object", ...rules };
    const text = JSON.stringify(object);
    if (!names.has(text)) unused.delete(rule);
    const name = names.get(text) ?? BETTER[rule] ?? rule;
    if (!names.has(text) && schemas[name] !== undefined)
      throw new Error(`Two schemas would be named ${name} (scripts/openapi/name-objects.ts).`);
    names.set(text, name);
    const said = description === undefined ? {} : { description };
    schemas[name] ??= object.oneOf === undefined ? { ...object, ...said } : variants(name, object);
    const reference = { $ref: `#/components/schemas/${name}` };
    return [type].flat().includes("null")
      ? { anyOf: [reference, { type: "null" }], ...said }
      : { ...reference, ...said };
  }

  /**
   * An object of which exactly one of several sets of fields is given, as one object for each of
   * them. Generators drop the properties beside a `oneOf`.
   */
  function variants(name: string, { oneOf = [], properties = {}, ...rules }: JsonSchema) {
    const choices = oneOf.flatMap(fieldsOfChoice);
    return {
      oneOf: oneOf.map((choice) => {
        const own = fieldsOfChoice(choice);
        const kept = ([field]: [string, unknown]) =>
          own.includes(field) || !choices.includes(field);
        const variant = `${name}By${capital(own[0] ?? "")}`;
        schemas[variant] = {
          ...rules,
          properties: Object.fromEntries(Object.entries(properties).filter(kept)),
          required: [...(rules.required ?? []), ...(choice.required ?? [])],
        };
        return { $ref: `#/components/schemas/${variant}` };
      }),
    };
  }

  function nameWithin(name: string, schema: JsonSchema): void {
    const parts = [schema, ...(schema.allOf ?? [])];
    for (const [field, part] of parts.flatMap(({ properties }) => fieldsOf(properties))) {
      const rule = BETTER[name] ?? name;
      part.schemas[field] = named(rule + capital(field), part.schema);
      if (part.schema.items !== undefined)
        part.schema.items = named(`${rule}${capital(field)}Item`, part.schema.items);
    }
  }
}

function fieldsOf(properties: Schemas = {}): [string, { schemas: Schemas; schema: JsonSchema }][] {
  return Object.entries(properties).map(([field, schema]) => [
    field,
    { schemas: properties, schema },
  ]);
}

export function capital(field: string): string {
  return field
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}
