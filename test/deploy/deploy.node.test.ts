/** `npm run deploy` against an account in a file. The real wrangler applies the migrations once. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { keccak256 } from "viem";
import { afterEach, describe, expect, it } from "vitest";
import { bindingOf } from "../../scripts/operator/channel.ts";
import { deploy } from "../../scripts/deploy/deploy.ts";
import { type Run, runWrangler } from "../../scripts/deploy/wrangler.ts";
import { itInRelease } from "../support/depth.ts";
import { Account, DATABASE_ID } from "./stub-account.ts";

const ENV = "staging";
const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** A checkout with settings, and an empty account. */
function scene() {
  const root = mkdtempSync(join(tmpdir(), "deploy-"));
  roots.push(root);
  cpSync("wrangler.toml", join(root, "wrangler.toml"));
  symlinkSync(resolve("migrations"), join(root, "migrations"));
  const artifacts = join(root, "contracts", "artifacts");
  mkdirSync(artifacts, { recursive: true });
  for (const name of ["Vault", "DepositFactory"])
    writeFileSync(
      join(artifacts, `${name}.json`),
      JSON.stringify({ deployedBytecodeHash: keccak256("0x01") }),
    );
  const settings = JSON.parse(readFileSync("deploy.example.json", "utf8")) as object;
  const vars = { HEARTBEAT_URL: "https://watch.example" };
  writeFileSync(join(root, `deploy.${ENV}.json`), JSON.stringify({ ...settings, vars }));
  return { root, account: new Account(join(root, "account.json")), lines: [] as string[] };
}

type Scene = ReturnType<typeof scene>;

function run(
  { root, account, lines }: Scene,
  given: { plan?: boolean; wrangler?: Run; code?: string } = {},
): Promise<void> {
  return deploy({
    env: ENV,
    plan: given.plan ?? false,
    root,
    wrangler: given.wrangler ?? account.run,
    operator: async () => ({ code: 1, stdout: '{"ok":true,"result":{"ok":false}}', stderr: "" }),
    rpc: async (_, method) => (method === "eth_chainId" ? "0x89" : (given.code ?? "0x01")),
    log: (line) => lines.push(line),
  });
}

const secretsPath = ({ root }: Scene) => join(root, `.secrets.${ENV}.json`);

describe("npm run deploy", () => {
  it("makes the same account wherever it was killed before", async () => {
    const whole = scene();
    await run(whole);
    const expected = whole.account.shown();
    const lock = (name: string) => ({
      location: "weur",
      locks: [`${name} ${name}/ indefinite`],
    });
    expect(expected).toMatchObject({
      queues: ["acme-staging-withdrawals", "acme-staging-withdrawals-dead"],
      buckets: { "acme-staging-archive": lock("journal"), "acme-staging-audit": lock("audit") },
      config: {
        vars: { DEPLOYMENT: "acme-staging", BOOK_LOCATION: "weur", RATE_LIMITS: "on" },
        triggers: { crons: ["* * * * *"] },
        d1_databases: [{ database_name: "acme-staging", database_id: DATABASE_ID }],
        queues: { producers: [{ queue: "acme-staging-withdrawals" }] },
        routes: [{ pattern: "staging.rfq.example.com", custom_domain: true }],
        workers_dev: false,
      },
    });
    const calls = whole.account.calls;
    for (let kill = 1; kill <= calls; kill++)
      for (const when of ["before", "after"] as const) {
        const one = scene();
        one.account.killAt = { call: kill, when };
        await expect(run(one), `${when} call ${kill}`).rejects.toThrow("killed");
        one.account.killAt = undefined;
        await run(one);
        expect(one.account.shown(), `${when} call ${kill}`).toEqual(expected);
        const kept = JSON.parse(readFileSync(secretsPath(one), "utf8")) as object;
        expect(one.account.secrets()).toEqual(kept);
      }
  });

  it("repeated, it keeps what is there and sends no secret again", async () => {
    const one = scene();
    await run(one);
    const secrets = one.account.secrets();
    rmSync(secretsPath(one));
    one.lines.length = 0;
    await run(one);
    expect(one.account.secrets()).toEqual(secrets);
    expect(one.lines.filter((line) => line.startsWith("done"))).toEqual([
      "done  migrations",
      expect.stringContaining("done  secrets: 0 new"),
      "done  Worker acme-staging",
    ]);
  });

  it("keeps secrets in a file of its owner, and prints none", async () => {
    const one = scene();
    await run(one);
    expect(statSync(secretsPath(one)).mode & 0o777).toBe(0o600);
    expect(existsSync(`${secretsPath(one)}.sent`)).toBe(false);
    const values = Object.values(one.account.secrets()).filter((value) => value.length > 8);
    expect(values.length).toBeGreaterThan(6);
    for (const value of values) expect(one.lines.join("\n")).not.toContain(value);
  });

  it("sends no variable as a secret, and `{}` as one that is not used", async () => {
    const one = scene();
    await run(one);
    expect(one.account.secrets()).not.toHaveProperty("HEARTBEAT_URL");
    expect(one.account.secrets()).toMatchObject({ ALERT_URL: "{}", RPC_URLS: "{}" });
  });

  it("--plan changes nothing", async () => {
    const one = scene();
    await run(one, { plan: true });
    expect(one.account.shown()).toEqual(scene().account.shown());
    expect(existsSync(join(one.root, `wrangler.${ENV}.json`))).toBe(false);
    expect(existsSync(secretsPath(one))).toBe(false);
    expect(one.lines).toContain("would database acme-staging");
  });

  it("makes no second ADDRESS_KEY for a database in use", async () => {
    const one = scene();
    await run(one);
    one.account.database("acme-staging").exec("INSERT INTO commit_groups VALUES (1, x'00', 1, 0)");
    one.account.removeWorker();
    rmSync(secretsPath(one));
    await expect(run(one)).rejects.toThrow("The database is in use");
  });

  it("stops before the Worker if a contract is another one", async () => {
    const one = scene();
    await expect(run(one, { code: "0x02" })).rejects.toThrow(
      /no Vault of this checkout[^]*operator of polygon: 0x/,
    );
    expect(one.account.secrets()).toEqual({});
  });

  it("imports a migration that D1 does not split", async () => {
    const one = scene();
    one.account.unsplittable = { file: "0006_chain.sql", applies: 0 };
    await run(one);
    const whole = scene();
    await run(whole);
    expect(one.account.shown()).toEqual(whole.account.shown());
  });

  it("stops after a migration that was applied in part", async () => {
    const one = scene();
    one.account.unsplittable = { file: "0006_chain.sql", applies: 1 };
    await expect(run(one)).rejects.toThrow("0006_chain.sql was applied in part");
  });

  it("names an object that no migration makes", async () => {
    const one = scene();
    await run(one);
    one.account.database("acme-staging").exec("CREATE TABLE foreign_table (a)");
    await expect(run(one)).rejects.toThrow("table foreign_table");
  });
});

it("operator --remote --env binds to the Worker of that deployment", async () => {
  const one = scene();
  await run(one);
  const binding = JSON.parse(readFileSync(await bindingOf(ENV, one.root), "utf8")) as object;
  expect(binding).toMatchObject({
    services: [{ service: "acme-staging", entrypoint: "Operator", remote: true }],
  });
  await expect(bindingOf("production", one.root)).rejects.toThrow("npm run deploy writes it");
});

itInRelease(
  "the real wrangler applies the migrations with the configuration that it writes",
  async () => {
    const one = scene();
    const real = runWrangler(one.root);
    const local = ["--local", "--persist-to", join(one.root, "state")];
    const wrangler: Run = async (args) =>
      args[0] === "d1" && args.includes("--remote")
        ? real(args.flatMap((word) => (word === "--remote" ? local : [word])))
        : one.account.run(args);
    await run(one, { wrangler });
    expect(one.lines).toContain("done  migrations");
    expect(one.account.secrets()).not.toEqual({});
  },
);
