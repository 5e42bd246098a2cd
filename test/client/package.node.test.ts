/** The client as others get it: built, packed by the exports of package.json, in the oldest Node here, checked by a stranger's compiler. */
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

const WORK = resolve(".stack", `client-${process.pid}`);
const PACKAGE = join(WORK, "node_modules", "rfq-custody");
const TSC = resolve("node_modules/.bin/tsc");
const run = promisify(execFile);

type PackageJson = {
  name: string;
  version: string;
  type: string;
  exports: Record<string, Record<string, string> | string>;
};

beforeAll(async () => {
  mkdirSync(PACKAGE, { recursive: true });
  const { name, version, type, exports } = JSON.parse(
    readFileSync("package.json", "utf8"),
  ) as PackageJson;
  writeFileSync(join(PACKAGE, "package.json"), JSON.stringify({ name, version, type, exports }));
  // A package of its own, or its imports would mean this repository.
  writeFileSync(
    join(WORK, "package.json"),
    JSON.stringify({ name: "stranger", type: "module", private: true }),
  );
  await run(TSC, ["-p", "src/client/tsconfig.json", "--outDir", join(PACKAGE, "dist/client")]);
}, 60_000);
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

/** This one, and the system's, which may be older. */
const NODES = [...new Set([process.execPath, "/usr/bin/node"])].flatMap((path) => {
  try {
    const version = execFileSync(path, ["--version"]).toString().trim();
    return Number(/^v(\d+)/.exec(version)?.[1]) >= 20 ? [{ path, version }] : [];
  } catch {
    return [];
  }
});

it.each(NODES)("runs in Node $version", { timeout: 60_000 }, async ({ path, version }) => {
  copyFileSync("test/client/smoke.mjs", join(WORK, "smoke.mjs"));
  const { stdout } = await run(path, [join(WORK, "smoke.mjs")], { timeout: 30_000 });
  expect(stdout.trim()).toBe(`ok ${version}`);
});

it("imports nothing but its own files", () => {
  const built = join(PACKAGE, "dist/client");
  const imports = readdirSync(built)
    .filter((file) => file.endsWith(".js"))
    .flatMap((file) =>
      [...readFileSync(join(built, file), "utf8").matchAll(/(?:from|import)\s*\(?"([^"]+)"/g)].map(
        (found) => found[1] ?? "",
      ),
    );
  expect(imports.length).toBeGreaterThan(10);
  expect(imports.filter((name) => !/^\.\/[\w-]+\.js$/.test(name))).toEqual([]);
});

const STRANGERS = [
  {
    where: "Node, without the DOM's types",
    options: { module: "NodeNext", lib: ["ES2022"], types: ["node"] },
  },
  {
    where: "a browser's bundler",
    options: { module: "ESNext", moduleResolution: "Bundler", lib: ["ES2022", "DOM"], types: [] },
  },
  {
    where: "a Worker",
    options: {
      module: "ESNext",
      moduleResolution: "Bundler",
      lib: ["ES2022"],
      types: ["@cloudflare/workers-types"],
    },
  },
];

it.each(STRANGERS)("has types that hold in $where", { timeout: 60_000 }, async ({ options }) => {
  const code = `
    import { Client, Problem, sign } from "rfq-custody/client";
    const client = new Client({ baseUrl: "http://127.0.0.1:8787", fetch, webSocket: WebSocket });
    export const balance: bigint = (await client.custody.usdcBalance()).balance;
    export const signature: string = await sign({ secret: "s", timestampMs: 1, method: "GET", pathAndQuery: "/" });
    for await (const message of client.accountStream()) if (message.type === "match.created") console.log(message.data.fee + 1n);
    export const code = (error: unknown) => (error instanceof Problem ? error.code : null);
  `;
  writeFileSync(join(WORK, "stranger.ts"), code);
  const compilerOptions = {
    ...options,
    target: "ES2022",
    strict: true,
    noEmit: true,
    skipLibCheck: false,
  };
  writeFileSync(
    join(WORK, "tsconfig.json"),
    JSON.stringify({ compilerOptions, include: ["stranger.ts"] }),
  );
  const told = await run(TSC, ["-p", WORK, "--pretty", "false"]).then(
    () => "",
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  );
  // Only what the client has to answer for: the types of others are theirs.
  expect(told.split("\n").filter((line) => /stranger\.ts|rfq-custody|TS2307/.test(line))).toEqual(
    [],
  );
});
