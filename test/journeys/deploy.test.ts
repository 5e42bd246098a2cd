/** `npm run deploy` wherever it was killed, with several accounts, and when something is wrong. */
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readSettings, wranglerConfig } from "../../scripts/deploy/settings.ts";
import { migrationFiles, readMigration } from "../../scripts/migrations/files.ts";
import {
  changeSettings,
  deployOnce,
  newScene,
  runScript,
  type Scene,
  secretsPath,
  shown,
} from "../deploy/scene.ts";
import { printedCommands } from "../docs/printed-commands.ts";

/** Each start of wrangler takes seconds. */
const PATIENCE_MS = 3_600_000;

async function deployed(scene: Scene): Promise<string[]> {
  const { code, lines } = await deployOnce(scene);
  const { unknown } = scene.cloudflare;
  expect({ code, unknown }, lines.join("\n")).toEqual({ code: 0, unknown: [] });
  return lines;
}

async function refused(scene: Scene, reason: string | RegExp): Promise<void> {
  const { code, lines } = await deployOnce(scene);
  expect(code).toBe(1);
  expect(lines.join("\n")).toMatch(reason);
}

it(
  "makes the same account wherever it was killed, then rolls back",
  async () => {
    const whole = await newScene();
    await deployed(whole);
    // Each run is killed after the first change that no run has made before. The account before a
    // change is the account after the one before it.
    const one = await newScene();
    const made = new Set<string>();
    for (let code: number | null = null; code === null;) {
      const counts = new Map<string, number>();
      const killAt = (call: string) => {
        const name = call.replaceAll(/[0-9a-f-]{32,}/g, "…");
        const count = (counts.get(name) ?? 0) + 1;
        counts.set(name, count);
        return !made.has(`${name} ${count}`) && made.add(`${name} ${count}`).size > 0;
      };
      const ended = await deployOnce(one, { killAt });
      ({ code } = ended);
      expect([0, null], ended.lines.join("\n")).toContain(code);
      expect(readdirSync(one.root).filter((name) => name.includes(".sent"))).toEqual([]);
    }
    expect(made.size).toBeGreaterThan(20);
    expect(shown(one)).toEqual(shown(whole));

    const { deployed: versions } = one.cloudflare.account.workers.get("acme-staging")!;
    const [bad] = versions;
    const rollback = ["rollback", "--yes", "--message", "bad", "--env", "staging"];
    expect(await runScript(one, {}, "wrangler.ts", ...rollback)).toMatchObject({ code: 0 });
    expect(versions[0]).not.toBe(bad);
  },
  PATIENCE_MS,
);

it(
  "asks which of two accounts is meant, and completes one in which half exists",
  async () => {
    const scene = await newScene(2);
    await refused(scene, /More than one account available[^]*1a1a/);
    const [first, second] = scene.cloudflare.accounts;
    changeSettings(scene, { account_id: second!.id });
    second!.addDatabase("acme-staging");
    second!.queues.set("acme-staging-withdrawals", { id: "b".repeat(32), consumers: [] });
    second!.buckets.set("acme-staging-audit", { location: "weur", rules: [] });
    const lines = await deployed(scene);
    expect(lines).toEqual(expect.arrayContaining(["kept  database acme-staging"]));
    expect(lines).toEqual(expect.arrayContaining(["done  lock acme-staging-audit"]));
    expect([first!.workers.size, second!.workers.size]).toEqual([0, 1]);
  },
  PATIENCE_MS,
);

it(
  "plans without a login, and says what it cannot see",
  async () => {
    const scene = await newScene();
    scene.chain.code = "0x02";
    const plan = (env: Record<string, string>) => deployOnce(scene, { env }, "--plan");
    const blind = await plan({ CLOUDFLARE_API_TOKEN: "" });
    expect(blind.code, blind.lines.join("\n")).toBe(0);
    expect(blind.lines.join("\n")).toMatch(
      /^cannot see the account: In a non-interactive .*CLOUDFLARE_API_TOKEN/,
    );
    expect(blind.lines).toContain("would database acme-staging, unless it is there");
    expect(blind.lines.join("\n")).toContain("left  polygon: no Vault of this checkout");
    const seeing = await plan({});
    expect(seeing.lines).toContain("would database acme-staging");
    expect(shown(scene)).toEqual(shown(await newScene()));
    expect(existsSync(secretsPath(scene))).toBe(false);
  },
  PATIENCE_MS,
);

it(
  "stops before it harms a deployment",
  async () => {
    const scene = await newScene();
    const { account } = scene.cloudflare;
    scene.chain.code = "0x02";
    await refused(scene, /no Vault of this checkout[^]*operator of polygon: 0x/);
    expect(account.workers.size).toBe(0);

    scene.chain.code = "0x01";
    const db = account.db("acme-staging");
    db.exec("INSERT INTO commit_groups VALUES (1, x'00', 1, 0)");
    rmSync(secretsPath(scene));
    await refused(scene, "The database is in use");

    db.exec("CREATE TABLE foreign_table (a)");
    await refused(scene, "table foreign_table");
  },
  PATIENCE_MS,
);

/** wrangler's, without those that log somebody in. */
const PRINTED = new Map(
  printedCommands()
    .filter(({ script, words }) => script === "wrangler" && words.length > 1)
    .map(({ words }) => [words.join(" "), words]),
);

/** As after two deployments. */
async function twoDeployments(): Promise<Scene> {
  const scene = await newScene();
  const { account } = scene.cloudflare;
  const staging = readFileSync(join(scene.root, "deploy.staging.json"), "utf8");
  const production = staging.replace('"name":"acme-staging"', '"name":"acme-production"');
  writeFileSync(join(scene.root, "deploy.production.json"), production);
  const { secrets } = wranglerConfig(scene.root, "staging", readSettings(scene.root, "staging"));
  for (const name of ["acme-staging", "acme-production"]) {
    account.addDatabase(name);
    // What wrangler binds as before, where the account has it.
    const bindings = [
      { name: "DB", type: "d1", id: account.databases.get(name)?.uuid },
      { name: "WITHDRAWALS", type: "queue", queue_name: `${name}-withdrawals` },
    ];
    account.workers.set(name, {
      secrets: Object.fromEntries(secrets.required.map((one) => [one, "{}"])),
      versions: ["one", "two"].map((id) => ({ id, metadata: { bindings } })),
      deployed: ["two", "one"],
      schedules: [],
      domains: [],
    });
    for (const bucket of [`${name}-archive`, `${name}-audit`])
      account.buckets.set(bucket, { location: "weur", rules: [] });
    for (const queue of [`${name}-withdrawals`, `${name}-withdrawals-dead`])
      account.queues.set(queue, { id: randomUUID(), consumers: [] });
  }
  account.db("acme-staging").exec(migrationFiles().map(readMigration).join("\n"));
  return scene;
}

it(
  "runs every wrangler command that a document prints, for its deployment and no other",
  async () => {
    const scene = await twoDeployments();
    const { account, calls, unknown } = scene.cloudflare;
    expect(PRINTED.size).toBeGreaterThan(8);
    writeFileSync(secretsPath(scene), '{"OPERATORS":"old","ADDRESS_KEY":"kept"}');
    for (const [text, words] of PRINTED) {
      const ran = await runScript(scene, { input: "{}" }, "wrangler.ts", ...words);
      const output = `${text}: ${ran.lines.join("\n")}`;
      // The fake has no stream of log lines.
      if (words[0] === "tail") expect(calls.at(-1), output).toContain("/tails");
      else expect(ran.code, output).toBe(0);
      expect(output).not.toContain("Resource location: local");
    }
    expect([...account.workers.keys()]).toEqual(["acme-staging", "acme-production"]);
    const copy = JSON.parse(readFileSync(secretsPath(scene), "utf8")) as object;
    expect(copy).toMatchObject({ OPERATORS: "{}", ADDRESS_KEY: "kept" });
    expect(account.restored).toEqual(["acme-production b"]);
    expect(unknown).toEqual([]);
  },
  PATIENCE_MS,
);

it(
  "mends a trigger by the SQL and the command that it prints",
  async () => {
    const scene = await twoDeployments();
    const db = scene.cloudflare.account.db("acme-staging");
    const trigger = () =>
      db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'quotes_open'").get();
    const before = trigger();
    db.exec("DROP TRIGGER quotes_open");
    const mend = ["mend", "trigger quotes_open", "--env", "staging"];
    const { lines } = await runScript(scene, {}, "migrations.ts", ...mend);
    const [, command = ""] = /run: npm run wrangler -- (.*)$/.exec(lines.at(-1) ?? "") ?? [];
    const ran = await runScript(scene, {}, "wrangler.ts", ...command.split(" "));
    expect(ran.code, ran.lines.join("\n")).toBe(0);
    expect(trigger()).toEqual(before);
    expect(before).toBeDefined();
  },
  PATIENCE_MS,
);

it(
  "rolls back by the command that a failed smoke prints",
  async () => {
    const scene = await twoDeployments();
    const account = { email: "smoke@test.example", password: "a password of the smoke" };
    writeFileSync(join(scene.root, "users.json"), JSON.stringify([account, account]));
    changeSettings(scene, { name: "acme-staging", domain: "rfq.invalid" });
    const args = ["--env", "staging", "--users", "users.json"];
    const smoke = await runScript(scene, {}, "smoke.ts", ...args);
    expect(smoke.code).toBe(1);
    const [, command = ""] = /npm run wrangler -- (.*)$/.exec(smoke.lines.at(-1) ?? "") ?? [];
    const { workers } = scene.cloudflare.account;
    const running = () =>
      ["acme-staging", "acme-production"].map((name) => workers.get(name)?.deployed[0]);
    expect(running()).toEqual(["two", "two"]);
    const ran = await runScript(scene, {}, "wrangler.ts", ...command.split(" "));
    expect(ran.code, ran.lines.join("\n")).toBe(0);
    expect(running()).toEqual(["one", "two"]);
  },
  PATIENCE_MS,
);
