/**
 * The OpenAPI description of the whole service: what the routes say of themselves, with what no single route can say,
 * and an example for everything.
 */
import { API_VERSION, HEADERS, SECURITY_SCHEMES } from "../openapi.ts";
import { exampleOf, type JsonSchema, type Schemas } from "./examples.ts";
import { INTRODUCTION, TAGS } from "./introduction.ts";
import { problemExamples } from "./problem-examples.ts";
import type { Api } from "../route-definition.ts";

export function describeApi(app: Api): OpenApi {
  const document = asDocument(
    app.hono.getOpenAPI31Document({
      openapi: "3.1.0",
      info: {
        title: "Custody and RFQ trading",
        version: API_VERSION,
        description: INTRODUCTION,
      },
      servers: [{ url: "/", description: "The service that this description came from" }],
      tags: TAGS,
    }),
  );
  // OpenAPI 3.1 names licences by their SPDX identifier, which the generator's types do not know.
  document.info.license = { name: "MIT", identifier: "MIT" };
  document.components = {
    ...document.components,
    securitySchemes: SECURITY_SCHEMES,
    headers: HEADERS,
    examples: problemExamples(),
  };
  addExamples(document);
  return document;
}

type Media = { schema?: JsonSchema; example?: unknown; examples?: unknown };
type Parameter = { name: string; schema?: JsonSchema; example?: unknown };
export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
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
  }
}

/** The generator types its document after a specification library; this is the part of it that is worked on here. */
function asDocument(document: unknown): OpenApi {
  return document as OpenApi;
}
