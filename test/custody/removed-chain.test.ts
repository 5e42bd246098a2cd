/** Withdrawals of a chain that the settings no longer contain are on the operator's list (W8). */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { alertLateWithdrawals } from "../../src/custody/payer/alert-late.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { settings } from "../support/http.ts";
import { insertWithdrawal } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import { answerAlert } from "../support/pager.ts";

function openAlerts(chain: string) {
  return all<{ kind: string; detail: string }>(
    env.DB,
    sql`SELECT kind, detail FROM alerts WHERE subject = ${chain} AND resolved_at IS NULL`,
  );
}

it.each(["queued", "submitted"] as const)(
  "reports a %s withdrawal of a chain that was removed, until it is back",
  async (status) => {
    const { userId } = await newUser();
    const chain = `removed-${uuidv7().slice(-12)}`;
    const { withdrawalId } = await insertWithdrawal(userId, { chain, status });
    const [one] = settings().CHAINS;
    if (one === undefined) throw new Error("the settings have no chain");

    await alertLateWithdrawals(env.DB, { CHAINS: [one] });
    await alertLateWithdrawals(env.DB, { CHAINS: [one] });
    const raised = await openAlerts(chain);
    expect(raised).toMatchObject([{ kind: "chain_removed" }]);
    expect(raised[0]?.detail).toContain(withdrawalId);
    expect(raised[0]?.detail).toContain(`put ${chain} back into CHAINS and deploy`);

    await alertLateWithdrawals(env.DB, { CHAINS: [one, { ...one, chain }] });
    expect((await openAlerts(chain)).map(({ kind }) => kind)).not.toContain("chain_removed");

    // An alert that is resolved keeps its instant.
    const ofChain = sql`WHERE kind = 'chain_removed' AND subject = ${chain}`;
    await all(env.DB, sql`UPDATE alerts SET resolved_at = 1 ${ofChain}`);
    await alertLateWithdrawals(env.DB, { CHAINS: [one, { ...one, chain }] });
    expect(await all(env.DB, sql`SELECT resolved_at FROM alerts ${ofChain}`)).toEqual([
      { resolved_at: 1 },
    ]);

    await alertLateWithdrawals(env.DB, { CHAINS: [one] });
    const end = async () => {
      const where = sql`WHERE withdrawal_id = ${uuid(withdrawalId)}`;
      await all(env.DB, sql`UPDATE withdrawals SET status = 'settled' ${where}`);
      await alertLateWithdrawals(env.DB, { CHAINS: [one] });
    };
    await answerAlert("chain_removed", chain, { end });
  },
);
