/** Payer and watcher of a chain change no row of another, whatever happens on theirs. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { haltPayer } from "../../src/custody/payer/payer-lease.ts";
import { raiseAlert } from "../../src/platform/alert.ts";
import { all, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { drive, funded, queuedWithdrawal } from "./support/drive.ts";
import { openStage, someone, type Stage } from "./support/stage.ts";

const command = (kind: string, { chain }: Stage, id: string | null = null) =>
  all(
    env.DB,
    sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, from_block, to_block, actor, at)
      VALUES (${chain.chain}, ${kind}, ${id === null ? null : uuid(id)}, 1, 2, 'test', 0)`,
  );

const OF_CHAIN =
  "chain_blocks chain_commands chain_cursors chain_transactions deposits payer_leases " +
  "small_deposits sweepable vault_events withdrawals";
const OF_TRANSACTION = "batch_members transaction_attempts";

/** All rows that name the chain, or a transaction of it. */
async function rowsOf({ chain: { chain } }: Stage): Promise<Record<string, unknown>> {
  const rows: Record<string, unknown> = {};
  const read = async (tables: string, condition: Sql) => {
    for (const table of tables.split(" "))
      rows[table] = await all(
        env.DB,
        sql`SELECT * FROM ${raw(table)} WHERE ${condition} ORDER BY 1, 2`,
      );
  };
  await read(OF_CHAIN, sql`chain = ${chain}`);
  await read(
    OF_TRANSACTION,
    sql`transaction_id IN (SELECT transaction_id FROM chain_transactions WHERE chain = ${chain})`,
  );
  await read("alerts", sql`subject = ${chain}`);
  return rows;
}

/** A halted chain with a payment in flight, a withdrawal in the queue, and a deposit that waits. */
async function bystander(): Promise<Stage> {
  const { stage, user } = await queuedWithdrawal();
  const { chain } = stage.chain;
  await (await stage.payer()).round();
  const { id } = await stage.withdraw(user.userId, USDC, 200n, someone());
  await stage.mintUsdc(user.address, 50n);
  await stage.mine();
  await stage.watch();
  for (const kind of ["fail", "retry"]) await command(kind, stage, id);
  for (const kind of ["resume_chain", "resume_payer", "rescan"]) await command(kind, stage);
  for (const table of ["payer_leases", "chain_cursors"])
    await all(
      env.DB,
      sql`UPDATE ${raw(table)} SET halted_at = 1, halt_reason = 'test' WHERE chain = ${chain}`,
    );
  for (const kind of ["payer_halted", "chain_halted", "nodes_disagree"] as const)
    await raiseAlert(env.DB, kind, chain, "test");
  return stage;
}

it("what happens on a chain changes no row of another", async () => {
  const other = await bystander();
  const before = await rowsOf(other);
  expect(before).toMatchObject({
    chain_transactions: [{ status: "open" }],
    batch_members: [{ ended_group: null }],
    deposits: [{ status: "credited" }, { status: "confirming" }],
    alerts: [{}, {}, {}],
  });
  const stage = await openStage({ confirmations: 2 });
  const user = await funded(stage);
  const pay = () => stage.withdraw(user.userId, USDC, 100n, someone());

  const paid = await pay();
  expect(await drive(stage, paid.id)).toBe("settled");
  const failed = await pay();
  await command("fail", stage, failed.id);
  expect(await drive(stage, failed.id)).toBe("failed");

  await stage.mintUsdc(user.address, 7n);
  await stage.mine();
  await stage.watch();
  await stage.reorg(1);
  await stage.watch();
  const { context, round } = await stage.payer();
  await haltPayer(context, "test");
  await stage.answerAlert("payer_halted", round);
  await stage.reorg(6);
  await stage.mine(4);
  expect(await stage.watch()).toMatchObject({ status: "halted" });
  await stage.answerAlert("chain_halted", stage.watch);
  await stage.confirm();
  await round();

  expect(await rowsOf(other)).toEqual(before);
});
