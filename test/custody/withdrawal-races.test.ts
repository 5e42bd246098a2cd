/** Races of approval, cancel and payment. The payer stores payments with its own statements. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { approveAfterStepUp } from "../../src/custody/approve-withdrawal.ts";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { checkedActor } from "../../src/platform/actor.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, first, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { balances, fund, newAddress, newAsset } from "../support/ledger.ts";
import { newPayer } from "../support/payer.ts";
import { withBatch } from "../support/slow-database.ts";
import { newKey, newUser } from "../support/users.ts";
import { rounds } from "../support/depth.ts";

const db = env.DB;
const ip = undefined;

it(
  "exactly one of cancel and payment applies, however they race",
  { timeout: 120_000 },
  async () => {
    const RACES = rounds(60, 1_000);
    const { key: asset } = newAsset();
    const { chain, pay } = await newPayer();
    const user = await newUser();
    await fund(user.userId, asset, BigInt(RACES), { chain });
    const { actor } = await newKey(user);
    const outcomes = { cancelled: 0, paid: 0 };
    for (let race = 0; race < RACES; race++) {
      const { row } = await withdraw(
        db,
        { ...settings(), WITHDRAWAL_DAILY_COUNT: 100_000 },
        {
          actor,
          ip: undefined,
          terms: {
            clientWithdrawalId: `race-${race}`,
            amount: 1n,
            toAddress: newAddress(),
            chain,
            asset,
          },
        },
      );
      const id = readUuid(row.withdrawal_id);
      const cancel = () =>
        cancelWithdrawal(db, { actor, id: { withdrawal_id: id }, ip: undefined }).then(
          () => "cancelled" as const,
          (error: unknown) => {
            if (error instanceof Problem) return error.data.code;
            throw error;
          },
        );
      const [cancelled, stored] = await (race % 2 === 0
        ? Promise.all([cancel(), pay(id)])
        : Promise.all([pay(id), cancel()]).then(([first_, second]) => [second, first_] as const));
      const won = stored === undefined ? "cancelled" : "withdrawal_not_cancellable";
      expect(cancelled).toBe(won);
      outcomes[stored === undefined ? "cancelled" : "paid"] += 1;
    }
    expect(outcomes.cancelled + outcomes.paid).toBe(RACES);
    expect(Math.min(outcomes.cancelled, outcomes.paid)).toBeGreaterThan(0);
    expect(await balances(user.userId, asset)).toEqual([
      BigInt(outcomes.cancelled),
      BigInt(outcomes.paid),
    ]);
    const both = await first<{ n: number }>(
      db,
      sql`SELECT count(*) AS n FROM withdrawals w
      JOIN batch_members m ON m.withdrawal_id = w.withdrawal_id
      WHERE w.user_id = ${uuid(user.userId)} AND w.status <> 'submitted'`,
    );
    expect(both).toEqual({ n: 0 });
  },
);

/** A user whose withdrawals all wait for approval, on a chain whose payer the test drives. */
async function approvalRaces(races: number) {
  const { key: asset } = newAsset();
  const { chain, pay } = await newPayer();
  const user = await newUser();
  await fund(user.userId, asset, BigInt(races), { chain });
  await all(
    db,
    sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
        withdraw_listed_only, withdraw_approval_above)
      VALUES (${uuid(user.userId)}, 1, 1, 1, 0, 0)`,
  );
  const { actor } = await newKey(user);
  let count = 0;
  const ask = async (): Promise<string> => {
    const terms = {
      clientWithdrawalId: `race-${count++}`,
      amount: 1n,
      toAddress: newAddress(),
      chain,
      asset,
    };
    const many = { ...settings(), WITHDRAWAL_DAILY_COUNT: 100_000 };
    const { row } = await withdraw(db, many, { actor, ip: undefined, terms });
    expect(row.status).toBe("awaiting_approval");
    return readUuid(row.withdrawal_id);
  };
  const codeOr = (work: Promise<unknown>) =>
    work.then(
      () => "ok",
      (error: unknown) => {
        if (error instanceof Problem) return error.data.code;
        throw error;
      },
    );
  const approve = (withdrawalId: string, through = db) =>
    codeOr(
      approveAfterStepUp(through, settings(), {
        actor: checkedActor(user.actor, null),
        withdrawalId,
        ip,
      }),
    );
  const cancel = (id: string) =>
    codeOr(cancelWithdrawal(db, { actor, id: { withdrawal_id: id }, ip: undefined }));
  return { user, asset, ask, approve, cancel, pay };
}

it("an approval is reported although its response was lost and its payment begun", async () => {
  const { ask, approve, pay } = await approvalRaces(1);
  const id = await ask();
  const responses = { lost: false };
  const losing = withBatch(db, async (statements) => {
    const rows = await db.batch(statements);
    if (responses.lost) return rows;
    responses.lost = true;
    expect(await pay(id)).toBeDefined();
    throw new Error("D1_ERROR: Network connection lost");
  });
  expect(await approve(id, losing)).toBe("ok");
});

type Moves = {
  readonly approve: () => Promise<string>;
  readonly pay: () => Promise<boolean>;
  readonly cancel: () => Promise<string>;
};

/** The payer takes the withdrawal once it is queued. The cancel comes before, beside or after. */
async function raceOf(race: number, { approve, pay, cancel }: Moves) {
  const approveAndPay = async () => {
    const code = await approve();
    return { code, paid: code === "ok" && (await pay()) };
  };
  switch (race % 4) {
    case 0: {
      // The cancel reads first, so it needs a start of some milliseconds to come first.
      const started = scheduler.wait((race / 4) % 16);
      const [result, approved] = await Promise.all([cancel(), started.then(approveAndPay)]);
      return { ...approved, result };
    }
    case 1: {
      const [approved, result] = await Promise.all([approveAndPay(), cancel()]);
      return { ...approved, result };
    }
    case 2: {
      const code = await approve();
      const [paid, result] = await Promise.all([pay(), cancel()]);
      return { code, paid, result };
    }
    default: {
      const code = await approve();
      const [result, paid] = await Promise.all([cancel(), pay()]);
      return { code, paid, result };
    }
  }
}

it(
  "exactly one of cancel and payment applies beside an approval, however they race",
  { timeout: 180_000 },
  async () => {
    const RACES = rounds(128, 1_000);
    const { user, asset, ask, approve, cancel, pay } = await approvalRaces(RACES);
    const outcomes = { "cancelled unapproved": 0, "cancelled approved": 0, paid: 0 };
    for (let race = 0; race < RACES; race++) {
      const id = await ask();
      const { code, paid, result } = await raceOf(race, {
        approve: () => approve(id),
        pay: async () => (await pay(id)) !== undefined,
        cancel: () => cancel(id),
      });
      expect(result, `race ${race}`).toBe(paid ? "withdrawal_not_cancellable" : "ok");
      if (code !== "ok") expect(code).toBe("withdrawal_not_approvable");
      outcomes[paid ? "paid" : code === "ok" ? "cancelled approved" : "cancelled unapproved"] += 1;
    }
    expect(Math.min(...Object.values(outcomes)), JSON.stringify(outcomes)).toBeGreaterThan(0);
    expect(await balances(user.userId, asset)).toEqual([
      BigInt(RACES - outcomes.paid),
      BigInt(outcomes.paid),
    ]);
    const odd = await first<{ n: number }>(
      db,
      sql`SELECT count(*) AS n FROM withdrawals w
        LEFT JOIN batch_members m ON m.withdrawal_id = w.withdrawal_id
        WHERE w.user_id = ${uuid(user.userId)}
          AND (w.status = 'submitted') <> (m.withdrawal_id IS NOT NULL)`,
    );
    expect(odd).toEqual({ n: 0 });
  },
);
