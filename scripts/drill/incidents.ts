/** Incidents that an operator must expect, each with its break and what mends it. */
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { keccak256, parseEther, toHex } from "viem";
import type { AlertKind } from "../../src/platform/alert-kinds.ts";
import { order } from "../operator/carry-out.ts";
import { databaseDir } from "../soak/archive.ts";
import { until } from "../stack/until.ts";
import type { Received } from "./receiver.ts";
import { runPrinted } from "./run-printed.ts";
import type { Drill } from "./world.ts";

export type Incident = {
  readonly name: string;
  /** Alerts that must arrive, in the order in which their closing commands are run. */
  readonly alerts: readonly AlertKind[];
  /** Ends with the break. Resolves to what mends it. */
  readonly break: (drill: Drill) => Promise<(raised: readonly Received[]) => Promise<unknown>>;
};

const PATIENCE_MS = 60_000;
const PAYER_ROLE = keccak256(toHex("PAYER_ROLE"));
/** Kind ERC20 of contracts/Limits.sol. */
const ERC20 = 0;
const PAID = 1_000_000n;
const NO_LIMIT = 1n << 90n;
let ordered = 0;

export const INCIDENTS: readonly Incident[] = [
  {
    name: "both RPC endpoints refuse",
    alerts: ["chain_unreachable"],
    break: async ({ proxies }) => {
      for (const proxy of proxies) proxy.fail("down");
      return async () => proxies.forEach((proxy) => proxy.fail(null));
    },
  },
  {
    name: "one of two endpoints is down",
    alerts: ["chain_unreachable", "endpoint_failing"],
    break: async ({ proxies: [one] }) => {
      one.fail("down");
      return async () => one.fail(null);
    },
  },
  {
    name: "the endpoints disagree",
    alerts: ["nodes_disagree"],
    break: async (drill) => {
      const [one] = drill.proxies;
      one.lie(await otherBlocks(drill));
      return async () => one.lie(null);
    },
  },
  {
    name: "the chain makes no block",
    alerts: ["finality_stalled"],
    break: async ({ chain }) => {
      await chain.mineEvery(0);
      return () => chain.mineEvery(1);
    },
  },
  {
    name: "a reorg below confirmed blocks",
    alerts: ["chain_halted"],
    break: async (drill) => {
      const lie = await otherBlocks(drill);
      for (const proxy of drill.proxies) proxy.lie(lie);
      return async () => drill.proxies.forEach((proxy) => proxy.lie(null));
    },
  },
  {
    name: "the vault is paused",
    alerts: ["vault_paused"],
    break: async ({ chain }) => {
      await chain.vault({ functionName: "pause" });
      return () => chain.vault({ functionName: "unpause" });
    },
  },
  {
    name: "gas is gone, nothing to pay",
    alerts: ["gas_low"],
    break: async ({ chain }) => {
      await chain.setGas(0n);
      return () => chain.setGas(parseEther("10"));
    },
  },
  {
    name: "gas is gone, a payment waits",
    alerts: ["gas_low"],
    break: async (drill) => {
      const id = await withdraw(drill);
      await drill.chain.setGas(0n);
      return async () => {
        await drill.chain.setGas(parseEther("10"));
        await settled(drill, id);
      };
    },
  },
  {
    name: "the payer lost its role",
    alerts: ["payment_refused"],
    break: async (drill) => {
      const args = [PAYER_ROLE, drill.stack.payer] as const;
      await drill.chain.vault({ functionName: "revokeRole", args });
      const id = await withdraw(drill);
      return async () => {
        await drill.chain.vault({ functionName: "grantRole", args });
        await settled(drill, id);
      };
    },
  },
  {
    name: "the vault's limit is used up",
    alerts: ["limit_reached"],
    break: async (drill) => {
      const setLimit = (amount: bigint) => {
        const args = [drill.stack.deployment.usdc, ERC20, 0n, amount] as const;
        return drill.chain.vault({ functionName: "setLimit", args });
      };
      // One transaction pays at most half of the limit, and a round may still see the old one.
      await setLimit(2n * PAID);
      await settled(drill, await withdraw(drill));
      await settled(drill, await withdraw(drill));
      const id = await withdraw(drill);
      return async () => {
        await setLimit(NO_LIMIT);
        await settled(drill, id);
      };
    },
  },
  {
    name: "the database is full",
    alerts: ["storage_full", "storage_filling"],
    break: async ({ stack }) => {
      await stack.restartWorker({ STORAGE_LIMIT_MB: "1" });
      return () => stack.restartWorker({ STORAGE_LIMIT_MB: "10000" });
    },
  },
  {
    name: "a trigger is dropped",
    alerts: ["schema_drift"],
    break: async ({ stack }) => {
      const db = await stack.database();
      await db.prepare("DROP TRIGGER quotes_open").run();
      return async ([alert]) => {
        const [, command = ""] =
          /run: (npm run migrations .*)$/.exec(alert?.data.detail ?? "") ?? [];
        await runPrinted(stack, command);
        const text = readFileSync("mend.sql", "utf8");
        rmSync("mend.sql");
        const [, create = ""] = /(CREATE TRIGGER [^]*);\n$/.exec(text) ?? [];
        await db.prepare(create).run();
      };
    },
  },
  {
    name: "a balance is edited by SQL",
    alerts: ["reconciliation"],
    break: async (drill) => {
      const add = (amount: number) =>
        edit(
          drill,
          "accounts",
          `balance = balance + ${amount} WHERE owner = ${idOf(drill)}
          AND asset = 'usdc' AND kind = 'available'`,
        );
      await add(7);
      return () => add(-7);
    },
  },
  {
    name: "a withdrawal is edited by SQL",
    alerts: ["withdrawal_altered"],
    break: async (drill) => {
      // Otherwise it would be paid before it is edited.
      await drill.chain.vault({ functionName: "pause" });
      await until("the payer to see the pause", PATIENCE_MS, async () => {
        const options = { kind: "vault_paused" };
        const seen = (await order(drill.stack, "alerts list", options)) as readonly unknown[];
        return seen.length > 0 ? true : null;
      });
      const id = await withdraw(drill);
      const add = (amount: number) =>
        edit(
          drill,
          "withdrawals",
          `amount = amount + ${amount}
          WHERE status = 'queued' AND client_withdrawal_id = '${id}'`,
        );
      await add(7);
      await drill.chain.vault({ functionName: "unpause" });
      return () => add(-7);
    },
  },
  {
    name: "an API key is edited by SQL",
    alerts: ["key_row_altered"],
    break: async (drill) => {
      const { session } = drill.trader;
      const key = await session.auth.createApiKey({ label: "edited", scopes: ["read"] });
      const set = (scopes: string) =>
        edit(drill, "api_keys", `scopes = '${scopes}' WHERE label = 'edited'`);
      await set("read,trade,withdraw");
      const thief = session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
      await thief.custody.usdcBalance().catch(() => {});
      return () => set("read");
    },
  },
  {
    name: "an object of the archive is deleted",
    alerts: ["archive_damaged"],
    break: async ({ stack, trader }) => {
      const [db, archive] = [await stack.database(), await stack.archive()];
      // One that is sealed. It is read again before its transfers are deleted.
      await trader.give();
      const key = await until("a seal", 3 * PATIENCE_MS, async () =>
        db
          .prepare(`SELECT 'journal/' || epoch || '/' || number AS key FROM journal_seals
            WHERE released_at IS NULL ORDER BY number DESC LIMIT 1`)
          .first<string>("key"),
      );
      const object = await archive.get(key);
      const bytes = await object?.arrayBuffer();
      const { customMetadata } = object ?? {};
      await archive.delete(key);
      return () => archive.put(key, bytes ?? "", { customMetadata: customMetadata ?? {} });
    },
  },
  {
    name: "the receiver is down",
    alerts: ["pager_test", "venue_paused"],
    break: async ({ stack, receiver: { state } }) => {
      Object.assign(state, { down: true, refused: 0 });
      await order(stack, "alerts test");
      await order(stack, "venue pause venue_two");
      await until("an alert to be refused", 2 * PATIENCE_MS, async () => state.refused || null);
      state.down = false;
      // The closing commands mend it.
      return async () => {};
    },
  },
  {
    name: "an older database is put back",
    alerts: ["payment_unknown", "payer_halted"],
    break: async (drill) => {
      const { stack } = drill;
      const copy = join(stack.dir, "backup");
      await stack.restartWorker({}, () =>
        cpSync(databaseDir(stack.dir), copy, { recursive: true }),
      );
      await settled(drill, await withdraw(drill));
      await stack.restartWorker({}, () => {
        const database = databaseDir(stack.dir);
        rmSync(database, { recursive: true });
        cpSync(copy, database, { recursive: true });
      });
      // The closing command mends it.
      return async () => {};
    },
  },
];

/** Others from the last confirmed blocks on. */
async function otherBlocks({ chain }: Drill) {
  const fork = Number(await chain.client.getBlockNumber()) - 10;
  return { kind: "other_head", fork, ahead: 0 } as const;
}

async function withdraw({ trader }: Drill): Promise<string> {
  const client_withdrawal_id = `drill-${ordered++}`;
  const to_address = toHex(ordered + 0xd0_0000, { size: 20 });
  await trader.withdrawer.custody.withdraw({ client_withdrawal_id, amount: PAID, to_address });
  return client_withdrawal_id;
}

function settled({ trader }: Drill, client_withdrawal_id: string): Promise<true> {
  return until(`${client_withdrawal_id} to settle`, PATIENCE_MS, async () => {
    const { status } = await trader.withdrawer.custody.withdrawal({ client_withdrawal_id });
    return status === "settled" ? true : null;
  });
}

const idOf = ({ trader }: Drill) => `unhex('${trader.userId.replaceAll("-", "")}')`;

/** As somebody who can write to the database. */
async function edit({ stack }: Drill, table: string, change: string): Promise<void> {
  const db = await stack.database();
  const { results } = await db
    .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?")
    .bind(table)
    .all<{ name: string; sql: string }>();
  const changed = await db.batch([
    ...results.map(({ name }) => db.prepare(`DROP TRIGGER ${name}`)),
    db.prepare(`UPDATE ${table} SET ${change}`),
    ...results.map(({ sql }) => db.prepare(sql)),
  ]);
  if (changed[results.length]?.meta.changes !== 1) throw new Error(`${change}: no such row`);
}
