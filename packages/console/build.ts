/**
 * `npm run build:console` builds the console into dist/assets/, which the Worker serves
 * (wrangler.toml, [assets]). wrangler runs it before it bundles, and vitest.config.ts before the
 * tests. It does nothing if the files are already there.
 */
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  globSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { build } from "vite";

const HERE = import.meta.dirname;
const ROOT = join(HERE, "../..");
const ASSETS = join(ROOT, "dist", "assets");
const CONSOLE = join(ASSETS, "console");
/** Names the sources that the files were made from. It is beside the folder that is served. */
const STAMP = join(ROOT, "dist", "console.version");
const SOURCES = [
  "packages/console/index.html",
  "packages/console/*.{ts,json}",
  "packages/console/src/**/*",
  "packages/client/src/**/*",
  "package-lock.json",
];

/** The page loads nothing from elsewhere, and no script or style that is not a file of its own. */
const HEADERS = `/console/*
  Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
  Cross-Origin-Opener-Policy: same-origin
  Cross-Origin-Resource-Policy: same-origin
  Permissions-Policy: camera=(), geolocation=(), microphone=(), payment=(), usb=()
  Referrer-Policy: no-referrer
  Strict-Transport-Security: max-age=31536000; includeSubDomains
  X-Content-Type-Options: nosniff
  X-Frame-Options: DENY
/console/assets/*
  Cache-Control: public, max-age=31536000, immutable
`;

export async function buildConsole(): Promise<void> {
  const version = sourcesHash();
  const index = join(CONSOLE, "index.html");
  if (existsSync(index) && existsSync(STAMP) && readFileSync(STAMP, "utf8") === version) return;
  // A folder of its own, because several builds may run at once.
  const draft = join(ROOT, "dist", `console-${process.pid}`);
  // With vitest's "test" vite would take React's larger files for development.
  const before = process.env["NODE_ENV"];
  process.env["NODE_ENV"] = "production";
  await build({
    configFile: false,
    root: HERE,
    logLevel: "warn",
    // The Worker serves the files under /console/ (wrangler.toml, [assets]).
    base: "/console/",
    // The source of the client, so that the console needs no build of it.
    resolve: { alias: { "@rfq-custody/client": join(ROOT, "packages/client/src/index.ts") } },
    build: {
      outDir: draft,
      emptyOutDir: true,
      modulePreload: false,
      rolldownOptions: {
        // Directives for servers of React components mean nothing here.
        onwarn: (warning, warn) => {
          if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
        },
      },
    },
  });
  if (before !== undefined) process.env["NODE_ENV"] = before;
  const made = new Set(globSync("assets/*", { cwd: draft }));
  // The page comes last, because it names the others.
  cpSync(join(draft, "assets"), join(CONSOLE, "assets"), { recursive: true });
  renameSync(join(draft, "index.html"), index);
  writeFileSync(join(ASSETS, "_headers"), HEADERS);
  for (const file of globSync("assets/*", { cwd: CONSOLE }))
    if (!made.has(file)) rmSync(join(CONSOLE, file));
  rmSync(draft, { recursive: true });
  writeFileSync(STAMP, version);
}

function sourcesHash(): string {
  const hash = createHash("sha256").update(HEADERS);
  const files = SOURCES.flatMap((pattern) => globSync(pattern, { cwd: ROOT, withFileTypes: true }));
  for (const file of files.filter((entry) => entry.isFile())) {
    const path = join(file.parentPath, file.name);
    hash.update(relative(ROOT, path)).update(readFileSync(path));
  }
  return hash.digest("hex");
}

if (import.meta.main) await buildConsole();
