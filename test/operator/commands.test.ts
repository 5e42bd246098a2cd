import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { Operator } from "../../src/operator/entrypoint.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { bearer, send } from "../support/edge.ts";
import { newUser } from "../support/users.ts";

type Answer = {
  ok: boolean;
  result: Record<string, unknown> & Record<string, unknown>[];
  problem: { code: string; detail: string };
};

async function order(line: string, options: Record<string, string> = {}): Promise<Answer> {
  const request = new Request("http://operator.internal/", {
    method: "POST",
    body: JSON.stringify({ command: line.split(" "), options, operator: "test" }),
  });
  return new Operator(createExecutionContext(), env)
    .fetch(request)
    .then((response) => response.json());
}

const refused = (code: string, detail: string) => ({
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

describe("values", () => {
  const lists = ["audit list", "withdrawals list", "deposits list"];

  it.each(lists)(
    "`%s` takes a limit from 1 to 500, and refuses anything else by its name",
    async (command) => {
      for (const limit of ["0", "-1", "1.5", "abc", "501", "1e2", " 5", ""]) {
        expect(await order(command, { limit })).toMatchObject(
          refused("invalid_request", "--limit"),
        );
      }
      expect(await order(command, { limit: "500" })).toMatchObject({ ok: true });
      expect(await order(command)).toMatchObject({ ok: true });
    },
  );

  it("a state that does not exist is refused by its name", async () => {
    for (const command of ["withdrawals list", "deposits list"]) {
      expect(await order(command, { status: "lost" })).toMatchObject(
        refused("invalid_request", "--status: must be one of"),
      );
    }
  });

  it("an email that could not log in makes no user", async () => {
    for (const email of ["bad3", "a b@c", "", "@x", `${"a".repeat(250)}@b.example`]) {
      expect(await order("user create", { email, password: "long-enough-password" })).toMatchObject(
        refused("invalid_request", "--email"),
      );
      expect(await first(env.DB, sql`SELECT 1 FROM users WHERE email = ${email}`)).toBeUndefined();
    }
  });

  it("an unknown key, chain and user each have their own refusal", async () => {
    expect(await order("api-key revoke", { id: uuidv7() })).toMatchObject(
      refused("api_key_unknown_id", "There is no API key"),
    );
    expect(await order("chain status nope")).toMatchObject(
      refused("chain_unknown", "There is no chain nope"),
    );
    expect(await order("chain resume nope")).toMatchObject(
      refused("chain_unknown", "There is no chain nope"),
    );
    expect(await order("chain status local")).toMatchObject({ ok: true });
    expect(await order("user freeze", { email: freshEmail() })).toMatchObject(
      refused("user_unknown", "no user has this email"),
    );
    expect(await order("user freeze", { "user-id": uuidv7() })).toMatchObject(
      refused("user_unknown", "there is no user"),
    );
  });

  it("a withdrawal that has ended is refused as that, not as a bad value", async () => {
    const { userId } = await newUser();
    const id = uuidv7();
    await all(
      env.DB,
      sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id, payment_id, chain, asset, amount, to_address, status,
        created_at, updated_at, queued_group, changed_group) VALUES (${uuid(id)}, ${uuid(uuidv7())}, ${uuid(userId)}, 'p', randomblob(32), 'none', 'usdc', 1,
        randomblob(20), 'failed', 1, 1, 0, 0)`,
    );
    expect(await order("withdrawals fail", { id })).toMatchObject(
      refused("withdrawal_final", "failed"),
    );
  });
});

describe("users", () => {
  it("are frozen and unfrozen by id as well as by email", async () => {
    const { userId, email } = await newUser();
    expect(await order("user freeze", { "user-id": userId.toUpperCase() })).toMatchObject({
      result: { user_id: userId, changed: true },
    });
    expect(await order("user freeze", { email })).toMatchObject({
      result: { user_id: userId, changed: false },
    });
    expect(await order("user unfreeze", { "user-id": userId })).toMatchObject({
      result: { user_id: userId, changed: true },
    });
    expect(await order("user freeze", { "user-id": userId, email })).toMatchObject(
      refused("invalid_request", "--user-id"),
    );
    expect(await order("user freeze", {})).toMatchObject(refused("invalid_request", "--email"));
  });

  it("a new password ends the old one and every session, and is audited", async () => {
    const email = freshEmail();
    const { result } = await order("user create", { email, password: "the-first-password" });
    const { token } = await login(email, "the-first-password");
    expect(await whoami(token)).toBe(200);
    expect(await order("user set-password", { email, password: "short" })).toMatchObject(
      refused("invalid_request", "--password"),
    );

    expect(
      await order("user set-password", { email, password: "the-second-password" }),
    ).toMatchObject({
      result: { user_id: result["user_id"], email, frozen: false, sessions_ended: true },
    });

    expect(await whoami(token)).toBe(401);
    expect((await login(email, "the-first-password")).status).toBe(401);
    expect((await login(email, "the-second-password")).status).toBe(200);
    const audit = await all<{ kind: string }>(
      env.DB,
      sql`SELECT kind FROM audit_events WHERE user_id = ${uuid(String(result["user_id"]))} AND actor = 'operator:test' ORDER BY audit_seq`,
    );
    expect(audit.map(({ kind }) => kind)).toEqual([
      "user_created",
      "password_set",
      "sessions_ended",
    ]);
  });

  it("whoever a restore wrote again gets an email and a password, and can log in once unfrozen", async () => {
    const { userId } = await newUser();
    const [lost, email] = [`${userId}@lost.invalid`, freshEmail()];
    await all(
      env.DB,
      sql`UPDATE users SET email = ${lost}, password_hash = '', frozen_at = 1 WHERE user_id = ${uuid(userId)}`,
    );
    const password = "given-by-the-operator";
    const taken = await newUser();
    const set = (newEmail: string) =>
      order("user set-password", { "user-id": userId, "new-email": newEmail, password });
    expect(await set(taken.email)).toMatchObject(refused("email_taken", "Another user"));
    expect(await set("bad3")).toMatchObject(refused("invalid_request", "--new-email"));
    expect(await set(email)).toMatchObject({ result: { email, frozen: true } });
    expect((await login(email, password)).status).toBe(403);
    await order("user unfreeze", { "user-id": userId });
    expect((await login(email, password)).status).toBe(200);
  });
});

describe("deposits", () => {
  const chain = `chain-${uuidv7()}`;
  let owner = "";
  let depositId = "";

  beforeAll(async () => {
    owner = (await newUser()).userId;
    depositId = uuidv7();
    await all(
      env.DB,
      sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position, block_number, block_hash, address, user_id, asset, amount,
        required_confirmations, status, seen_group, detected_at, detected_group)
      VALUES (${uuid(depositId)}, ${chain}, unhex(${"ab".repeat(32)}), randomblob(20), 0, 0, 1, randomblob(32), randomblob(20), ${uuid(owner)}, 'venue_one:0x1',
        '9223372036854775808', 2, 'quarantined', 0, 1, 0)`,
    );
  });

  it("of all users are listed by state, with whose they are and where they came from", async () => {
    const { result } = await order("deposits list", { status: "quarantined" });
    expect(result.find((one) => one["chain"] === chain)).toMatchObject({
      deposit_id: depositId,
      user_id: owner,
      venue_id: "venue_one",
      asset_id: "0x1",
      amount: "0x8000000000000000",
      transaction_hash: `0x${"ab".repeat(32)}`,
      status: "quarantined",
    });
    const credited = await order("deposits list", { status: "credited" });
    expect(credited.result.find((one) => one["chain"] === chain)).toBeUndefined();
  });

  it("the alert about quarantined ones is closed by a review, which is audited", async () => {
    await all(
      env.DB,
      sql`INSERT INTO alerts (kind, subject, detail, at) VALUES ('deposit_quarantined', ${chain}, 'one', 1)`,
    );
    const reviewed = await order("deposits reviewed", { reason: "junk" });
    expect(reviewed.result["chains"]).toContain(chain);
    expect(await order("deposits reviewed", { reason: "junk" })).toMatchObject(
      refused("no_open_alert", "No alert"),
    );
    expect(
      await first(
        env.DB,
        sql`SELECT 1 FROM audit_events WHERE kind = 'deposits_reviewed' AND subject_id = 'junk'`,
      ),
    ).toBeDefined();
  });
});

describe("restore and reconcile", () => {
  beforeAll(() => all(env.DB, sql`UPDATE payer_leases SET halted_at = NULL WHERE chain = 'local'`));

  it("a service on which nothing is halted is not restored without --yes", async () => {
    const before = await first<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM audit_events WHERE kind = 'restored'`,
    );
    expect(await order("restore")).toMatchObject(refused("nothing_halted", "add --yes"));
    expect(
      await first(env.DB, sql`SELECT count(*) AS n FROM audit_events WHERE kind = 'restored'`),
    ).toEqual(before);
  });

  it("differences are resolved where there are some, and it is said how many; where there are none, nothing is done", async () => {
    await all(
      env.DB,
      sql`UPDATE alerts SET resolved_at = 1 WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
    );
    expect(await order("reconcile", { resolve: "foo" })).toMatchObject(
      refused("no_open_difference", '"foo"'),
    );
    const detail = JSON.stringify({
      check: "holdings_short",
      account: "operator-test",
      amount: "-1",
      detail: "",
    });
    await all(
      env.DB,
      sql`INSERT INTO alerts (kind, subject, detail, at) VALUES ('reconciliation', 'holdings_short operator-test', ${detail}, 1)`,
    );
    expect((await order("reconcile", { resolve: "foo" })).result).toMatchObject({ resolved: 1 });
  });

  it("a chain that could not be asked leaves no verdict: neither ok nor complete", async () => {
    // Nobody listens at the RPC URL of these tests, and no watcher has read the chain.
    expect((await order("reconcile")).result).toMatchObject({
      ok: false,
      complete: false,
      block: { local: null },
    });
  });
});
