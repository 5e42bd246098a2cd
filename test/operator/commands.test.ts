import { createExecutionContext, createMessageBatch } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { handleWithdrawalMessages } from "../../src/custody/payer/wake-payer.ts";
import { Operator } from "../../src/operator/entrypoint.ts";
import { REVIEWED_ALERTS } from "../../src/platform/alert-kinds.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { bearer, send } from "../support/http.ts";
import { type Funded, insertDeposit, insertWithdrawal, randomHex } from "../support/ledger.ts";
import { orderOf, orderOfTwo, sendOrder } from "../support/operator.ts";
import { newUser } from "../support/users.ts";

const execute = (line: string, options: Record<string, string> = {}) =>
  sendOrder(orderOf(line.split(" "), options));

const rejection = (code: string, detail: string) => ({
  ok: false,
  problem: { code, detail: expect.stringContaining(detail) as string },
});

async function login(email: string, password: string): Promise<{ status: number; token: string }> {
  const response = await send("/auth/login", {
    method: "POST",
    body: JSON.stringify({ email, password }),
  });
  const body: { access_token?: string } = await response.json();
  return { status: response.status, token: body.access_token ?? "" };
}

const whoami = async (token: string) =>
  (await send("/auth/whoami", { headers: bearer(token) })).status;
const freshEmail = () => `${uuidv7()}@operator.example`;

it("rejects a body that a web page can send without asking", async () => {
  const request = new Request("http://operator.internal/", {
    method: "POST",
    body: orderOf(["audit", "list"]),
  });
  const response = await new Operator(createExecutionContext(), env).fetch(request);
  expect(await response.json()).toMatchObject({
    ok: false,
    problem: { code: "content_type_unsupported" },
  });
});

describe("options", () => {
  const lists = ["audit list", "withdrawals list", "deposits list"];

  it.each(lists)("`%s` accepts limits from 1 to 500 only", async (command) => {
    for (const limit of ["0", "-1", "1.5", "abc", "501", "1e2", " 5", ""]) {
      expect(await execute(command, { limit })).toMatchObject(
        rejection("invalid_request", "--limit"),
      );
    }
    expect(await execute(command, { limit: "500" })).toMatchObject({ ok: true });
    expect(await execute(command)).toMatchObject({ ok: true });
  });

  it("rejects an unknown status by name", async () => {
    for (const command of ["withdrawals list", "deposits list"]) {
      expect(await execute(command, { status: "lost" })).toMatchObject(
        rejection("invalid_request", "--status: must be one of"),
      );
    }
  });

  it("rejects an email address that could not log in", async () => {
    for (const email of ["bad3", "a b@c", "", "@x", `${"a".repeat(250)}@b.example`]) {
      expect(
        await execute("user create", { email, password: "long-enough-password" }),
      ).toMatchObject(rejection("invalid_request", "--email"));
      expect(await first(env.DB, sql`SELECT 1 FROM users WHERE email = ${email}`)).toBeUndefined();
    }
  });

  it("makes keys that are bound to addresses and end, and that do not withdraw", async () => {
    const { email } = await newUser();
    const create = (options: Record<string, string>) =>
      execute("api-key create", { email, scopes: "read,trade", ...options });
    const bound = {
      "allowed-ips": "203.0.113.7, 2001:db8::/32",
      "expires-at": "2199-01-01T00:00:00Z",
    };
    expect(await create(bound)).toMatchObject({
      result: {
        scopes: ["read", "trade"],
        allowed_ips: ["203.0.113.7", "2001:db8::/32"],
        expires_at: "2199-01-01T00:00:00.000Z",
      },
    });
    for (const [option, value] of [
      ["allowed-ips", "somewhere"],
      ["expires-at", "2001-01-01T00:00:00Z"],
      ["scopes", "read,withdraw"],
      ["scopes", "read,everything"],
    ] as const)
      expect(await create({ [option]: value })).toMatchObject(
        rejection("invalid_request", `--${option}`),
      );
  });

  it("rejects unknown keys, chains and users with separate codes", async () => {
    expect(await execute("api-key revoke", { id: uuidv7() })).toMatchObject(
      rejection("api_key_unknown_id", "There is no API key"),
    );
    expect(await execute("chain status nope")).toMatchObject(
      rejection("chain_unknown", "There is no chain nope"),
    );
    expect(await execute("chain resume nope")).toMatchObject(
      rejection("chain_unknown", "There is no chain nope"),
    );
    expect(await execute("chain status local")).toMatchObject({
      ok: true,
      result: {
        switches: expect.any(Array) as unknown,
        reconciled: expect.objectContaining({
          recent_finished_at: expect.toSatisfy((at) => at === null || at > "2") as unknown,
        }) as unknown,
        fails_open: expect.arrayContaining(["OPERATOR_APPROVALS"]) as string[],
        storage: { bytes: expect.any(Number) as number, limit_bytes: expect.any(Number) as number },
      },
    });
    expect(await execute("user freeze", { email: freshEmail() })).toMatchObject(
      rejection("user_unknown", "no user has the email address"),
    );
    expect(await execute("user freeze", { "user-id": uuidv7() })).toMatchObject(
      rejection("user_unknown", "there is no user"),
    );
  });

  it("rejects ended withdrawals as withdrawal_final", async () => {
    const { userId } = await newUser();
    const { withdrawalId: id } = await insertWithdrawal(userId, { status: "failed" });
    expect(await execute("withdrawals fail", { id })).toMatchObject(
      rejection("withdrawal_final", "failed"),
    );
  });
});

describe("users", () => {
  it("freezes and unfreezes by id and by email", async () => {
    const { userId, email } = await newUser();
    expect(await execute("user freeze", { "user-id": userId.toUpperCase() })).toMatchObject({
      result: { user_id: userId, changed: true },
    });
    expect(await execute("user freeze", { email })).toMatchObject({
      result: { user_id: userId, changed: false },
    });
    expect(await execute("user unfreeze", { "user-id": userId })).toMatchObject({
      result: { user_id: userId, changed: true },
    });
    expect(await execute("user freeze", { "user-id": userId, email })).toMatchObject(
      rejection("invalid_request", "--user-id"),
    );
    expect(await execute("user freeze", {})).toMatchObject(rejection("invalid_request", "--email"));
  });

  it("set-password ends all sessions and is audited", async () => {
    const email = freshEmail();
    const { result } = await execute("user create", { email, password: "the-first-password" });
    const { token } = await login(email, "the-first-password");
    expect(await whoami(token)).toBe(200);
    expect(await execute("user set-password", { email, password: "short" })).toMatchObject(
      rejection("invalid_request", "--password"),
    );

    expect(
      await execute("user set-password", { email, password: "the-second-password" }),
    ).toMatchObject({
      result: { user_id: result["user_id"], email, frozen: false, sessions_ended: true },
    });

    expect(await whoami(token)).toBe(401);
    expect((await login(email, "the-first-password")).status).toBe(401);
    expect((await login(email, "the-second-password")).status).toBe(200);
    const audit = await all<{ kind: string }>(
      env.DB,
      sql`SELECT kind FROM audit_events
        WHERE user_id = ${uuid(String(result["user_id"]))} AND actor = 'operator:test'
        ORDER BY audit_seq`,
    );
    expect(audit.map(({ kind }) => kind)).toEqual([
      "user_created",
      "password_set",
      "sessions_ended",
      "security_hold",
    ]);
  });

  it("gives a restored user an email and a password", async () => {
    const { userId } = await newUser();
    const [lost, email] = [`${userId}@lost.invalid`, freshEmail()];
    await all(
      env.DB,
      sql`UPDATE users SET email = ${lost}, password_hash = '', frozen_at = 1
        WHERE user_id = ${uuid(userId)}`,
    );
    const password = "set-by-the-operator";
    const taken = await newUser();
    const set = (newEmail: string) =>
      orderOfTwo(
        ["user", "set-password"],
        { "user-id": userId, "new-email": newEmail },
        { password },
      );
    expect(await set(taken.email)).toMatchObject(rejection("email_taken", "Another user"));
    expect(await set("bad3")).toMatchObject(rejection("invalid_request", "--new-email"));
    expect(await set(email)).toMatchObject({ result: { email, frozen: true } });
    expect((await login(email, password)).status).toBe(403);
    await execute("user unfreeze", { "user-id": userId });
    expect((await login(email, password)).status).toBe(200);
  });
});

describe("deposits", () => {
  const chain = `chain-${uuidv7()}`;
  let owner = "";
  let deposit: Funded;

  beforeAll(async () => {
    owner = (await newUser()).userId;
    const terms = { asset: "venue_one:0x1", amount: 2n ** 63n, status: "quarantined" };
    deposit = await insertDeposit(owner, { chain, ...terms });
  });

  it("lists deposits of all users by status", async () => {
    const { result } = await execute("deposits list", { status: "quarantined" });
    expect(result.find((listed) => listed["chain"] === chain)).toMatchObject({
      deposit_id: deposit.depositId,
      user_id: owner,
      venue_id: "venue_one",
      asset_id: "0x1",
      amount: "0x8000000000000000",
      transaction_hash: deposit.transactionHash,
      status: "quarantined",
    });
    const credited = await execute("deposits list", { status: "credited" });
    expect(credited.result.find((listed) => listed["chain"] === chain)).toBeUndefined();
  });

  it("lists deposits below the minimum, and among all others", async () => {
    const depositId = uuidv7();
    await all(
      env.DB,
      sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        VALUES (${chain}, randomblob(20), ${uuid(owner)}, 0, randomblob(32), 1)`,
    );
    await all(
      env.DB,
      sql`INSERT INTO small_deposits (key, deposit_id, user_id, chain, nonce, transaction_hash,
          token, ordinal, position, block_number, venue, asset_id, amount, required_confirmations,
          detected_at, due)
        VALUES (randomblob(17), ${uuid(depositId)}, ${uuid(owner)}, ${chain}, 0, randomblob(32),
          randomblob(20), 0, 0, 1, 'venue_two', x'0abc', 7, 2, 1, 0)`,
    );
    const small = { deposit_id: depositId, user_id: owner, amount: "0x7", asset_id: "0xabc" };
    const only = await execute("deposits list", { status: "below_minimum", limit: "1" });
    expect(only.result).toMatchObject([{ ...small, venue_id: "venue_two", chain }]);
    const both = await execute("deposits list", { limit: "500" });
    const ids = both.result.map((listed) => String(listed["deposit_id"]));
    expect(ids).toEqual(ids.toSorted((one, other) => (one < other ? 1 : -1)));
    expect(ids).toEqual(expect.arrayContaining([depositId, deposit.depositId]));
  });

  it("a review closes the quarantine alert and is audited", async () => {
    await all(
      env.DB,
      sql`INSERT INTO alerts (kind, subject, detail, at)
        VALUES ('deposit_quarantined', ${chain}, 'one', 1)`,
    );
    const reviewed = await execute("deposits reviewed", { reason: "junk" });
    expect(reviewed.result["chains"]).toContain(chain);
    expect(await execute("deposits reviewed", { reason: "junk" })).toMatchObject(
      rejection("no_open_alert", "No alert"),
    );
    expect(
      await first(
        env.DB,
        sql`SELECT 1 FROM audit_events
          WHERE kind = 'deposits_reviewed' AND subject_id = 'junk'`,
      ),
    ).toBeDefined();
  });
});

describe("alerts close", () => {
  const raise = async (kind: string, subject: string) =>
    all(
      env.DB,
      sql`INSERT INTO alerts (kind, subject, detail, at) VALUES (${kind}, ${subject}, 'one', 1)`,
    );
  const openOf = async (kind: string) =>
    (
      await all<{ subject: string }>(
        env.DB,
        sql`SELECT subject FROM alerts WHERE kind = ${kind} AND resolved_at IS NULL`,
      )
    ).map(({ subject }) => subject);
  const close = (kind: string, subject: string) =>
    execute("alerts close", { kind, subject, reason: "reviewed" });

  it.each(REVIEWED_ALERTS)("closes one alert %s, audited, and no other", async (kind) => {
    const [subject, other] = [`local:${uuidv7()}`, `local:${uuidv7()}`];
    for (const of of [subject, other]) await raise(kind, of);
    expect(await close(kind, subject)).toMatchObject({ result: { kind, subject, closed: true } });
    expect(await openOf(kind)).toContain(other);
    expect(await openOf(kind)).not.toContain(subject);
    expect(
      await all(
        env.DB,
        sql`SELECT actor, kind FROM audit_events WHERE subject_id = ${`${kind} ${subject}: reviewed`}`,
      ),
    ).toEqual([{ actor: "operator:test", kind: "alert_closed" }]);
    expect(await close(kind, subject)).toMatchObject(rejection("no_open_alert", subject));
  });

  it("refuses alerts that close otherwise", async () => {
    for (const kind of ["payer_halted", "chain_unreachable", "reconciliation", "nothing"]) {
      const subject = `local:${uuidv7()}`;
      await raise(kind, subject);
      expect(await close(kind, subject)).toMatchObject(
        rejection("invalid_request", "Other alerts close by themselves"),
      );
      expect(await openOf(kind)).toContain(subject);
      await all(env.DB, sql`UPDATE alerts SET resolved_at = 2 WHERE subject = ${subject}`);
    }
  });

  it("closes dead letters of an ended withdrawal and of an unreadable message", async () => {
    const { userId } = await newUser();
    const { withdrawalId } = await insertWithdrawal(userId, { status: "failed" });
    const messageId = uuidv7();
    const message = (id: string, body: unknown) => ({
      id,
      timestamp: new Date(),
      attempts: 5,
      body,
    });
    await handleWithdrawalMessages(
      createMessageBatch("rfq-custody-withdrawals-dead", [
        message(uuidv7(), { withdrawal_id: withdrawalId, chain: "local" }),
        message(messageId, "poison"),
      ]),
      env,
    );
    const kind = "withdrawal_dead_letter";
    expect(await openOf(kind)).toEqual(expect.arrayContaining([withdrawalId, messageId]));
    expect(await execute("withdrawals retry", { id: withdrawalId })).toMatchObject(
      rejection("withdrawal_final", "failed"),
    );
    for (const subject of [withdrawalId, messageId])
      expect(await close(kind, subject)).toMatchObject({ result: { closed: true } });
    expect(await openOf(kind)).not.toContain(withdrawalId);
    expect(await openOf(kind)).not.toContain(messageId);
  });
});

describe("reading a chain again", () => {
  it("accepts blocks up to the confirmed one, in order, of a chain that is served", async () => {
    const invalid = (of: string) => rejection("invalid_request", of);
    const rescan = (from: string, to: string) => execute("chain rescan local", { from, to });
    expect(await rescan("x", "5")).toMatchObject(invalid("--from"));
    expect(await rescan("5", "4")).toMatchObject(invalid("--to"));
    expect(await rescan("0", "999999999")).toMatchObject(invalid("confirmed block"));
    expect(await execute("chain rescan mars", { from: "0", to: "0" })).toMatchObject({
      ok: false,
    });
    expect(await execute("chain resweep local", { address: "0x12" })).toMatchObject(
      invalid("--address"),
    );
    expect(await execute("chain resweep local", { address: `0x${"12".repeat(20)}` })).toMatchObject(
      rejection("no_credited_deposit", "was credited"),
    );
  });

  it("forgets a deposit that waits for confirmations, audited, and no other", async () => {
    const { depositId: id } = await insertDeposit((await newUser()).userId, {
      chain: `chain-${uuidv7()}`,
      asset: "usdc",
      amount: 5n,
      status: "confirming",
    });
    expect(await execute("chain forget-deposit", { id })).toMatchObject({
      ok: true,
      result: { deposit_id: id, status: "orphaned" },
    });
    expect(await execute("chain forget-deposit", { id })).toMatchObject(
      rejection("deposit_not_confirming", "deposits list"),
    );
    expect(
      await all(
        env.DB,
        sql`SELECT actor FROM audit_events WHERE kind = 'deposit_forgotten' AND subject_id = ${id}`,
      ),
    ).toEqual([{ actor: "operator:test" }]);
  });
});

describe("withdrawals rescue", () => {
  it("checks its options before it asks the chain", async () => {
    const token = `0x${"12".repeat(20)}`;
    const rescue = (options: Record<string, string>) =>
      execute("withdrawals rescue", { token, to: token, amount: "1", ...options });
    const invalid = (of: string) => rejection("invalid_request", of);
    expect(await rescue({ token: "usdc" })).toMatchObject(invalid("--token"));
    expect(await rescue({ "token-id": "x" })).toMatchObject(invalid("--token-id"));
    expect(await rescue({ to: "0x12" })).toMatchObject(invalid("--to"));
    expect(await rescue({ amount: "0" })).toMatchObject(invalid("--amount"));
    expect(await rescue({ from: token })).toMatchObject(invalid("--from: must be a deposit"));
    expect(await rescue({ chain: "mars" })).toMatchObject(rejection("chain_unknown", "chain"));
    const usdc = defaultChain(config(env)).usdc;
    expect(await rescue({ token: usdc })).toMatchObject(
      rejection("rescue_refused", "belongs to users"),
    );
  });
});

describe("restore --accept-payment", () => {
  /** Records a payment that the service did not order, of an asset or of an unknown token. */
  async function foreignPayment(asset: string | null, amount = "5"): Promise<string> {
    const id = randomHex(32);
    await all(
      env.DB,
      sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
          batch_no, token, token_id, asset, amount, to_address, block_number, block_hash,
          recorded_group)
        VALUES ('local', ${blob(randomHex(32))}, 0, 'Paid', ${blob(id)}, ${blob(randomHex(20))}, 1,
          ${blob(randomHex(20))}, '0', ${asset}, ${amount}, ${blob(randomHex(20))}, 1,
          ${blob(randomHex(32))}, -1)`,
    );
    return id;
  }
  const accept = (id: string, as: string, reason = "incident 7") =>
    execute("restore", { "accept-payment": id, as, reason });
  const audited = (id: string) =>
    all(
      env.DB,
      sql`SELECT actor FROM audit_events WHERE kind = 'payment_accepted' AND subject_id = ${id}`,
    );
  const booked = (id: string) =>
    all(
      env.DB,
      sql`SELECT t.amount, p.kind, p.reason FROM accepted_payments p
        LEFT JOIN transfers t ON t.ref = p.acceptance_id WHERE p.payment_id = ${blob(id)}`,
    );

  it("checks its options", async () => {
    const invalid = (of: string) => rejection("invalid_request", of);
    const id = randomHex(32);
    expect(await accept("0x12", "loss")).toMatchObject(invalid("--accept-payment"));
    expect(await accept(id, "gift")).toMatchObject(invalid("--as"));
    expect(await accept(id, "loss", "")).toMatchObject(invalid("--reason"));
    const withoutKind = await execute("restore", { "accept-payment": id, reason: "incident 7" });
    expect(withoutKind).toMatchObject(invalid("--as"));
  });

  it("books a loss once, audited", async () => {
    const id = await foreignPayment("usdc");
    const accepted = { payment_id: id, as: "loss", chain: "local" };
    expect(await accept(id.toUpperCase().replace("0X", "0x"), "loss")).toMatchObject({
      ok: true,
      result: { ...accepted, status: "accepted" },
    });
    expect(await accept(id, "loss")).toMatchObject({
      ok: true,
      result: { ...accepted, status: "accepted_before" },
    });
    expect(await audited(id)).toEqual([{ actor: "operator:test" }]);
    expect(await booked(id)).toEqual([{ amount: 5, kind: "loss", reason: "incident 7" }]);
  });

  it("books nothing for a token that the service does not credit", async () => {
    const id = await foreignPayment(null);
    expect(await accept(id, "loss")).toMatchObject(
      rejection("payment_not_acceptable", "Use --as rescue"),
    );
    expect(await audited(id)).toEqual([]);
    expect(await accept(id, "rescue")).toMatchObject({ ok: true, result: { status: "accepted" } });
    expect(await booked(id)).toEqual([{ amount: null, kind: "rescue", reason: "incident 7" }]);
    expect(await audited(id)).toHaveLength(1);
  });

  it.each([2n ** 62n + 1n, 2n ** 63n, 2n ** 256n - 1n])(
    "rejects a loss of %d units, and names the way out",
    async (amount) => {
      const id = await foreignPayment(`venue_one:${randomHex(8)}`, String(amount));
      expect(await accept(id, "loss")).toMatchObject(
        rejection("payment_not_acceptable", "Use --as rescue"),
      );
      expect(await audited(id)).toEqual([]);
      expect(await accept(id, "rescue")).toMatchObject({
        ok: true,
        result: { status: "accepted" },
      });
    },
  );

  it("rejects a loss that makes the losses of an asset too large", async () => {
    const asset = `venue_one:${randomHex(8)}`;
    const [one, two] = [
      await foreignPayment(asset, String(2n ** 62n)),
      await foreignPayment(asset, "1"),
    ];
    expect(await accept(one, "loss")).toMatchObject({ ok: true });
    expect(await accept(two, "loss")).toMatchObject(
      rejection("payment_not_acceptable", "Use --as rescue"),
    );
    expect(await accept(two, "rescue")).toMatchObject({ ok: true });
  });

  it("rejects a payment that is unknown or belongs to a withdrawal", async () => {
    const unknown = randomHex(32);
    expect(await accept(unknown, "rescue")).toMatchObject(
      rejection("payment_not_acceptable", "No payment"),
    );
    const { userId } = await newUser();
    const { paymentId } = await insertWithdrawal(userId, { chain: "local", status: "settled" });
    await all(
      env.DB,
      sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
          asset, amount, block_number, block_hash, recorded_group)
        VALUES ('local', ${blob(randomHex(32))}, 0, 'Paid', ${blob(paymentId)},
          ${blob(randomHex(20))}, 'usdc', '1', 1, ${blob(randomHex(32))}, -1)`,
    );
    expect(await accept(paymentId, "rescue")).toMatchObject(
      rejection("payment_not_acceptable", "belongs to a withdrawal"),
    );
    expect(await audited(paymentId)).toEqual([]);
  });
});

describe("restore and reconcile", () => {
  beforeAll(() => all(env.DB, sql`UPDATE payer_leases SET halted_at = NULL WHERE chain = 'local'`));

  it("restore requires --yes if nothing is halted", async () => {
    const before = await first<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM audit_events WHERE kind = 'restored'`,
    );
    expect(await execute("restore")).toMatchObject(rejection("nothing_halted", "add --yes"));
    expect(
      await first(env.DB, sql`SELECT count(*) AS n FROM audit_events WHERE kind = 'restored'`),
    ).toEqual(before);
  });

  it("resolves open differences and returns their number", async () => {
    await all(
      env.DB,
      sql`UPDATE alerts SET resolved_at = 1
        WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
    );
    expect(await execute("reconcile", { resolve: "foo" })).toMatchObject(
      rejection("no_open_difference", '"foo"'),
    );
    const detail = JSON.stringify({
      check: "holdings_short",
      account: "operator-test",
      amount: "-1",
      detail: "",
    });
    await all(
      env.DB,
      sql`INSERT INTO alerts (kind, subject, detail, at)
        VALUES ('reconciliation', 'holdings_short operator-test', ${detail}, 1)`,
    );
    expect((await execute("reconcile", { resolve: "foo" })).result).toMatchObject({ resolved: 1 });
  });

  it("reports an unread chain as neither ok nor complete", async () => {
    // The RPC URL of these tests does not respond, and no watcher has read the chain.
    expect((await execute("reconcile")).result).toMatchObject({
      ok: false,
      complete: false,
      block: { local: null },
    });
  });
});
