import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { all, raw, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { balances, fund, newAddress, newAsset } from "../support/ledger.ts";
import { newPayer } from "../support/payer.ts";
import { newKey, newUser, type TestKey, type TestUser } from "../support/users.ts";

const db = env.DB;

/** A user with funds, and a withdrawal of 30 of 100 units that is queued. */
async function queued() {
  const { key: asset, ...assetOnWire } = newAsset();
  const user = await newUser({ [asset]: 100n });
  const key = await newKey(user);
  const response = await apiOf(key).post("/custody/withdraw", {
    client_withdrawal_id: "first",
    amount: 30,
    to_address: newAddress(),
    ...assetOnWire,
  });
  expect(response.status).toBe(202);
  return { user, key, asset, id: response.json["withdrawal_id"] as string };
}

const ENTRIES = "/custody/get-ledger?reasons=release";

async function cancelBy(caller: TestUser | TestKey, body: object) {
  return apiOf(caller).delete("/custody/withdraw", body);
}

it("returns the amount of a queued withdrawal, once, to a session or a withdraw key", async () => {
  for (const by of ["session", "key"] as const) {
    const { user, key, asset, id } = await queued();
    const caller = by === "session" ? user : key;
    expect(await balances(user.userId, asset)).toEqual([70n, 30n]);
    const once = await cancelBy(caller, { withdrawal_id: id });
    expect(once).toMatchObject({ status: 200, json: { status: "cancelled", failure: null } });
    expect(await balances(user.userId, asset)).toEqual([100n, 0n]);
    const again = await cancelBy(caller, { client_withdrawal_id: "first" });
    expect(again.json).toEqual(once.json);
    const entries = (await apiOf(user).get(ENTRIES)).json["items"];
    expect(entries.map((entry: any) => [entry.account, entry.delta, entry.ref_id])).toEqual([
      ["available", "30", id],
      ["pending", "-30", id],
    ]);
    const events = (await apiOf(user).get("/auth/get-audit-events")).json["items"];
    expect(events[0]).toMatchObject({
      kind: "withdrawal_cancelled",
      actor: by === "session" ? "session" : "api_key",
      subject_id: id,
    });
  }
});

it("keeps the id of a cancelled withdrawal, which still counts for the day", async () => {
  const { key, user, id } = await queued();
  await cancelBy(user, { withdrawal_id: id });
  const listed = await apiOf(user).get("/custody/get-withdrawals?status=cancelled");
  expect(listed.json["items"]).toMatchObject([{ withdrawal_id: id, status: "cancelled" }]);
  const limited = apiOf(key, { WITHDRAWAL_DAILY_COUNT: "1" });
  const { json } = await limited.post("/custody/withdraw", {
    client_withdrawal_id: "second",
    amount: 1,
    to_address: newAddress(),
  });
  expect(json["code"]).toBe("withdrawal_daily_limit");
});

it("announces the cancel on the account stream", async () => {
  const { user, id } = await queued();
  await cancelBy(user, { withdrawal_id: id });
  const rows = await all<{ type: string }>(
    db,
    sql`SELECT e.type FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
      WHERE s.name = ${`account:${user.userId}`} AND e.type LIKE 'withdrawal.%' ORDER BY e.seq`,
  );
  expect(rows.map(({ type }) => type)).toEqual(["withdrawal.queued", "withdrawal.cancelled"]);
});

it("hides other users' withdrawals and rejects keys without the scope", async () => {
  const { user, id } = await queued();
  const body = { withdrawal_id: id };
  expect(await codeOf(await cancelBy(await newUser(), body))).toBe("404 withdrawal_unknown");
  const trader = await newKey(user, ["read", "trade"]);
  expect((await cancelBy(trader, body)).json).toMatchObject({
    code: "scope_missing",
    required_scope: "withdraw",
  });
  for (const wrong of [{}, { ...body, client_withdrawal_id: "first" }])
    expect(await codeOf(await cancelBy(user, wrong))).toBe("400 invalid_request");
});

it.each(["submitted", "settled", "failed"])("rejects a %s withdrawal", async (status) => {
  const { user, asset, id } = await queued();
  await all(db, sql`UPDATE withdrawals SET status = ${status} WHERE withdrawal_id = ${uuid(id)}`);
  expect((await cancelBy(user, { withdrawal_id: id })).json).toMatchObject({
    status: 409,
    code: "withdrawal_not_cancellable",
    withdrawal_status: status,
  });
  expect(await balances(user.userId, asset)).toEqual([70n, 30n]);
});

it("rejects a withdrawal that is queued again after a payment was signed", async () => {
  const { user, asset, id } = await queued();
  await all(
    db,
    sql`INSERT INTO batch_members (transaction_id, withdrawal_id, purpose, ended_group, outcome)
      VALUES (${uuid(uuidv7())}, ${uuid(id)}, 'pay', 1, 'returned')`,
  );
  const { json } = await cancelBy(user, { withdrawal_id: id });
  expect(json).toMatchObject({ code: "withdrawal_not_cancellable", withdrawal_status: "queued" });
  expect(await balances(user.userId, asset)).toEqual([70n, 30n]);
  await expect(
    all(db, sql`UPDATE withdrawals SET status = 'cancelled' WHERE withdrawal_id = ${uuid(id)}`),
  ).rejects.toThrow("append-only: a signed withdrawal is not cancelled");
});

it("no payment takes a cancelled withdrawal, not even a wrong one", async () => {
  const { user, id } = await queued();
  await cancelBy(user, { withdrawal_id: id });
  await expect(
    all(
      db,
      sql`INSERT INTO batch_members (transaction_id, withdrawal_id, purpose)
        VALUES (${uuid(uuidv7())}, ${uuid(id)}, 'pay')`,
    ),
  ).rejects.toThrow("append-only: the withdrawal is not to be paid");
});

it.each([
  ["frozen_at = 1", "account_frozen"],
  ["session_epoch = 9", "session_invalid"],
] as const)("the guard reads the user itself: %s", async (set, code) => {
  const { user, asset, id } = await queued();
  await all(db, sql`UPDATE users SET ${raw(set)} WHERE user_id = ${uuid(user.userId)}`);
  const cancelled = cancelWithdrawal(db, {
    actor: user.actor,
    id: { withdrawal_id: id },
    ip: undefined,
  });
  await expect(cancelled).rejects.toMatchObject({ data: { code } });
  expect(await balances(user.userId, asset)).toEqual([70n, 30n]);
});

it("waits while payments on the chain are halted", async () => {
  const { chain } = await newPayer();
  const { key: asset } = newAsset();
  const user = await newUser();
  await fund(user.userId, asset, 10n, { chain });
  const { actor } = await newKey(user);
  const terms = { clientWithdrawalId: "w", amount: 10n, toAddress: newAddress(), chain, asset };
  const { row } = await withdraw(db, settings(), { actor, ip: undefined, terms });
  const id = { withdrawal_id: readUuid(row.withdrawal_id) };
  await all(db, sql`UPDATE payer_leases SET halted_at = 1 WHERE chain = ${chain}`);
  const cancelled = cancelWithdrawal(db, { actor, id, ip: undefined });
  await expect(cancelled).rejects.toMatchObject({ data: { code: "withdrawals_paused" } });
  expect(await balances(user.userId, asset)).toEqual([0n, 10n]);
});
