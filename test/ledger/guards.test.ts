import { env } from "cloudflare:workers";
import { type Reason, reasonCode, type Step, stepCode } from "../../src/ledger/codes.ts";
import { describe, expect, it } from "vitest";
import { post, insertTransfers } from "../../src/ledger/post.ts";
import { claimFence, commit, newGroup } from "../../src/platform/commit.ts";
import { all, first, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { balances, newAsset, fund } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const db = env.DB;

/** A user with one deposit, and the ids of its transfer and accounts. */
async function funded(amount = 100n) {
  const { key } = newAsset();
  const { userId } = await newUser({ [key]: amount });
  const row = await first<{ id: number; external: number; available: number }>(
    db,
    sql`SELECT t.transfer_id AS id, t.from_account AS external, t.to_account AS available
      FROM transfers t JOIN accounts a ON a.account_id = t.to_account
      WHERE a.owner = ${uuid(userId)} AND a.asset = ${key}`,
  );
  const pending = await first<{ id: number }>(
    db,
    sql`SELECT account_id AS id FROM accounts
      WHERE owner = ${uuid(userId)} AND asset = ${key} AND kind = 'pending'`,
  );
  if (row === null || row === undefined || pending === undefined) throw new Error("not funded");
  return {
    userId,
    key,
    transferId: row.id,
    external: row.external,
    available: row.available,
    pending: pending.id,
  };
}

type Funded = Awaited<ReturnType<typeof funded>>;
type Values = {
  from?: number | Sql;
  to?: number | Sql;
  amount?: Sql | bigint | number;
  reason?: Reason | Sql;
  ref?: string;
  step?: Step | Sql;
  line?: number;
  id?: number | null;
  balances?: Sql;
};

const CLAUSES = [
  "INSERT",
  "INSERT OR IGNORE",
  "INSERT OR REPLACE",
  "INSERT OR ABORT",
  "INSERT OR FAIL",
] as const;

/** A direct INSERT, valid unless a value is replaced. */
function insert(of: Funded, values: Values = {}, clause: string = "INSERT", tail = ""): Sql {
  const {
    from = of.available,
    to = of.pending,
    amount = 10n,
    reason = "reserve_rfq",
    ref = uuidv7(),
    step = "reserve",
    line = 0,
    id = null,
  } = values;
  return sql`${raw(clause)} INTO transfers (transfer_id, from_account, to_account, amount, reason,
      ref, step, line, at, from_balance, to_balance)
    VALUES (${id}, ${from}, ${to}, ${amount},
      ${typeof reason === "string" ? reasonCode(reason) : reason}, ${uuid(ref)},
      ${typeof step === "string" ? stepCode(step) : step}, ${line},
      (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1),
      ${values.balances ?? raw("NULL, NULL")}) ${raw(tail)}`;
}

async function journal(of: Funded): Promise<unknown> {
  return all(
    db,
    sql`SELECT transfer_id, from_account, to_account, CAST(amount AS TEXT) AS amount, reason,
        hex(ref) AS ref, step, line, at, CAST(from_balance AS TEXT) AS f,
        CAST(to_balance AS TEXT) AS t
      FROM transfers WHERE from_account IN (${of.external}, ${of.available}, ${of.pending})
        OR to_account IN (${of.available}, ${of.pending}) ORDER BY transfer_id`,
  );
}

/** The statement fails or does nothing: journal and balances stay as they are. */
async function changesNothing(of: Funded, statement: Sql): Promise<void> {
  const before = [await journal(of), await balances(of.userId, of.key)];
  await all(db, statement).catch(() => undefined);
  expect([await journal(of), await balances(of.userId, of.key)], statement.text).toEqual(before);
}

async function isRejected(of: Funded, statement: Sql): Promise<void> {
  const before = [await journal(of), await balances(of.userId, of.key)];
  await expect(all(db, statement), statement.text).rejects.toThrow();
  expect([await journal(of), await balances(of.userId, of.key)], statement.text).toEqual(before);
}

describe("the database rejects, under any conflict clause,", () => {
  it("but accepts the transfer that these tests vary", async () => {
    const of = await funded();
    await all(db, insert(of));
    expect(await balances(of.userId, of.key)).toEqual([90n, 10n]);
  });

  for (const clause of CLAUSES) {
    it(`an overdraft under ${clause}`, async () =>
      isRejected(await funded(), insert(await funded(), { amount: 101n }, clause)));
    it(`a second transfer of one ref, step and line under ${clause}`, async () => {
      const of = await funded();
      const ref = uuidv7();
      await all(db, insert(of, { ref }));
      await isRejected(of, insert(of, { ref }, clause));
      await isRejected(
        of,
        insert(
          of,
          { ref, amount: 1n, reason: "release", from: of.pending, to: of.available },
          clause,
        ),
      );
      // Only the second fee of a match has a line of its own.
      await isRejected(of, insert(of, { ref, line: 1 }, clause));
    });
    it(`a transfer_id that the writer chose under ${clause}`, async () => {
      const of = await funded();
      for (const id of [of.transferId, of.transferId + 1_000, 0, -2])
        await isRejected(of, insert(of, { id }, clause));
      // Triggers cannot tell -1 from no number. The database numbers such a row itself.
      await all(db, insert(of, { id: -1 }, clause));
      expect(await all(db, sql`SELECT 1 FROM transfers WHERE transfer_id < 1`)).toEqual([]);
    });
    it(`balances that are not the journal's under ${clause}`, async () => {
      const of = await funded();
      const complete = (id: number | null, from: bigint, to: bigint, subs = "sub_account, NULL") =>
        sql`${raw(clause)} INTO transfers (transfer_id, from_account, to_account, amount, reason,
            ref, step, line, at, from_balance, to_balance, from_sub_account, to_sub_account)
          SELECT ${id}, ${of.available}, ${of.pending}, 10, ${reasonCode("reserve_rfq")},
            ${uuid(uuidv7())}, ${stepCode("reserve")}, 0,
            (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), ${from}, ${to}, ${raw(subs)}
          FROM accounts WHERE account_id = ${of.available}`;
      for (const [id, from, to] of [
        [null, 91n, 10n],
        [null, 90n, 11n],
        [null, 110n, -10n],
        [-1, 90n, 10n],
      ] as const)
        await isRejected(of, complete(id, from, to));
      for (const subs of ["NULL, NULL", "sub_account + 2, NULL", "sub_account, sub_account + 1"])
        await isRejected(of, complete(null, 90n, 10n, subs));
      await all(db, complete(null, 90n, 10n));
      expect(await balances(of.userId, of.key)).toEqual([90n, 10n]);
    });
    it(`a transfer between two assets or within one account under ${clause}`, async () => {
      const of = await funded();
      const other = await funded();
      await isRejected(of, insert(of, { to: other.available }, clause));
      await changesNothing(of, insert(of, { to: of.available }, clause));
    });
    it(`an unknown account under ${clause}`, async () => {
      const of = await funded();
      await isRejected(of, insert(of, { to: 999_999_999 }, clause));
      await isRejected(of, insert(of, { from: 999_999_999 }, clause));
      await changesNothing(of, insert(of, { to: raw("NULL") }, clause));
    });
    it(`an unknown reason or step under ${clause}`, async () => {
      const of = await funded();
      for (const unknown of [
        raw("0"),
        raw("8"),
        raw("-1"),
        raw("2.5"),
        raw("'gift'"),
        raw("NULL"),
      ]) {
        await changesNothing(of, insert(of, { reason: unknown }, clause));
        await changesNothing(of, insert(of, { step: unknown }, clause));
      }
    });
    it(`an amount that is no integer from 1 to 2^62 under ${clause}`, async () => {
      const of = await funded(2n ** 62n);
      for (const amount of [
        0n,
        -1n,
        1.5,
        raw("1e19"),
        raw("10.5"),
        raw("'ten'"),
        raw("x'01'"),
        raw("NULL"),
        raw("4611686018427387905"),
        raw("9223372036854775807"),
        raw("9223372036854775808"),
      ]) {
        await changesNothing(of, insert(of, { amount }, clause));
      }
    });
    it(`balances that the writer chose under ${clause}`, async () =>
      isRejected(await funded(), insert(await funded(), { balances: raw("1, 1") }, clause)));
  }

  it("an upsert", async () => {
    const of = await funded();
    const ref = uuidv7();
    await all(db, insert(of, { ref }));
    const { id } = (await first<{ id: number }>(
      db,
      sql`SELECT transfer_id AS id FROM transfers WHERE ref = ${uuid(ref)}`,
    )) ?? { id: 0 };
    await isRejected(
      of,
      insert(of, { ref }, "INSERT", "ON CONFLICT (ref, step, line) DO UPDATE SET amount = 99"),
    );
    await isRejected(
      of,
      insert(of, { id }, "INSERT", "ON CONFLICT (transfer_id) DO UPDATE SET amount = 99"),
    );
    await isRejected(of, insert(of, { ref }, "INSERT", "ON CONFLICT DO NOTHING"));
    await isRejected(of, insert(of, { amount: 101n }, "INSERT", "ON CONFLICT DO NOTHING"));
  });

  it("an update of any column of a transfer", async () => {
    const of = await funded();
    for (const clause of ["UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"]) {
      for (const set of [
        "amount = 1",
        "reason = 7",
        "step = 2",
        "line = 9",
        "at = 5",
        "from_balance = 0",
        "to_balance = NULL",
        "transfer_id = 99999999",
        `to_account = ${of.pending}`,
        "ref = x'00'",
        "from_sub_account = 4",
        "to_sub_account = 4",
      ]) {
        await isRejected(
          of,
          sql`${raw(clause)} transfers SET ${raw(set)} WHERE transfer_id = ${of.transferId}`,
        );
      }
    }
  });

  it("a delete of a transfer or an account", async () => {
    const of = await funded();
    await isRejected(of, sql`DELETE FROM transfers WHERE transfer_id = ${of.transferId}`);
    await isRejected(of, sql`DELETE FROM accounts WHERE account_id = ${of.available}`);
  });

  it("an update of any column of an account", async () => {
    const of = await funded();
    for (const clause of ["UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"]) {
      for (const set of [
        "balance = balance + 1",
        "balance = 0",
        "kind = 'pending'",
        "asset = 'usdc'",
        "owner = x'00'",
        "account_id = account_id + 1000000",
        "sub_account = 0",
        "sub_account = NULL",
        "traded = traded + 1",
        "traded_usdc = 1",
      ]) {
        await isRejected(
          of,
          sql`${raw(clause)} accounts SET ${raw(set)} WHERE account_id = ${of.available}`,
        );
      }
    }
  });

  it("the balance that a transfer left on another account", async () => {
    const [of, other] = [await funded(), await funded()];
    await all(db, insert(of));
    for (const [account, balance] of [
      [other.available, 90n],
      [other.pending, 10n],
    ] as const)
      await isRejected(
        other,
        sql`UPDATE accounts SET balance = ${balance} WHERE account_id = ${account}`,
      );
  });

  it("a duplicate account, and one that starts with money", async () => {
    const of = await funded();
    for (const clause of CLAUSES) {
      const row = (id: number | null, owner: Sql, balance: number) =>
        sql`${raw(clause)} INTO accounts (account_id, owner, asset, kind, balance)
          VALUES (${id}, ${owner}, ${of.key}, 'available', ${balance})`;
      await isRejected(of, row(null, uuid(of.userId), 0));
      await isRejected(of, row(of.available, uuid(uuidv7()), 0));
      await isRejected(of, row(null, uuid(uuidv7()), 5));
    }
    await isRejected(
      of,
      sql`INSERT INTO accounts (owner, asset, kind, balance)
        VALUES (${uuid(of.userId)}, ${of.key}, 'available', 0)
        ON CONFLICT (owner, asset, kind) DO UPDATE SET balance = 1000000`,
    );
  });

  it("a sub-account's number that its writer chose", async () => {
    const of = await funded();
    await isRejected(
      of,
      sql`INSERT INTO accounts (owner, asset, kind, balance, sub_account)
        VALUES (${uuid(of.userId)}, 'usdc', 'available', 0, 4)`,
    );
    await isRejected(
      of,
      sql`UPDATE accounts SET sub_account = 4 WHERE account_id = ${of.external}`,
    );
    await isRejected(
      of,
      sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at,
          from_sub_account)
        VALUES (${of.available}, ${of.pending}, 1, ${reasonCode("reserve_rfq")},
          ${uuid(uuidv7())}, ${stepCode("reserve")}, 0,
          (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 4)`,
    );
  });

  it("a balance above 2^62", async () => {
    const of = await funded(2n ** 62n);
    expect(await balances(of.userId, of.key)).toEqual([2n ** 62n, 0n]);
    await expect(fund(of.userId, of.key, 1n)).rejects.toThrow();
    await expect(fund(of.userId, of.key, 1n, { chain: "elsewhere" })).rejects.toThrow();
    await isRejected(
      of,
      insert(of, {
        from: of.external,
        to: of.pending,
        amount: 1n,
        reason: "deposit",
        step: "credit",
      }),
    );
  });

  it("a negative pending balance", async () => {
    const of = await funded();
    await isRejected(
      of,
      insert(of, { from: of.pending, to: of.available, amount: 1n, reason: "release" }),
    );
  });
});

it("moves amounts above 2^53 exactly", async () => {
  const of = await funded(2n ** 62n);
  await all(db, insert(of, { amount: 2n ** 53n + 1n }));
  expect(await balances(of.userId, of.key)).toEqual([2n ** 62n - 2n ** 53n - 1n, 2n ** 53n + 1n]);
});

/** Commits a reserve of 10 and its release, each in a group of its own. */
function reserveAndRelease(of: Funded, ref: string) {
  const source = sql`SELECT ${uuid(of.userId)} AS from_owner, ${uuid(of.userId)} AS to_owner,
    ${of.key} AS asset, 10 AS amount, ${uuid(ref)} AS ref, 0 AS line`;
  return {
    reserve: (group = newGroup()) =>
      commit(db, group, [
        insertTransfers(group, {
          reason: "reserve_rfq",
          step: "reserve",
          from: "available",
          to: "pending",
          source,
        }),
      ]),
    release: (group = newGroup()) =>
      commit(db, group, [
        insertTransfers(group, {
          reason: "release",
          step: "end",
          from: "pending",
          to: "available",
          source,
        }),
      ]),
  };
}

it("releases a reserve once when three releases race", async () => {
  const of = await funded();
  const mine = reserveAndRelease(of, uuidv7());
  await reserveAndRelease(of, uuidv7()).reserve();
  await mine.reserve();
  const outcomes = await Promise.all([mine.release(), mine.release(), mine.release()]);
  expect(outcomes.filter((outcome) => outcome.committed)).toHaveLength(1);
  expect(
    outcomes.filter((outcome) => !outcome.committed && outcome.reason === "constraint"),
  ).toHaveLength(2);
  expect(await balances(of.userId, of.key)).toEqual([90n, 10n]);
});

it("a batch of a voided group changes nothing", async () => {
  const of = await funded();
  const group = newGroup();
  expect(await claimFence(db, group.id)).toBe("voided");
  const late = await reserveAndRelease(of, uuidv7()).reserve(group);
  expect(late.committed).toBe(false);
  expect(await balances(of.userId, of.key)).toEqual([100n, 0n]);
});

it("a committed group cannot be voided or committed again", async () => {
  const of = await funded();
  const group = newGroup();
  const operation = reserveAndRelease(of, uuidv7());
  expect((await operation.reserve(group)).committed).toBe(true);
  expect(await claimFence(db, group.id)).toBe("committed");
  // The fence rejects the second batch, so the result is that of the first. Its rows must be read.
  expect(await operation.reserve(group)).toEqual({ committed: true, rows: null });
  expect(await balances(of.userId, of.key)).toEqual([90n, 10n]);
});

it("credits a deposit once when twelve deliveries race", async () => {
  const { key } = newAsset();
  const { userId } = await newUser({ [key]: 1n });
  const ref = uuidv7();
  const source = sql`SELECT CAST('external:local' AS BLOB) AS from_owner,
    ${uuid(userId)} AS to_owner, ${key} AS asset, 50 AS amount, ${uuid(ref)} AS ref, 0 AS line`;
  const deliveries = Array.from({ length: 12 }, () => {
    const group = newGroup();
    return commit(
      db,
      group,
      post(group, { reason: "deposit", step: "credit", from: "external", to: "available", source }),
    );
  });
  expect((await Promise.all(deliveries)).filter((outcome) => outcome.committed)).toHaveLength(1);
  expect(await balances(userId, key)).toEqual([51n, 0n]);
});

it("a missing account aborts the whole group", async () => {
  const of = await funded();
  const stranger = await newUser();
  const group = newGroup();
  const rows = sql`SELECT * FROM (
    SELECT ${uuid(of.userId)} AS from_owner, ${uuid(of.userId)} AS to_owner, ${of.key} AS asset,
      10 AS amount, ${uuid(uuidv7())} AS ref, 0 AS line
    UNION ALL
    SELECT ${uuid(stranger.userId)}, ${uuid(of.userId)}, ${of.key}, 10, ${uuid(uuidv7())}, 0)`;
  expect(
    (
      await commit(db, group, [
        insertTransfers(group, {
          reason: "reserve_rfq",
          step: "reserve",
          from: "available",
          to: "pending",
          source: rows,
        }),
      ])
    ).committed,
  ).toBe(false);
  expect(await balances(of.userId, of.key)).toEqual([100n, 0n]);
});

it("instants of the journal never go back", async () => {
  const back = await first(
    db,
    sql`SELECT a.transfer_id FROM transfers a JOIN transfers b ON b.transfer_id = a.transfer_id + 1
      WHERE b.at < a.at LIMIT 1`,
  );
  expect(back).toBeUndefined();
});
