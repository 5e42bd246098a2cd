/** `npm run deploy` by the real wrangler. test/journeys/deploy.test.ts has what takes longer. */
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { migrationFiles } from "../../scripts/migrations/files.ts";
import type { wranglerConfig } from "../../scripts/deploy/settings.ts";
import { readCommand } from "../../scripts/deploy/wrangler-command.ts";
import { itInRelease } from "../support/depth.ts";
import { changeSettings, deployOnce, newScene, secretsPath, shown } from "./scene.ts";

/** Each start of wrangler takes seconds. */
const PATIENCE_MS = 900_000;

itInRelease(
  "deploys to an empty account, also after it was killed twice",
  async () => {
    const scene = await newScene();
    const { account, unknown } = scene.cloudflare;
    const killAt = async (call: string) => {
      const killed = await deployOnce(scene, { killAt: (one: string) => one === call });
      expect(killed).toMatchObject({ code: null });
    };
    // The Worker is uploaded with its secrets, so nothing but the file has them before.
    await killAt("POST /queues");
    await killAt("PUT /workers/scripts/acme-staging");
    const kept = JSON.parse(readFileSync(secretsPath(scene), "utf8")) as Record<string, string>;
    expect(statSync(secretsPath(scene)).mode & 0o777).toBe(0o600);
    expect(kept).not.toHaveProperty("HEARTBEAT_URL");
    // The account has them, so the file is not needed.
    rmSync(secretsPath(scene));

    const { code, lines } = await deployOnce(scene);
    expect({ code, unknown }, lines.join("\n")).toEqual({ code: 0, unknown: [] });
    expect(lines.filter((line) => line.startsWith("done"))).toEqual([
      "done  migrations",
      expect.stringContaining("done  secrets: 0 new"),
      "done  Worker acme-staging",
    ]);
    // The fake runs no Worker. It has seen for which one the operator asked.
    expect(account.previews).toEqual(["acme-staging Operator"]);
    expect(account.workers.get("acme-staging")?.secrets).toEqual(kept);
    for (const value of Object.values(kept).filter((one) => one.length > 8))
      expect(lines.join("\n")).not.toContain(value);
    const lock = (id: string) => ({
      location: "weur",
      rules: [{ id, prefix: `${id}/`, condition: { type: "Indefinite" } }],
    });
    expect(shown(scene)).toMatchObject({
      databases: [{ name: "acme-staging", location: "weur", migrations: migrationFiles().length }],
      queues: { "acme-staging-withdrawals": 1, "acme-staging-withdrawals-dead": 1 },
      buckets: { "acme-staging-archive": lock("journal"), "acme-staging-audit": lock("audit") },
      workers: [{ schedules: [{ cron: "* * * * *" }] }],
    });
    expect(account.running("acme-staging")["bindings"]).toEqual(
      expect.arrayContaining([
        { name: "DEPLOYMENT", type: "plain_text", text: "acme-staging" },
        { name: "DEPLOY_ENV", type: "plain_text", text: "staging" },
        { name: "BOOK_LOCATION", type: "plain_text", text: "weur" },
        { name: "RATE_LIMITS", type: "plain_text", text: "on" },
      ]),
    );
  },
  PATIENCE_MS,
);

itInRelease(
  "keeps everything in the jurisdiction of the settings",
  async () => {
    const scene = await newScene();
    changeSettings(scene, { jurisdiction: "eu" });
    // It stops where the contracts are compared.
    scene.chain.code = "0x02";
    const { lines } = await deployOnce(scene);
    expect(lines.join("\n")).toContain("no Vault of this checkout");
    const { databases, queues, buckets } = scene.cloudflare.account;
    expect([...databases.values()].map(({ location }) => location)).toEqual(["eu"]);
    expect([...queues.values()].map(({ jurisdiction }) => jurisdiction)).toEqual(["eu", "eu"]);
    expect(
      [...buckets.values()].map(({ jurisdiction, rules }) => [jurisdiction, rules.length]),
    ).toEqual([
      ["eu", 1],
      ["eu", 1],
    ]);
    const { vars, r2_buckets } = JSON.parse(
      readFileSync(join(scene.root, "wrangler.staging.json"), "utf8"),
    ) as ReturnType<typeof wranglerConfig>;
    expect(vars["JURISDICTION"]).toBe("eu");
    expect(r2_buckets.map(({ jurisdiction }) => jurisdiction)).toEqual(["eu", "eu"]);
  },
  PATIENCE_MS,
);

it.each([
  ["secret put RPC_URLS", undefined],
  ["secret put RPC_URLS --env staging", "secret put RPC_URLS"],
  ["deploy", undefined],
  ["deploy --dry-run", "deploy --dry-run"],
  ["d1 execute DB --remote --command x", undefined],
  ["d1 execute DB --local --command x", "d1 execute DB --local --command x"],
  // Without --remote wrangler writes to this machine, and says that it is done.
  ["d1 execute DB --command x --env=staging", "d1 execute DB --command x --remote"],
  ["r2 object put a/b --file c --env staging", "r2 object put a/b --file c --remote"],
  ["d1 migrations apply DB --env staging", undefined],
  ["rollback", undefined],
  ["whoami", "whoami"],
])("wrangler %s means one deployment, or is refused", (given, means) => {
  const { refused, args } = readCommand(given.split(" "));
  expect(refused === undefined ? args.join(" ") : undefined).toBe(means);
});
