/**
 * `node scripts/docs-script.ts <version>`: fetches the reference page's script of that version of @scalar/api-reference and
 * puts it, gzipped, where src/http/reference/script.ts takes it from. Without a version it compares what lies there with the package.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { ROOT } from "./stack/bundle.ts";

const PACKAGE = "@scalar/api-reference";
const FILE = /^scalar-(.+)\.js\.gz\.bin$/;
const DOCS = join(ROOT, "src", "docs");

const [present] = readdirSync(DOCS).flatMap((name) => FILE.exec(name)?.[1] ?? []);
const version = process.argv[2] ?? present;
if (version === undefined || !/^\d+\.\d+\.\d+$/.test(version))
  throw new Error("usage: node scripts/docs-script.ts [version]");
const script = fetchScript(version);
if (process.argv[2] === undefined) {
  const same = gunzipSync(readFileSync(join(DOCS, `scalar-${version}.js.gz.bin`))).equals(script);
  console.log(
    same
      ? `ok: the script of ${PACKAGE} ${version}, byte for byte`
      : `not the script of ${PACKAGE} ${version}`,
  );
  process.exitCode = same ? 0 : 1;
} else {
  if (present !== undefined) rmSync(join(DOCS, `scalar-${present}.js.gz.bin`));
  writeFileSync(join(DOCS, `scalar-${version}.js.gz.bin`), gzipSync(script, { level: 9 }));
  console.log(
    `Now name ${version} in src/http/reference/script.ts, twice, and run test/journeys/reference.test.ts.`,
  );
}

/** npm checks the package against its own integrity hash. */
function fetchScript(of: string): Buffer {
  const dir = mkdtempSync(join(tmpdir(), "scalar-"));
  try {
    run("npm", ["pack", "--silent", `${PACKAGE}@${of}`], dir);
    const [archive = ""] = readdirSync(dir);
    run("tar", ["xzf", archive, "package/dist/browser/standalone.js"], dir);
    return readFileSync(join(dir, "package", "dist", "browser", "standalone.js"));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function run(program: string, args: string[], cwd: string): void {
  const { status, error } = spawnSync(program, args, {
    cwd,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) throw error ?? new Error(`${program} ${args.join(" ")} ended with ${status}`);
}
