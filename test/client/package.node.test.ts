/** The packed client, installed in another project. */
import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

const SOURCE = resolve("packages/client");
/** At the depth of the package, so that its build finds the compiler and the base tsconfig. */
const COPY = resolve(".stack", `client-${process.pid}`);
/** Inside the repository, where the smoke test finds ws and the compiler finds types. */
const STRANGER = join(COPY, "stranger");
const INSTALLED = join(STRANGER, "node_modules", "@rfq-custody", "client");
/** Outside the repository, so that only the client is installed. */
const BOT = mkdtempSync(join(tmpdir(), "bot-"));
const TSC = resolve("node_modules/.bin/tsc");
/** 97 KB when this was written: 35 KB of JavaScript, 56 KB of documented types, 6 KB of texts. */
const MOST_UNPACKED_BYTES = 272_000;
const run = promisify(execFile);

type Packed = { filename: string; unpackedSize: number; files: { path: string }[] };

let packed: Packed;

beforeAll(async () => {
  // Packs a copy, because packing rebuilds `dist`, which other tests use at the same time.
  mkdirSync(STRANGER, { recursive: true });
  for (const name of ["package.json", "tsconfig.json", "README.md", "LICENSE", "src"])
    cpSync(join(SOURCE, name), join(COPY, name), { recursive: true });
  const { stdout } = await npm(COPY, ["pack", "--json"]);
  [packed] = JSON.parse(stdout) as [Packed];
  for (const folder of [STRANGER, BOT]) {
    const manifest = { name: "stranger", type: "module", private: true };
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
    await npm(folder, ["install", "--offline", join(COPY, packed.filename)]);
  }
}, 60_000);
afterAll(() => {
  for (const folder of [COPY, BOT]) rmSync(folder, { recursive: true, force: true });
});

/** npm as a person runs it: without the variables that the `npm run` around this test has set. */
function npm(cwd: string, args: readonly string[]) {
  const env = { ...process.env };
  for (const name of Object.keys(env)) if (name.startsWith("npm_")) delete env[name];
  return run("npm", [...args, "--no-audit", "--no-fund"], { cwd, env });
}

it("has no dependencies but an optional one", () => {
  const manifest = JSON.parse(readFileSync(join(INSTALLED, "package.json"), "utf8"));
  expect(Object.keys(manifest).filter((name) => /dependencies$/i.test(name))).toEqual([
    "peerDependencies",
  ]);
  expect(manifest.peerDependenciesMeta).toEqual({ standardwebhooks: { optional: true } });
  expect(Object.keys(manifest.peerDependencies)).toEqual(["standardwebhooks"]);
  expect(
    readdirSync(join(BOT, "node_modules")).filter((name) => name !== ".package-lock.json"),
  ).toEqual(["@rfq-custody"]);
  expect(readdirSync(join(BOT, "node_modules", "@rfq-custody"))).toEqual(["client"]);
});

it("packs only the built files, README and licence, and stays small", () => {
  const others = packed.files
    .map(({ path }) => path)
    .filter((path) => !/^dist\/[\w-]+\.(js|d\.ts)$/.test(path));
  expect(others.toSorted()).toEqual(["LICENSE", "README.md", "package.json"]);
  expect(packed.unpackedSize).toBeLessThan(MOST_UNPACKED_BYTES);
  expect(readFileSync(join(INSTALLED, "LICENSE"), "utf8")).toBe(readFileSync("LICENSE", "utf8"));
});

it("imports only its own files", () => {
  const built = join(INSTALLED, "dist");
  const imports = readdirSync(built)
    .filter((file) => file.endsWith(".js"))
    .flatMap((file) =>
      [...readFileSync(join(built, file), "utf8").matchAll(/(?:from|import)\s*\(?"([^"]+)"/g)].map(
        (found) => found[1] ?? "",
      ),
    );
  expect(imports.length).toBeGreaterThan(10);
  const others = imports.filter((name) => !/^\.\/[\w-]+\.js$/.test(name));
  // Only in verify-webhook.js, which nothing else imports.
  expect(others).toEqual(["standardwebhooks"]);
  expect(imports).not.toContain("./verify-webhook.js");
});

/** The Node of this test, and the system's, which may be older. */
const NODES = [...new Set([process.execPath, "/usr/bin/node"])].flatMap((path) => {
  try {
    const version = execFileSync(path, ["--version"]).toString().trim();
    return Number(/^v(\d+)/.exec(version)?.[1]) >= 20 ? [{ path, version }] : [];
  } catch {
    return [];
  }
});

it.each(NODES)("runs in Node $version", { timeout: 60_000 }, async ({ path, version }) => {
  cpSync("test/client/smoke.mjs", join(STRANGER, "smoke.mjs"));
  const { stdout } = await run(path, [join(STRANGER, "smoke.mjs")], { timeout: 30_000 });
  expect(stdout.trim()).toBe(`ok ${version}`);
});

it.each(["taker.ts", "market-maker.ts"])(
  "is the only package that examples/%s needs",
  async (example) => {
    for (const file of ["settings.ts", example]) cpSync(join("examples", file), join(BOT, file));
    const ran = await run(process.execPath, [example], { cwd: BOT, timeout: 30_000 }).then(
      () => expect.fail("it needs arguments"),
      (error: Error & { stderr: string }) => error.stderr,
    );
    expect(ran).toBe(`usage: npx node examples/${example} ${USAGE[example]}\n`);
  },
);

const USAGE: Record<string, string> = {
  "taker.ts": "<venue> <asset_id> <amount> <Bid|Ask>",
  "market-maker.ts": "<venue>",
};

const STRANGERS = [
  {
    where: "Node, without DOM types",
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

it.each(STRANGERS)("has valid types in $where", { timeout: 60_000 }, async ({ options }) => {
  const code = `
    import { Client, Problem, sign } from "@rfq-custody/client";
    import { verifyWebhook } from "@rfq-custody/client/webhooks";
    const client = new Client({ baseUrl: "http://127.0.0.1:8787", fetch, webSocket: WebSocket });
    export const balance: bigint = (await client.custody.usdcBalance()).balance;
    const signed = { secret: "s", timestampMs: 1, method: "GET", pathAndQuery: "/" };
    export const signature: string = await sign(signed);
    for await (const message of client.accountStream())
      if (message.type === "match.created") console.log(message.data.fee + 1n);
    const { type, seq } = verifyWebhook("whsec_", "{}", new Headers());
    export const seen: number | null = type === "match.created" ? seq : null;
    export const code = (error: unknown) => (error instanceof Problem ? error.code : null);
  `;
  writeFileSync(join(STRANGER, "stranger.ts"), code);
  const compilerOptions = {
    ...options,
    target: "ES2022",
    strict: true,
    noEmit: true,
    skipLibCheck: false,
  };
  writeFileSync(
    join(STRANGER, "tsconfig.json"),
    JSON.stringify({ compilerOptions, include: ["stranger.ts"] }),
  );
  const output = await run(TSC, ["-p", STRANGER, "--pretty", "false"]).then(
    () => "",
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  );
  // Ignores errors inside the types of other packages.
  expect(output.split("\n").filter((line) => /stranger\.ts|rfq-custody|TS2307/.test(line))).toEqual(
    [],
  );
});
