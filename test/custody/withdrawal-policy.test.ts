import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { expireApprovals } from "../../src/custody/expire-approvals.ts";
import { setWithdrawalsPaused } from "../../src/custody/operator-commands.ts";
import { MAX_WITHDRAWAL_ADDRESSES } from "../../src/custody/withdrawal-addresses.ts";
import {
  alteredTerms,
  listedMac,
  MAC_COLUMNS,
  type MacRow,
} from "../../src/ledger/withdrawal-mac.ts";
import { all, blob, raw, select, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { balances, edit, newAddress, newAsset } from "../support/ledger.ts";
import { enrol, freshCode } from "../support/totp.ts";
import { newKey, newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

const db = env.DB;
const ADD = "/custody/create-withdrawal-address";
const DAY = { AUTH_SECURITY_DELAY_SECS: "86400" };

/** A user with 1 000 units of an asset, and a key that withdraws them. */
async function withFunds() {
  const { key: asset, ...assetOnWire } = newAsset();
  const user = await newUserWithPassword({ [asset]: 1_000n });
  const api = apiOf(await newKey(user));
  let next = 0;
  const withdraw = (amount: number, to = newAddress()) =>
    api.post("/custody/withdraw", {
      client_withdrawal_id: `w-${next++}`,
      amount,
      to_address: to,
      ...assetOnWire,
    });
  return { user, asset, api, withdraw };
}

/** Sets one column of the policy as it applies. policy.test.ts covers the calls that set it. */
const setPolicy = async (user: TestUser, column: string, value: number) => {
  await all(
    db,
    sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
        withdraw_listed_only)
      VALUES (${uuid(user.userId)}, 1, 1, 1, 0) ON CONFLICT DO NOTHING`,
  );
  await all(
    db,
    sql`UPDATE account_policies SET ${raw(column)} = ${value}
      WHERE user_id = ${uuid(user.userId)}`,
  );
};

const add = (user: TestUser, body: object, changes: Record<string, string> = {}) =>
  apiOf(user, changes).post(ADD, { password: PASSWORD, label: "wallet", ...body });

/** Adds an active address on a chain that is not configured. */
const addElsewhere = ({ userId }: TestUser, address: `0x${string}`) =>
  all(
    db,
    sql`INSERT INTO withdrawal_addresses
        (address_id, user_id, chain, address, label, created_at, active_from, mac)
      VALUES (randomblob(16), ${uuid(userId)}, 'elsewhere', ${blob(address)}, 'x', 0, 0,
        ${listedMac(settings(), { userId, chain: "elsewhere", address, activeFrom: 0 })})`,
  );

describe("the address book", () => {
  it("adds, lists and removes addresses", async () => {
    const user = await newUserWithPassword();
    const address = newAddress();
    const added = await add(user, { address, chain: "local" }, DAY);
    expect(added).toMatchObject({ status: 201, json: { chain: "local", label: "wallet" } });
    const { json } = added;
    expect(Date.parse(json["active_from"]) - Date.parse(json["created_at"])).toBe(86_400_000);
    const again = await add(user, { address, label: "another name" });
    expect(again.json).toEqual(json);
    const list = () => apiOf(user).get("/custody/get-withdrawal-addresses");
    expect((await list()).json["items"]).toEqual([json]);
    const remove = () =>
      apiOf(user).delete("/custody/withdrawal-address", { address_id: json["address_id"] });
    expect((await remove()).json).toEqual(json);
    expect((await list()).json["items"]).toEqual([]);
    expect(await codeOf(await remove())).toBe("404 withdrawal_address_unknown");
    const { items } = (await apiOf(user).get("/auth/get-audit-events?limit=2")).json as any;
    expect(items.map(({ kind }: any) => kind)).toEqual([
      "withdrawal_address_removed",
      "withdrawal_address_created",
    ]);
  });

  it("has an address once for each chain and user, and removes only the one that is named", async () => {
    const [user, other] = [await newUserWithPassword(), await newUserWithPassword()];
    const address = newAddress();
    await addElsewhere(user, address);
    const others = (await add(other, { address })).json;
    const { json } = await add(user, { address });
    expect(json).toMatchObject({
      chain: "local",
      address_id: expect.not.stringMatching(others["address_id"]),
    });
    const listOf = async (who: TestUser, query = "") =>
      (await apiOf(who).get(`/custody/get-withdrawal-addresses${query}`)).json;
    expect((await listOf(user)).items).toHaveLength(2);
    const { items, next_cursor } = await listOf(user, "?limit=1");
    expect(items).toEqual([json]);
    const rest = await listOf(user, `?limit=1&last_cursor=${next_cursor}`);
    expect(rest.items.map(({ chain }: any) => chain)).toEqual(["elsewhere"]);
    await apiOf(user).delete("/custody/withdrawal-address", { address_id: json["address_id"] });
    expect((await listOf(user)).items).toEqual(rest.items);
    expect((await listOf(other)).items).toEqual([others]);
  });

  it("is removed only by a session of a short time ago", async () => {
    const user = await newUserWithPassword();
    const { json } = await add(user, { address: newAddress() });
    const remove = (secs: string) =>
      apiOf(user, { AUTH_FRESH_SESSION_SECS: secs }).delete("/custody/withdrawal-address", {
        address_id: json["address_id"],
      });
    expect(await codeOf(await remove("0"))).toBe("401 password_required");
    expect((await remove("300")).status).toBe(200);
  });

  it("belongs to a session with the password, and to its user", async () => {
    const user = await newUserWithPassword();
    const wrong = await add(user, { address: newAddress(), password: "wrong password" });
    expect(await codeOf(wrong)).toBe("401 login_failed");
    const { json } = await add(user, { address: newAddress() });
    const target = `/custody/withdrawal-address?address_id=${json["address_id"]}`;
    expect(await codeOf(await apiOf(await newUser()).delete(target))).toBe(
      "404 withdrawal_address_unknown",
    );
    const key = apiOf(await newKey(user));
    expect(await codeOf(await key.delete(target))).toBe("403 session_required");
    for (const scope of ["read", "withdraw"] as const) {
      const reader = apiOf(await newKey(user, [scope]));
      const book = await reader.get("/custody/get-withdrawal-addresses");
      expect(book.json["items"]).toEqual([json]);
      expect((await reader.get("/auth/policy")).status).toBe(200);
      expect((await reader.get("/custody/get-withdrawals")).status).toBe(200);
    }
    expect(await codeOf(await add(user, { address: newAddress(), chain: "nowhere" }))).toBe(
      "404 chain_unknown",
    );
  });

  it("has a limit", async () => {
    const user = await newUserWithPassword();
    await all(
      db,
      sql`INSERT INTO withdrawal_addresses
          (address_id, user_id, chain, address, label, created_at, active_from)
        SELECT randomblob(16), ${uuid(user.userId)}, 'local', randomblob(20), 'x', 0, 0
        FROM json_each(${JSON.stringify(Array.from({ length: MAX_WITHDRAWAL_ADDRESSES }))})`,
    );
    const response = await add(user, { address: newAddress() });
    expect(await codeOf(response)).toBe("409 withdrawal_address_limit");
  });

  it("loses what is not active yet by a freeze", async () => {
    const user = await newUserWithPassword();
    const active = await add(user, { address: newAddress() });
    await add(user, { address: newAddress() }, DAY);
    await freezeUser(db, { userId: user.userId, operator: "test" });
    const rows = await all(
      db,
      sql`SELECT lower(hex(address_id)) AS id FROM withdrawal_addresses
        WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(rows).toEqual([{ id: active.json["address_id"].replaceAll("-", "") }]);
  });
});

describe("withdraw_listed_only", () => {
  it("lets withdrawals go to the user's active addresses of the chain only", async () => {
    const { user, withdraw } = await withFunds();
    await setPolicy(user, "withdraw_listed_only", 1);
    const [listed, waiting] = [newAddress(), newAddress()];
    const [elsewhere, others] = [newAddress(), newAddress()];
    await addElsewhere(user, elsewhere);
    await add(await newUserWithPassword(), { address: others });
    for (const to of [elsewhere, others])
      expect((await withdraw(1, to)).json).toMatchObject({
        code: "address_not_listed",
        active_from: null,
      });
    await add(user, { address: listed });
    const { json } = await add(user, { address: waiting }, DAY);
    expect((await withdraw(1)).json).toMatchObject({
      status: 409,
      code: "address_not_listed",
      active_from: null,
    });
    expect((await withdraw(1, waiting)).json).toMatchObject({
      code: "address_not_listed",
      active_from: json["active_from"],
    });
    expect((await withdraw(1, listed)).status).toBe(202);
    // An entry that SQL has edited lists nothing.
    await all(
      db,
      sql`UPDATE withdrawal_addresses SET active_from = 1 WHERE user_id = ${uuid(user.userId)}`,
    );
    for (const to of [waiting, listed])
      expect((await withdraw(1, to)).json).toMatchObject({
        code: "address_not_listed",
        active_from: null,
      });
  });
});

describe("withdraw_max_usdc_per_day", () => {
  it("counts withdrawals of the last day except failed and cancelled ones", async () => {
    const { user, withdraw } = await withFunds();
    await setPolicy(user, "withdraw_max_usdc_per_day", 100);
    const first = await withdraw(60);
    expect(first.status).toBe(202);
    expect((await withdraw(41)).json).toMatchObject({
      status: 409,
      code: "account_limit",
      limit: "withdraw_max_usdc_per_day",
      maximum: "0x64",
      used: "0x3c",
      required: "0x29",
    });
    expect((await apiOf(user).get("/auth/policy")).json["used"]["withdraw_usdc"]).toBe("0x3c");
    const id = first.json["withdrawal_id"];
    await apiOf(user).delete("/custody/withdraw", { withdrawal_id: id });
    expect((await withdraw(100)).status).toBe(202);
    expect(await codeOf(await withdraw(1))).toBe("409 account_limit");
    await all(
      db,
      sql`UPDATE withdrawals SET created_at = created_at - 86400000
        WHERE user_id = ${uuid(user.userId)} AND status = 'queued'`,
    );
    expect((await withdraw(100)).status).toBe(202);
  });
});

describe("withdraw_approval_above", () => {
  async function waiting() {
    const funded = await withFunds();
    const { secret } = await enrol(funded.user);
    await setPolicy(funded.user, "withdraw_approval_above", 100);
    const approve = async (id: string, body: object = {}) =>
      apiOf(funded.user).post("/custody/approve-withdrawal", {
        withdrawal_id: id,
        password: PASSWORD,
        totp_code: await freshCode(funded.user, secret),
        ...body,
      });
    return { ...funded, approve, secret };
  }

  it("makes a withdrawal wait that lifts the day's unapproved sum above it", async () => {
    const { user, asset, withdraw, approve } = await waiting();
    expect((await withdraw(60)).json).toMatchObject({
      status: "queued",
      approval_expires_at: null,
    });
    const { status, json } = await withdraw(41);
    expect([status, json["status"]]).toEqual([202, "awaiting_approval"]);
    expect(Date.parse(json["approval_expires_at"]) - Date.parse(json["created_at"])).toBe(
      86_400_000,
    );
    expect((await withdraw(30)).json["status"]).toBe("queued");
    const { withdrawal_id } = json;
    const approved = await approve(withdrawal_id);
    expect(approved).toMatchObject({ status: 200, json: { withdrawal_id, status: "queued" } });
    expect((await withdraw(10)).json["status"]).toBe("queued");
    expect(await balances(user.userId, asset)).toEqual([859n, 141n]);
    expect((await withdraw(1)).json["status"]).toBe("awaiting_approval");
    const rows = await all<{ type: string }>(
      db,
      sql`SELECT e.type FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
        WHERE s.name = ${`account:${user.userId}`} AND e.type LIKE 'withdrawal.%' ORDER BY e.seq`,
    );
    expect(rows.map(({ type }) => type)).toEqual([
      "withdrawal.queued",
      "withdrawal.awaiting_approval",
      "withdrawal.queued",
      "withdrawal.queued",
      "withdrawal.queued",
      "withdrawal.awaiting_approval",
    ]);
    await all(
      db,
      sql`UPDATE withdrawals SET created_at = created_at - 86400000
        WHERE user_id = ${uuid(user.userId)}`,
    );
    expect((await withdraw(100)).json["status"]).toBe("queued");
  });

  it("is approved only while its chain pays, and has issued that much", async () => {
    const { user, withdraw, approve } = await waiting();
    const id = (await withdraw(500)).json["withdrawal_id"];
    const chain = `halted-${user.userId}`;
    await all(
      db,
      sql`INSERT INTO payer_leases (chain, token, taken_at, halted_at, halt_reason)
        VALUES (${chain}, ${uuid(user.userId)}, 1, 1, 'test')`,
    );
    const move = (to: string) =>
      edit(db, "withdrawals", [
        sql`UPDATE withdrawals SET chain = ${to} WHERE withdrawal_id = ${uuid(id)}`,
      ]);
    await move(chain);
    expect(await codeOf(await approve(id))).toBe("503 withdrawals_paused");
    await move("elsewhere");
    expect(await codeOf(await approve(id))).toBe("409 chain_liquidity");
    await move("local");
    await setWithdrawalsPaused(db, true, "operator:test");
    try {
      expect(await codeOf(await approve(id))).toBe("503 withdrawals_paused");
    } finally {
      await setWithdrawalsPaused(db, false, "operator:test");
    }
    expect((await approve(id)).json["status"]).toBe("queued");
  });

  it("is approved once, by its owner, with a fresh code", async () => {
    const { withdraw, approve, api } = await waiting();
    const id = (await withdraw(500)).json["withdrawal_id"];
    expect(await codeOf(await approve(id, { totp_code: undefined }))).toBe("401 totp_required");
    const body = { withdrawal_id: id, password: PASSWORD };
    expect(await codeOf(await api.post("/custody/approve-withdrawal", body))).toBe(
      "403 session_required",
    );
    const stranger = apiOf(await newUserWithPassword());
    expect(await codeOf(await stranger.post("/custody/approve-withdrawal", body))).toBe(
      "409 totp_not_enabled",
    );
    expect((await approve(id)).json["status"]).toBe("queued");
    expect((await approve(id)).json).toMatchObject({
      status: 409,
      code: "withdrawal_not_approvable",
      withdrawal_status: "queued",
    });
  });

  it("counts as approved only by the approval, not by edits of its row", async () => {
    const { withdraw, approve } = await waiting();
    const id = async () => (await withdraw(300)).json["withdrawal_id"] as string;
    const [first, second, third] = [await id(), await id(), await id()];
    expect((await approve(first)).json["status"]).toBe("queued");
    const stated = async (one: string) => {
      const where = sql`FROM withdrawals w WHERE w.withdrawal_id = ${uuid(one)}`;
      const [row] = await all<MacRow>(db, sql`SELECT ${select(MAC_COLUMNS)} ${where}`);
      return row && alteredTerms(settings(), row);
    };
    expect(await stated(first)).toBeUndefined();
    expect(await stated(second)).toBeUndefined();
    await edit(db, "withdrawals", [
      sql`UPDATE withdrawals SET status = 'queued', approval_mac = (SELECT approval_mac
          FROM withdrawals WHERE withdrawal_id = ${uuid(first)})
        WHERE withdrawal_id = ${uuid(second)}`,
      sql`UPDATE withdrawals SET status = 'queued', approval_expires_at = NULL
        WHERE withdrawal_id = ${uuid(third)}`,
    ]);
    expect(await stated(second)).toBe("its owner has not approved it through the service");
    expect(await stated(third)).toBe("its terms are not those of its MAC");
  });

  it("checks the address book again", async () => {
    const { user, withdraw, approve } = await waiting();
    const id = (await withdraw(500)).json["withdrawal_id"];
    await all(
      db,
      sql`UPDATE account_policies SET withdraw_listed_only = 1
        WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(await codeOf(await approve(id))).toBe("409 address_not_listed");
  });

  /** Makes the withdrawal a day older, and leaves a minute to approve it. */
  const age = (id: string) =>
    all(
      db,
      sql`UPDATE withdrawals SET created_at = created_at - 86400000,
          approval_expires_at = approval_expires_at - 86340000
        WHERE withdrawal_id = ${uuid(id)}`,
    );
  async function limited() {
    const funded = await waiting();
    await setPolicy(funded.user, "withdraw_max_usdc_per_day", 200);
    const old: string = (await funded.withdraw(200)).json["withdrawal_id"];
    await age(old);
    return { ...funded, old };
  }

  it("is approved only within the limit of the day", async () => {
    const { withdraw, approve, old } = await limited();
    const recent = (await withdraw(101)).json["withdrawal_id"];
    expect((await approve(old)).json).toMatchObject({
      status: 409,
      code: "account_limit",
      limit: "withdraw_max_usdc_per_day",
      maximum: "0xc8",
      used: "0x65",
      required: "0xc8",
    });
    expect((await approve(recent)).json["status"]).toBe("queued");
    expect(await codeOf(await approve(old))).toBe("409 account_limit");
  });

  it("counts for the day of its approval", async () => {
    const { user, withdraw, approve, old } = await limited();
    expect((await approve(old)).json["status"]).toBe("queued");
    expect((await apiOf(user).get("/auth/policy")).json["used"]["withdraw_usdc"]).toBe("0xc8");
    expect(await codeOf(await withdraw(1))).toBe("409 account_limit");
    await all(
      db,
      sql`UPDATE withdrawals SET created_at = created_at - 86400000,
          approved_at = approved_at - 86400000
        WHERE withdrawal_id = ${uuid(old)}`,
    );
    expect((await withdraw(100)).json["status"]).toBe("queued");
  });

  it("may be cancelled while it waits", async () => {
    const { user, asset, withdraw } = await waiting();
    const id = (await withdraw(500)).json["withdrawal_id"];
    const { json } = await apiOf(user).delete("/custody/withdraw", { withdrawal_id: id });
    expect(json).toMatchObject({ status: "cancelled", failure: null });
    expect(await balances(user.userId, asset)).toEqual([1_000n, 0n]);
  });

  it("ends after 24 hours and returns the amount", async () => {
    const { user, asset, withdraw, approve } = await waiting();
    const id = (await withdraw(500)).json["withdrawal_id"];
    await expireApprovals(env);
    expect(await balances(user.userId, asset)).toEqual([500n, 500n]);
    await all(
      db,
      sql`UPDATE withdrawals SET approval_expires_at = 1 WHERE withdrawal_id = ${uuid(id)}`,
    );
    expect(await codeOf(await approve(id))).toBe("409 withdrawal_not_approvable");
    await expireApprovals(env);
    expect(await balances(user.userId, asset)).toEqual([1_000n, 0n]);
    const { json } = await apiOf(user).get(`/custody/get-withdrawal?withdrawal_id=${id}`);
    expect(json).toMatchObject({ status: "cancelled", failure: { code: "approval_expired" } });
  });
});
