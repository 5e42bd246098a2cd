import { env } from "cloudflare:workers";
import { eq, inArray, sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { isAmong, read } from "../../src/platform/read.ts";
import { alerts } from "../../src/platform/tables.ts";

it("throws D1's error, without the values of the parameters", async () => {
  const failure = await read(env.DB, ({ select }) =>
    select()
      .from(alerts)
      .where(eq(sql`no_such_column`, "a secret")),
  ).catch((error: unknown) => error);
  expect(String(failure)).toMatch(/D1_ERROR.*no_such_column/);
  expect(`${String(failure)} ${String((failure as Error).cause)}`).not.toContain("a secret");
});

it("rejects more parameters than D1 allows, and binds a list as one", async () => {
  const subjects = Array.from({ length: 101 }, () => crypto.randomUUID());
  const tooMany = read(env.DB, ({ select }) =>
    select().from(alerts).where(inArray(alerts.subject, subjects)),
  );
  await expect(tooMany).rejects.toThrow("a statement binds 101 parameters");
  const among = isAmong(alerts.subject, subjects);
  expect(await read(env.DB, ({ select }) => select().from(alerts).where(among))).toEqual([]);
});
