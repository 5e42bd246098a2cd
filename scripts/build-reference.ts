/**
 * `npm run build:reference` writes to dist/reference/ what src/http/reference/ imports from there:
 * the script of the reference page, gzipped, and docs/openapi.json and docs/asyncapi.json as short
 * JSON. wrangler runs it before it bundles, and vitest.config.ts before the tests. It writes only
 * what is missing or has changed.
 *
 * The script is taken from Scalar's plugin for Fastify, which carries it as a text. The package
 * that the script is built from, @scalar/api-reference, would bring 277 other packages.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";

const PLUGIN = "@scalar/fastify-api-reference";
const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(ROOT, "dist", "reference");
const SCRIPT = join(FOLDER, "scalar.js.gz.bin");
const DOCS = join(ROOT, "docs");
/** Names the version of the package that the file was made from. */
const STAMP = join(FOLDER, "version");

type Reply = { header(name: string, value: string): Reply; send(content: string): unknown };
type Route = { url: string; handler(request: unknown, reply: Reply): unknown };
type Plugin = (
  fastify: { route(route: Route): void },
  options: { routePrefix: string; configuration: { url: string } },
  done: () => void,
) => void;

export async function buildReference(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  writeDescription("openapi", JSON.parse(readFileSync(join(DOCS, "openapi.json"), "utf8")));
  writeDescription("asyncapi", JSON.parse(readFileSync(join(DOCS, "asyncapi.json"), "utf8")));
  await writeScript();
}

function writeDescription(name: string, description: unknown): void {
  const file = join(FOLDER, `${name}.json.bin`);
  const text = JSON.stringify(description);
  if (!existsSync(file) || readFileSync(file, "utf8") !== text) replaceFile(file, text);
}

async function writeScript(): Promise<void> {
  const folder = dirname(dirname(createRequire(import.meta.url).resolve(PLUGIN)));
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    version: string;
  };
  if (existsSync(SCRIPT) && existsSync(STAMP) && readFileSync(STAMP, "utf8") === version) return;
  const license = readFileSync(join(folder, "LICENSE"), "utf8").trim();
  const script = `/*! ${PLUGIN} ${version}\n\n${license}\n*/\n${await readScript()}`;
  replaceFile(SCRIPT, gzipSync(script, { level: 9 }));
  replaceFile(STAMP, version);
}

/** Registers the plugin as Fastify would, and asks its route for the script. */
async function readScript(): Promise<string> {
  const { default: plugin } = (await import(PLUGIN)) as { default: Plugin };
  const routes: Route[] = [];
  const configuration = { url: "/openapi.json" };
  plugin({ route: (route) => routes.push(route) }, { routePrefix: "/", configuration }, () => {});
  const route = routes.find(({ url }) => url.endsWith(".js"));
  let script = "";
  const reply: Reply = {
    header: () => reply,
    send: (content) => (script = content),
  };
  route?.handler({}, reply);
  if (!script.includes("createApiReference")) throw new Error(`${PLUGIN} serves no script.`);
  return script;
}

/** Readers see the old file or the new one, because several builds may run at once. */
function replaceFile(path: string, content: Buffer | string): void {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, content);
  renameSync(draft, path);
}

if (import.meta.main) await buildReference();
