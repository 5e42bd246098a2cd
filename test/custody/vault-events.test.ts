import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { recordVaultEvents } from "../../src/custody/watcher/settle-withdrawal.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { first, raw, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { randomHex } from "../support/ledger.ts";

it("records thousands of vault events with bounded parameters, once", async () => {
  const settings = config(env);
  const chain = { ...defaultChain(settings), chain: `chain-${uuidv7()}` };
  const events = Array.from({ length: 6_000 }, (_, ordinal) => ({
    kind: "Voided" as const,
    id: randomHex(32),
    vault: `0x${"ef".repeat(20)}` as const,
    blockNumber: 7,
    blockHash: `0x${"ab".repeat(32)}` as const,
    transactionHash: `0x${"cd".repeat(32)}` as const,
    ordinal,
    logIndex: ordinal,
  }));
  const record = async () => {
    const group = newGroup();
    const statements = recordVaultEvents(group, { settings, chain }, events, raw("1"));
    const longest = Math.max(
      ...statements.flatMap(({ params }) => params.map((p) => `${p}`.length)),
    );
    expect(longest).toBeLessThan(1_000_000);
    await commitOrThrow(env.DB, group, statements);
  };
  await record();
  await record();

  expect(
    await first(env.DB, sql`SELECT count(*) AS n FROM vault_events WHERE chain = ${chain.chain}`),
  ).toEqual({ n: 6_000 });
});
