/** A user has one CSV statement written at a time. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { reasonCode, stepCode } from "../../src/ledger/codes.ts";
import { UNREACHABLE } from "../../src/ledger/old-rows.ts";
import { readStatement } from "../../src/ledger/statement.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { newUser } from "../support/users.ts";

const FORMAT = {
  header: "entry\n",
  line: ({ entry_id }: { entry_id: number }) => `${entry_id}\n`,
  end: (rows: number) => `end ${rows}\n`,
};
/** More than one chunk. */
const MANY = 12_000;

const statement = (userId: string) =>
  readStatement(env.DB, { userId, old: UNREACHABLE, mayContinue: async () => true }, {}, FORMAT);
const lastLine = async (text: ReadableStream<Uint8Array>) =>
  (await new Response(text).text()).trimEnd().split("\n").at(-1);

async function busyUser(): Promise<string> {
  const { userId } = await newUser({ usdc: 1_000_000n });
  await all(
    env.DB,
    sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
      SELECT a.account_id, p.account_id, 1, ${reasonCode("reserve_rfq")}, randomblob(16),
        ${stepCode("reserve")}, 0, (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)
      FROM accounts a JOIN accounts p ON p.owner = a.owner AND p.kind = 'pending',
        json_each(${JSON.stringify(Array.from({ length: MANY }, (_, index) => index))})
      WHERE a.owner = ${uuid(userId)} AND a.kind = 'available'`,
  );
  return userId;
}

it("rejects a second one until the first is complete", async () => {
  const [user, other] = [await newUser({ usdc: 1n }), await newUser({ usdc: 1n })];
  const results = await Promise.allSettled([1, 2, 3].map(() => statement(user.userId)));
  const begun = results.filter((result) => result.status === "fulfilled");
  expect(begun).toHaveLength(1);
  expect(results.find((result) => result.status === "rejected")?.reason).toMatchObject({
    data: { code: "rate_limited", retryAfterSecs: 5 },
  });
  expect(await lastLine(await statement(other.userId))).toBe("end 1");
  expect(await lastLine(begun[0]!.value)).toBe("end 1");
  expect(await lastLine(await statement(user.userId))).toBe("end 1");
});

it("accepts the next one after a client has gone", async () => {
  const { userId } = await newUser({ usdc: 1n });
  await (await statement(userId)).cancel();
  expect(await lastLine(await statement(userId))).toBe("end 1");
});

it("ends one that was idle for a minute when the next one begins", async () => {
  const userId = await busyUser();
  const idle = (await statement(userId)).getReader();
  await idle.read();
  await idle.read();
  await all(
    env.DB,
    sql`UPDATE statement_leases SET expires_at = 1 WHERE user_id = ${uuid(userId)}`,
  );
  const next = await statement(userId);
  const rest = async () => {
    for (;;) if ((await idle.read()).done) return "complete";
  };
  await expect(rest()).rejects.toThrow("another statement has begun");
  expect(await lastLine(next)).toBe(`end ${2 * MANY + 1}`);
});
