/**
 * `node scripts/openapi.ts write` writes what is generated from the routes: docs/openapi.json,
 * docs/asyncapi.json and the generated part of the Python client. `check` fails if one of them is
 * out of date, or if a field, parameter or body has no example.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { createApp } from "../src/app.ts";
import { describeApi, type OpenApi } from "./openapi/describe.ts";
import { bundleStreams, type Streams } from "./openapi/bundle-streams.ts";
import { pythonModels } from "./openapi/python-models.ts";
import { pythonProblems } from "./openapi/python-problems.ts";
import { pythonOperations } from "./openapi/python-operations.ts";
import { pythonSync } from "./openapi/python-sync.ts";
import { ROOT } from "./stack/bundle.ts";

process.exitCode = main(process.argv[2]);

function main(verb: string | undefined): number {
  const document = describeApi(createApp());
  const lacking = withoutExample(document);
  if (lacking.length > 0) {
    console.error(`No example (scripts/openapi/samples.ts):\n  ${lacking.join("\n  ")}`);
    return 1;
  }
  const files = generated(document);
  const outdated = files.filter(([path, text]) => readText(join(ROOT, path)) !== text);
  switch (verb) {
    case "write":
      for (const [path, text] of outdated) writeFileSync(join(ROOT, path), text);
      return 0;
    case "check":
      for (const [path] of outdated)
        console.error(`${path} is out of step with the code: npm run openapi`);
      return outdated.length === 0 ? 0 : 1;
    default:
      console.error("usage: node scripts/openapi.ts write|check");
      return 2;
  }
}

/** The path and text of each generated file. */
function generated(document: OpenApi): [path: string, text: string][] {
  // Safe cast: the file is the project's own, and redocly checks it.
  const source = parse(readFileSync(join(ROOT, "docs", "asyncapi.yaml"), "utf8")) as Streams;
  const schemas = document.components?.schemas ?? {};
  const streams = bundleStreams(source, schemas, document.info.version);
  const operations = pythonOperations(document);
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  return [
    ["docs/openapi.json", json(document)],
    ["docs/asyncapi.json", json(streams)],
    ["packages/client-python/src/rfq_custody/models.py", pythonModels(document, streams)],
    ["packages/client-python/src/rfq_custody/operations.py", operations],
    ["packages/client-python/src/rfq_custody/sync_operations.py", pythonSync(operations)],
    ["packages/client-python/src/rfq_custody/problems.py", pythonProblems(document)],
  ];
}

function withoutExample({ paths }: OpenApi): string[] {
  const lacking: string[] = [];
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const note = (where: string, example: unknown) => {
        if (!isWhole(example)) lacking.push(`${method} ${path} ${where}`);
      };
      for (const { name, example } of operation.parameters ?? []) note(name, example);
      for (const media of Object.values(operation.requestBody?.content ?? {}))
        note("body", media.example);
      for (const [status, response] of Object.entries(operation.responses)) {
        for (const media of Object.values(response.content ?? {}))
          note(status, media.examples ?? media.example);
      }
    }
  }
  return lacking;
}

function isWhole(example: unknown): boolean {
  if (typeof example === "object" && example !== null) return Object.values(example).every(isWhole);
  return example !== undefined;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
