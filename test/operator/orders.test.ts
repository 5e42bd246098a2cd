/** Signed orders, and orders that two operators must agree on. */
import { createHash } from "node:crypto";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { trimProposals } from "../../src/operator/approvals.ts";
import { trimOrders } from "../../src/operator/order.ts";
import { Settings } from "../../src/platform/config.ts";
import { all, first, sql, uuid, raw, readUuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { newUser } from "../support/users.ts";
import { testSettings } from "../support/settings.ts";

const refused = (code: string) => ({ ok: false, problem: { code } });
const TWO = { OPERATOR_APPROVALS: "2" } as Partial<Env>;

type Body = { operator: string; order_id: string; signed_at_ms: number; order: string };
const changed = (body: string, change: (order: Body) => object): string => {
  const order = JSON.parse(body) as Body;
  return JSON.stringify({ ...order, ...change(order) });
};

it("what waits for a person is one list, in words, with the next command", async () => {
  const user = await newUser();
  const { json: key } = await apiOf(user).post("/auth/api-keys", {
    label: "treasury",
    scopes: ["withdraw"],
    request_approval: true,
    allowed_ips: ["10.0.0.0/8"],
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
  });
  const proposed = await sendOrder(
    orderOf(["user", "reset-totp"], { "user-id": user.userId }),
    TWO,
  );
  const { result } = await sendOrder(orderOf(["waiting"]));
  const rows = result as unknown as { what: string; next: string }[];
  const id = String(key["api_key_id"]);
  expect(rows.find(({ next }) => next.includes(`-- api-key approve --id ${id}`))).toMatchObject({
    for: "an operator",
    what: `${user.email} asks for the withdraw key "treasury"`,
  });
  const proposal = String(proposed.result["proposal_id"]);
  expect(rows.find(({ next }) => next.includes(`-- approve --id ${proposal}`))).toMatchObject({
    for: "another operator",
    what: `test proposes: user reset-totp --user-id ${user.userId}`,
  });
});

describe("an order", () => {
  it("is carried out once, and a repeat returns the first answer", async () => {
    const { userId } = await newUser();
    const order = orderOf(["api-key", "create"], { "user-id": userId, scopes: "read" });
    const answers = await Promise.all([sendOrder(order), sendOrder(order)]);
    const made = answers.filter(({ ok }) => ok);
    const again = await sendOrder(order);
    expect(again).toEqual(made[0]);
    expect(again.result["secret"]).toEqual(expect.any(String));
    const { keys } = (await first<{ keys: number }>(
      env.DB,
      sql`SELECT count(*) AS keys FROM api_keys WHERE user_id = ${uuid(userId)}`,
    ))!;
    expect(keys).toBe(1);
    // The answer holds the secret of the key, so it is sealed.
    const { order_id } = JSON.parse(order) as Body;
    const row = await first<{ answer: string }>(
      env.DB,
      sql`SELECT answer FROM operator_orders WHERE order_id = ${uuid(order_id)}`,
    );
    expect(row?.answer).not.toContain(again.result["secret"]);
  });

  it("leaves its signature in the audit log", async () => {
    const order = JSON.parse(orderOf(["venue", "resume", "venue_one"])) as Body & {
      signature: string;
    };
    expect(await sendOrder(JSON.stringify(order))).toMatchObject({ ok: true });
    const row = await first<{ details: string; actor: string; subject_id: string }>(
      env.DB,
      sql`SELECT details, actor, subject_id FROM audit_events
        WHERE details ->> 'order_id' = ${order.order_id}`,
    );
    expect(row).toMatchObject({ actor: "operator:test", subject_id: "venue resume venue_one" });
    expect(JSON.parse(row?.details ?? "")).toEqual({
      order_id: order.order_id,
      signed_at_ms: order.signed_at_ms,
      sha256: createHash("sha256").update(order.order).digest("hex"),
      signature: order.signature,
      line: "venue resume venue_one",
    });
  });

  it("names all that it says in the audit log", async () => {
    const { userId, email } = await newUser();
    const asset = { venue: "venue_one", "asset-id": `0x${"f".repeat(64)}` };
    const url = `https://v.example/${"u".repeat(400)}`;
    const long = { title: "t".repeat(200), description: "d".repeat(999), url, "rules-url": url };
    const lineOf = async (words: string[], options: Record<string, string>) => {
      const order = orderOf(words, options);
      await sendOrder(order);
      const row = await first<{ line: string }>(
        env.DB,
        sql`SELECT details ->> 'line' AS line FROM audit_events
          WHERE details ->> 'order_id' = ${(JSON.parse(order) as Body).order_id}`,
      );
      return row?.line;
    };
    const options = { ...long, outcome: "o".repeat(64), category: "c".repeat(64), ...asset };
    const line = await lineOf(["market", "set"], options);
    for (const value of Object.values(options)) expect(line).toContain(value);
    // An option that nobody reads would fill the log, so the order is refused before it.
    const padding = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`x${n}`, "p"]));
    for (const [words, more] of [
      [["user", "freeze"], padding],
      [["user", "freeze"], { user: email }],
      [["user", "freeze", "now"], {}],
      [["venue", "pause", "v".repeat(2_000)], {}],
    ] as const) {
      const given = words[0] === "user" ? { "user-id": userId, ...more } : more;
      expect(await lineOf([...words], given)).toBeUndefined();
      expect(await sendOrder(orderOf([...words], given))).toMatchObject(refused("invalid_request"));
    }
    const { frozen } = (await first<{ frozen: number | null }>(
      env.DB,
      sql`SELECT frozen_at AS frozen FROM users WHERE user_id = ${uuid(userId)}`,
    ))!;
    expect(frozen).toBeNull();
  });

  it.each<[string, (order: Body) => object, string]>([
    ["other words", () => ({ order: '{"command":["audit","verify"]}' }), "order_signature_invalid"],
    ["another operator", () => ({ operator: "second" }), "order_signature_invalid"],
    ["another id", () => ({ order_id: crypto.randomUUID() }), "order_signature_invalid"],
    [
      "another time",
      ({ signed_at_ms }) => ({ signed_at_ms: signed_at_ms + 1 }),
      "order_signature_invalid",
    ],
    ["an unknown operator", () => ({ operator: "mallory" }), "operator_unknown"],
    ["an operator's name of Object", () => ({ operator: "constructor" }), "operator_unknown"],
    ["no operator", () => ({ operator: undefined }), "operator_unknown"],
    ["a short signature", () => ({ signature: "AA" }), "order_signature_invalid"],
    ["no id", () => ({ order_id: undefined }), "invalid_request"],
    ["a fractional time", () => ({ signed_at_ms: 1.5 }), "invalid_request"],
  ])("is refused with %s", async (_, change, code) => {
    const body = changed(orderOf(["audit", "list"]), change);
    expect(await sendOrder(body)).toMatchObject(refused(code));
  });

  it("is refused for another deployment", async () => {
    const body = orderOf(["audit", "list"]);
    expect(await sendOrder(body, { DEPLOYMENT: "other" } as Partial<Env>)).toMatchObject(
      refused("order_signature_invalid"),
    );
  });

  it("is refused a minute after its signature, or before it", async () => {
    for (const minutes of [-2, 2]) {
      const body = orderOf(["audit", "list"], {}, "test", Date.now() + minutes * 60_000);
      expect(await sendOrder(body)).toMatchObject(refused("order_stale"));
    }
  });

  it("is not repeated if its answer was lost", async () => {
    const order = orderOf(["venue", "resume", "venue_one"]);
    await sendOrder(order);
    const { order_id } = JSON.parse(order) as Body;
    await all(
      env.DB,
      sql`UPDATE operator_orders SET answer = NULL WHERE order_id = ${uuid(order_id)}`,
    );
    expect(await sendOrder(order)).toMatchObject(refused("order_unfinished"));
  });

  it("records a changed list of operators", async () => {
    const { test: only } = JSON.parse(testSettings()["OPERATORS"] ?? "") as Record<string, string>;
    const count = async () =>
      (await first<{ n: number }>(
        env.DB,
        sql`SELECT count(*) AS n FROM audit_events WHERE kind = 'operators_changed'`,
      ))!.n;
    await sendOrder(orderOf(["audit", "list"]));
    const before = await count();
    const list = JSON.stringify({ test: only });
    for (let again = 0; again < 2; again++)
      await sendOrder(orderOf(["audit", "list"]), { OPERATORS: list } as Partial<Env>);
    expect(await count()).toBe(before + 1);
    await sendOrder(orderOf(["audit", "list"]));
    expect(await count()).toBe(before + 2);
  });

  it("needs a list of operators without the same key twice", () => {
    const key = "erE6a_XaJ9iu_bHZAyNZpZ6y7uVR9P-UveJtv-wEaCs";
    const parsed = (operators: object) =>
      Settings.safeParse({ ...testSettings(), OPERATORS: JSON.stringify(operators) }).success;
    expect(parsed({ alice: key })).toBe(true);
    expect(parsed({ alice: key, bob: key })).toBe(false);
    expect(parsed({ alice: "short" })).toBe(false);
  });
});

describe("with two approvals", () => {
  const propose = async (
    line: string,
    options: Record<string, string> = {},
    signedAtMs = Date.now(),
  ) => {
    const answer = await sendOrder(orderOf(line.split(" "), options, "test", signedAtMs), TWO);
    expect(answer).toMatchObject({ ok: true, result: { status: "open" } });
    return String(answer.result["proposal_id"]);
  };
  const contentOf = async (id: string) => {
    const { result } = await sendOrder(orderOf(["approvals", "list"]), TWO);
    return String(result.find(({ proposal_id }) => proposal_id === id)?.["content"]);
  };
  const approve = async (id: string, operator: "test" | "second" = "second", settings = TWO) => {
    const sha256 = createHash("sha256")
      .update(await contentOf(id))
      .digest("hex");
    return sendOrder(orderOf(["approve"], { id, sha256 }, operator), settings);
  };

  it("an order that widens rights runs only after another operator's approval", async () => {
    const { userId } = await newUser();
    await sendOrder(orderOf(["user", "freeze"], { "user-id": userId }), TWO);
    const frozen = async () =>
      (await first<{ frozen: number }>(
        env.DB,
        sql`SELECT frozen_at IS NOT NULL AS frozen FROM users WHERE user_id = ${uuid(userId)}`,
      ))!.frozen;
    expect(await frozen()).toBe(1);
    const id = await propose("user unfreeze", { "user-id": userId });
    expect(await frozen()).toBe(1);
    expect(await approve(id, "test")).toMatchObject(refused("approver_is_proposer"));
    const wrong = orderOf(["approve"], { id, sha256: "00" }, "second");
    expect(await sendOrder(wrong, TWO)).toMatchObject(refused("proposal_not_open"));
    expect(await frozen()).toBe(1);
    expect(await approve(id)).toMatchObject({ ok: true, result: { user_id: userId } });
    expect(await frozen()).toBe(0);
    expect(await approve(id)).toMatchObject(refused("proposal_not_open"));
  });

  it("of two approvals at once, one carries the order out", async () => {
    const id = await propose("venue resume venue_three");
    const both = await Promise.all([approve(id), approve(id)]);
    expect(both.filter(({ ok }) => ok)).toHaveLength(1);
  });

  it("a proposal ends by rejection, by age and with its proposer's key", async () => {
    const rejected = await propose("venue resume venue_three");
    const rejection = orderOf(["reject"], { id: rejected });
    expect(await sendOrder(rejection, TWO)).toMatchObject({ ok: true });
    expect(await approve(rejected)).toMatchObject(refused("proposal_not_open"));

    const old = await propose("venue resume venue_three");
    await all(
      env.DB,
      sql`UPDATE operator_proposals SET at = at - 86400001 WHERE proposal_id = ${uuid(old)}`,
    );
    expect(await approve(old)).toMatchObject(refused("proposal_not_open"));

    const orphan = await propose("venue resume venue_three");
    const { second } = JSON.parse(testSettings()["OPERATORS"] ?? "") as Record<string, string>;
    const without = { ...TWO, OPERATORS: JSON.stringify({ second }) } as Partial<Env>;
    expect(await approve(orphan, "second", without)).toMatchObject(refused("proposal_not_open"));
  });

  it.each([
    ["with another command", "content = replace(content, 'resume', 'pause')"],
    ["of another operator", "operator = 'second'"],
    ["copied from another one", "proposal_id = randomblob(16)"],
  ])("does not carry out a proposal that was edited by SQL, %s", async (_, change) => {
    const id = await propose("venue resume venue_three");
    await all(
      env.DB,
      sql`UPDATE operator_proposals SET ${raw(change)} WHERE proposal_id = ${uuid(id)}`,
    );
    const [row] = await all<{ id: string; operator: "test" | "second" }>(
      env.DB,
      sql`SELECT hex(proposal_id) AS id, operator FROM operator_proposals ORDER BY rowid DESC LIMIT 1`,
    );
    const by = row?.operator === "test" ? "second" : "test";
    expect(await approve(readUuid(row?.id ?? ""), by)).toMatchObject(refused("proposal_not_open"));
  });

  it.each(["approve", "reject"])("SQL opens no proposal again after `%s`", async (decision) => {
    const id = await propose("venue resume venue_three");
    if (decision === "approve") expect(await approve(id)).toMatchObject({ ok: true });
    else expect(await sendOrder(orderOf(["reject"], { id }))).toMatchObject({ ok: true });
    const status = async () =>
      (await first<{ status: string }>(
        env.DB,
        sql`SELECT status FROM operator_proposals WHERE proposal_id = ${uuid(id)}`,
      ))!.status;
    expect(await status()).toBe(decision === "approve" ? "approved" : "rejected");
    await all(
      env.DB,
      sql`UPDATE operator_proposals SET status = 'open', decided_by = NULL
        WHERE proposal_id = ${uuid(id)}`,
    );
    expect(await approve(id)).toMatchObject(refused("proposal_not_open"));
    expect(await status()).toBe("open");
  });

  it("does not carry out an old proposal that SQL has made new", async () => {
    // The row's own time is D1's, as if it had been edited.
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() - 86_400_001);
    const id = await propose("venue resume venue_three", {}, Date.now() + 86_400_001);
    clock.mockRestore();
    expect(await approve(id)).toMatchObject(refused("proposal_not_open"));
  });

  it("keeps a new password out of the proposal", async () => {
    const { userId } = await newUser();
    const options = { "user-id": userId, password: "a-password-of-the-proposer" };
    const id = await propose("user set-password", options);
    expect(await contentOf(id)).not.toContain("a-password");
  });

  it("one operator alone can stop things, and end no stop", async () => {
    const { test: only } = JSON.parse(testSettings()["OPERATORS"] ?? "") as Record<string, string>;
    const alone = { ...TWO, OPERATORS: JSON.stringify({ test: only }) } as Partial<Env>;
    const pause = orderOf(["venue", "pause", "venue_three"]);
    expect(await sendOrder(pause, alone)).toMatchObject({ ok: true });
    const resume = ["venue", "resume", "venue_three"];
    expect(await sendOrder(orderOf(resume), alone)).toMatchObject(refused("approvals_impossible"));
    expect(await sendOrder(orderOf(resume))).toMatchObject({ ok: true });
  });
});

it("old orders and proposals are deleted", async () => {
  await sendOrder(orderOf(["venue", "resume", "venue_three"]), TWO);
  await all(env.DB, sql`UPDATE operator_orders SET at = at - 86400001`);
  await all(env.DB, sql`UPDATE operator_proposals SET at = at - 31 * 86400000`);
  await trimOrders(env.DB);
  await trimProposals(env.DB);
  const left = await first<{ n: number }>(
    env.DB,
    sql`SELECT (SELECT count(*) FROM operator_orders)
      + (SELECT count(*) FROM operator_proposals) AS n`,
  );
  expect(left?.n).toBe(0);
});
