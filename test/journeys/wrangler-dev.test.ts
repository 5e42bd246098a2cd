/** Plain wrangler in a fresh clone, for people who know Cloudflare. */
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client } from "../../packages/client/src/index.ts";
import { backup } from "../../scripts/deploy/backup.ts";
import type { Run } from "../../scripts/deploy/wrangler.ts";
import { DEMO_USERS } from "../../scripts/actors/users.ts";
import { runScriptFile } from "../support/node/processes.ts";
import { type Clone, freshClone } from "../support/node/wrangler-dev.ts";

const TYPES = ["types", "--include-runtime=false", "--strict-vars=false", "--check"];
const ASSET = { venue_id: "venue_one", asset_id: "0x1" } as const;

let clone: Clone;
beforeAll(() => {
  clone = freshClone();
});
afterAll(() => clone.remove());

describe("without .dev.vars", () => {
  it("GET /health names the settings that are missing", async () => {
    const { url, stop } = await clone.dev();
    try {
      const response = await fetch(`${url}/health`);
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({
        code: "unavailable",
        detail:
          "Settings are missing or not valid: DEPLOYMENT, AUDIT_KEYS, SESSION_SECRETS, " +
          "MASTER_KEYS, ADDRESS_KEY.",
      });
    } finally {
      await stop();
    }
  });

  it("the types are up to date", () => expectCurrentTypes());
});

describe("with the example of .dev.vars", () => {
  beforeAll(() => copyFileSync(join(clone.dir, ".dev.vars.example"), join(clone.dir, ".dev.vars")));

  it("the types are up to date", () => expectCurrentTypes());

  it("users log in and trade, and cron writes to R2", async () => {
    const { url, script, stop } = await clone.dev();
    try {
      expect((await fetch(`${url}/health`)).status, script.output()).toBe(200);
      const seed = runScriptFile("scripts/seed.ts", {
        args: ["--url", url, "--state", join(clone.dir, ".wrangler/state")],
      });
      expect(await seed.exited, seed.output()).toBe(0);
      const [taker, maker] = await Promise.all(
        DEMO_USERS.slice(0, 2).map((user) => Client.login({ baseUrl: url, ...user })),
      );
      const request = await taker!.rfq.request({ ...ASSET, amount: 1_000_000n, side: "Bid" });
      const terms = { request_id: request.request_id, price: 400_000 };
      const quote = await maker!.rfq.quote(terms, { maxAgeMs: 30_000 });
      expect(await taker!.rfq.accept(quote)).toMatchObject({ usdc_amount: 400_000n });
      for (const round of [1, 2]) {
        const smoke = runScriptFile("scripts/smoke.ts", { args: ["--url", url, "--trade"] });
        expect(await smoke.exited, `round ${round}: ${smoke.output()}`).toBe(0);
        expect(smoke.output()).toMatch(/ok +trade back/);
      }
      const cron = await fetch(`${url}/cdn-cgi/handler/scheduled`);
      expect(cron.status, script.output()).toBe(200);
      const buckets = join(clone.dir, ".wrangler/state/v3/r2");
      expect(readdirSync(join(buckets, "rfq-custody-audit", "blobs"))).not.toEqual([]);
    } finally {
      await stop();
    }
  });
});

it("a database is restored from its backup alone", async () => {
  const out = join(clone.dir, "backup");
  const run: Run = async (args) => {
    const script = clone.wrangler(...args.map((word) => (word === "--remote" ? "--local" : word)));
    return { code: await script.exited, stdout: script.output(), stderr: "" };
  };
  const callObject = () => Promise.reject(new Error("nothing was sealed in a minute"));
  await backup({ wrangler: run, callObject, out });
  rmSync(join(clone.dir, ".wrangler"), { recursive: true });
  const restore = ["d1", "execute", "DB", "--remote", "--file", join(out, "database.sql")];
  const restored = await run(restore);
  expect(restored.code, restored.stdout).toBe(0);
  const { url, stop } = await clone.dev();
  try {
    const taker = await Client.login({ baseUrl: url, ...DEMO_USERS[0]! });
    const [first] = await taker.rfq.matches().all();
    expect(first?.status).toBe("settled");
    expect((await taker.custody.balance(ASSET)).balance).toBe(100_001_000_000n);
    const smoke = runScriptFile("scripts/smoke.ts", { args: ["--url", url, "--trade"] });
    expect(await smoke.exited, smoke.output()).toBe(0);
  } finally {
    await stop();
  }
});

async function expectCurrentTypes(): Promise<void> {
  const types = clone.wrangler(...TYPES);
  expect(await types.exited, types.output()).toBe(0);
}
