/**
 * The OpenAPI description of the service: the routes, the parts that all routes share, and an
 * example of every parameter and body.
 */
import {
  OpenApiGeneratorV31,
  OpenAPIRegistry,
  zodToOpenAPIRegistry,
} from "@asteasolutions/zod-to-openapi";
import * as z from "zod";
import type { Api } from "../../src/http/route-definition.ts";
import { VERSION } from "../../src/platform/version.ts";
import { describeRoute, HEADERS, SECURITY_SCHEMES } from "./describe-route.ts";
import { addReceipt } from "./example-receipt.ts";
import { exampleOf, type JsonSchema, type Schemas } from "./examples.ts";
import { INTRODUCTION, TAGS } from "./introduction.ts";
import { nameObjects } from "./name-objects.ts";
import { nameSchemas } from "./name-schemas.ts";
import { problemExamples } from "./problem-examples.ts";
import { sayDefaults } from "./say-defaults.ts";
import { addLinks, namePages, shareResponses } from "./share-parts.ts";

/**
 * The names of schemas are in zod's own registry (`.meta({ id })`), so the Worker needs nothing of
 * the generator. The generator loses the name of a schema that is made nullable and then described,
 * unless its own registry has it.
 */
zodToOpenAPIRegistry.get = (schema) => {
  const id = z.globalRegistry.get(schema)?.id;
  return id === undefined ? undefined : { _internal: { refId: id } };
};

export function describeApi(app: Api): OpenApi {
  const registry = new OpenAPIRegistry();
  for (const route of app.documented) registry.registerPath(describeRoute(route));
  const document = asDocument(
    new OpenApiGeneratorV31(registry.definitions).generateDocument({
      openapi: "3.1.0",
      info: {
        title: "Custody and RFQ trading",
        version: VERSION,
        description: INTRODUCTION,
      },
      servers: [{ url: "/", description: "The service that returned this description" }],
      tags: TAGS,
    }),
  );
  // The generator's types do not contain the SPDX identifier of OpenAPI 3.1.
  document.info.license = { name: "MIT", identifier: "MIT" };
  const schemas = { ...document.components?.schemas };
  document.components = {
    ...document.components,
    schemas,
    securitySchemes: SECURITY_SCHEMES,
    headers: HEADERS,
    examples: problemExamples(),
  };
  addExamples(document);
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  nameSchemas(document.paths, schemas);
  namePages(operations, schemas);
  nameObjects(operations, schemas);
  sayDefaults(operations, schemas);
  addLinks(document.paths);
  document.components["responses"] = shareResponses(operations);
  return document;
}

type Media = { schema?: JsonSchema; example?: unknown; examples?: unknown };
type Parameter = {
  name: string;
  in?: string;
  required?: boolean;
  description?: string;
  schema?: JsonSchema;
  example?: unknown;
};
export type Response = {
  $ref?: string;
  content?: Record<string, Media>;
  links?: Record<string, unknown>;
};
export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, Response>;
};
export type OpenApi = {
  openapi: string;
  info: { version: string; license?: { name: string; identifier: string } };
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Schemas; [kind: string]: unknown };
};

function addExamples({ paths, components }: OpenApi): void {
  const schemas = components?.schemas ?? {};
  for (const operation of Object.values(paths).flatMap((operations) => Object.values(operations))) {
    for (const parameter of operation.parameters ?? [])
      parameter.example = exampleOf(parameter.schema ?? {}, schemas, parameter.name);
    const bodies = [
      operation.requestBody?.content,
      ...Object.values(operation.responses).map((response) => response.content),
    ];
    for (const [type, media] of bodies.flatMap((content) => Object.entries(content ?? {}))) {
      if (media.examples === undefined)
        media.example = exampleOf(media.schema ?? {}, schemas, type);
    }
    addReceipt(operation);
  }
}

/** Safe cast: `OpenApi` is the part of the generator's document type that this file uses. */
function asDocument(document: unknown): OpenApi {
  return document as OpenApi;
}
