/**
 * `node scripts/openapi.ts write` writes docs/openapi.json from the routes. `check` fails if the
 * file is out of date, or if a field, parameter or body has no example.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createApp } from "../src/app.ts";
import { describeApi, type OpenApi } from "./openapi/describe.ts";
import { ROOT } from "./stack/bundle.ts";

const FILE = join(ROOT, "docs", "openapi.json");

process.exitCode = main(process.argv[2]);

function main(verb: string | undefined): number {
  const document = describeApi(createApp());
  const text = `${JSON.stringify(document, null, 2)}\n`;
  const lacking = withoutExample(document);
  if (lacking.length > 0) {
    console.error(`No example (scripts/openapi/samples.ts):\n  ${lacking.join("\n  ")}`);
    return 1;
  }
  switch (verb) {
    case "write":
      writeFileSync(FILE, text);
      return 0;
    case "check":
      if (readText(FILE) === text) return 0;
      console.error("docs/openapi.json is out of step with the code: npm run openapi");
      return 1;
    default:
      console.error("usage: node scripts/openapi.ts write|check");
      return 2;
  }
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
