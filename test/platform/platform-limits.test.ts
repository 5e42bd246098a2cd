/** Which of Cloudflare's limits a local workerd enforces, and alarms that throw. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { Payer } from "../../src/custody/payer/payer.ts";
import { ChainWatcher } from "../../src/custody/watcher/chain-watcher.ts";
import { PLATFORM } from "../../src/platform/platform-limits.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

const list = (length: number, item: string) => Array.from({ length }, () => item).join(", ");
const { params, statementBytes, functionArguments, valueBytes } = PLATFORM;

/** If workerd changes, so does the comment of platform-limits.ts. */
it.each<[name: string, enforced: boolean, text: string, values: unknown[]]>([
  [
    "parameters",
    true,
    `SELECT ${list(params + 1, "?")}`,
    Array.from({ length: params + 1 }, () => 1),
  ],
  ["bytes of a statement", true, `SELECT 1 -- ${"x".repeat(statementBytes)}`, []],
  ["arguments of a function", false, `SELECT json_array(${list(functionArguments + 1, "1")})`, []],
  ["bytes of a value", false, "SELECT ?", ["x".repeat(valueBytes + 1)]],
])("workerd enforces the limit of %s: %s", async (_, enforced, text, values) => {
  const refused = await env.DB.prepare(text)
    .bind(...values)
    .all()
    .then(
      () => false,
      () => true,
    );
  expect(refused).toBe(enforced);
});

it("does not limit the statements of an invocation, so the code must", async () => {
  const batch = Array.from({ length: PLATFORM.queries + 1 }, () => env.DB.prepare("SELECT 1"));
  expect(await env.DB.batch(batch)).toHaveLength(batch.length);
});

const away = (): never => {
  throw new Error("D1_ERROR: away");
};
const broken = { ...env, DB: { prepare: away, batch: away } } as unknown as Env;

it.each([
  ["watcher", env.CHAIN_WATCHER, (ctx: DurableObjectState) => new ChainWatcher(ctx, broken)],
  ["payer", env.PAYER, (ctx: DurableObjectState) => new Payer(ctx, broken)],
  ["sealer", env.SEALER, (ctx: DurableObjectState) => new Sealer(ctx, broken)],
] as const)("an alarm of the %s that fails has set the next one", async (_, objects, make) => {
  await runInDurableObject(objects.getByName(uuidv7()), async (__: unknown, ctx) => {
    await ctx.storage.put("chain", "local");
    await ctx.storage.deleteAlarm();
    await make(ctx)
      .alarm()
      .catch(() => {});
    expect(await ctx.storage.getAlarm()).not.toBeNull();
    await ctx.storage.deleteAlarm();
  });
});

it("a watcher whose round failed soon tries again, so that its alert is in time", async () => {
  const chains: object[] = JSON.parse(env.CHAINS);
  const CHAINS = JSON.stringify(chains.map((chain) => ({ ...chain, poll_ms: 60_000 })));
  await runInDurableObject(env.CHAIN_WATCHER.getByName(uuidv7()), async (_, ctx) => {
    await ctx.storage.put("chain", "local");
    await new ChainWatcher(ctx, { ...broken, CHAINS }).alarm();
    expect(await ctx.storage.getAlarm()).toBeLessThanOrEqual(Date.now() + 4_000);
    await ctx.storage.deleteAlarm();
  });
});
