/** What a user may store in a day, and what nobody may store when the database is nearly full. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { issueTicket } from "../../src/auth/ws-ticket.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { config } from "../../src/platform/config.ts";
import { trimDailyCounts } from "../../src/platform/daily-limit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { apiOf } from "../support/http.ts";
import { newAsset, queueWithdrawal } from "../support/ledger.ts";
import {
  command,
  openMarket,
  operationOf,
  outcomeOf,
  placeQuote,
  submit,
} from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

const chain = config(env).CHAINS[0]!;
const REQUEST = { venue_id: "venue_one", amount: "1", side: "Bid", expires_in_secs: 60 };

type Attempt = (user: TestUser) => Promise<string>;

const codeOf = ({ status, json }: { status: number; json: Record<string, unknown> }): string =>
  status < 300 ? "ok" : String(json["code"]);

/** Every command that leaves rows behind, and the setting that limits it. */
const COUNTED: readonly (readonly [limit: string, setting: string, Attempt])[] = [
  [
    "requests_per_day",
    "RFQ_DAILY_REQUESTS",
    async (user) =>
      codeOf(await apiOf(user).post("/rfq/request", { ...REQUEST, asset_id: newAsset().asset_id })),
  ],
  [
    "tickets_per_day",
    "STREAM_DAILY_TICKETS",
    async (user) => codeOf(await apiOf(user).post("/auth/ws-ticket")),
  ],
  [
    "api_keys_per_day",
    "AUTH_DAILY_API_KEYS",
    async (user) =>
      codeOf(await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] })),
  ],
  [
    "deposit_addresses_per_day",
    "DEPOSIT_DAILY_ADDRESSES",
    ({ actor }) =>
      createDepositAddress(env.DB, config(env), { actor, chain, ip: undefined }).then(
        () => "ok",
        (error: { data: { code: string } }) => error.data.code,
      ),
  ],
];

/** Leaves the user one more of the kind today. */
async function useAllButOne(user: TestUser, setting: string, limit: string): Promise<void> {
  const defaults: Record<string, unknown> = { ...config(env) };
  await all(
    env.DB,
    sql`INSERT INTO daily_counts (day, user_id, kind, count)
      VALUES (unixepoch() / 86400, ${uuid(user.userId)}, ${limit.replace("_per_day", "")},
        ${Number(defaults[setting]) - 1})`,
  );
}

describe.each(COUNTED)("%s", (limit, setting, attempt) => {
  it("is exact, also when calls race, and is the user's own", async () => {
    const [user, other] = [await newUser(), await newUser()];
    await useAllButOne(user, setting, limit);
    const codes = await Promise.all([1, 2, 3].map(() => attempt(user)));
    expect(codes.toSorted()).toEqual(["daily_limit", "daily_limit", "ok"]);
    expect(await attempt(other)).toBe("ok");
  });

  it("begins anew on the next day", async () => {
    const user = await newUser();
    await useAllButOne(user, setting, limit);
    expect([await attempt(user), await attempt(user)]).toEqual(["ok", "daily_limit"]);
    await all(
      env.DB,
      sql`UPDATE daily_counts SET day = day - 1 WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(await attempt(user)).toBe("ok");
    await trimDailyCounts(env.DB);
    const left = await all(
      env.DB,
      sql`SELECT count FROM daily_counts WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(left).toEqual([{ count: 1 }]);
  });
});

it("a rejected request of a group does not count when another of the group opens", async () => {
  const { book, requester } = await openMarket();
  const open = command.openRequest(requester, book, { amount: 10n });
  const late = { ...command.openRequest(requester, book, { amount: 10n }), receivedAt: 0 };
  const operations = await Promise.all([open, late].map((sent) => operationOf(sent)));
  const counted = () =>
    all<{ count: number }>(
      env.DB,
      sql`SELECT count FROM daily_counts
        WHERE user_id = ${uuid(requester.userId)} AND kind = 'requests'`,
    );
  const [before] = await counted();
  expect((await commitOperations(env.DB, book, operations)).committed).toBe(true);
  expect(await counted()).toEqual([{ count: (before?.count ?? 0) + 1 }]);
});

it("a rejection names the limit and the time of the next day", async () => {
  const user = await newUser();
  await useAllButOne(user, "STREAM_DAILY_TICKETS", "tickets_per_day");
  const issue = () => issueTicket(env.DB, config(env), { actor: user.actor, scopes: ["read"] });
  await issue();
  await expect(issue()).rejects.toMatchObject({
    data: {
      code: "daily_limit",
      extensions: { limit: "tickets_per_day", max_per_day: config(env).STREAM_DAILY_TICKETS },
    },
  });
  const { status, headers } = await apiOf(user).post("/auth/ws-ticket");
  expect(status).toBe(429);
  expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(86_400);
  const maximum = config(env).STREAM_DAILY_TICKETS;
  expect(headers.get("ratelimit-policy")).toBe(`"tickets_per_day";q=${maximum};w=86400`);
  expect(headers.get("ratelimit")).toBe(`"tickets_per_day";r=0;t=${headers.get("retry-after")}`);
});

it("an operator can begin the day of one user and one limit again", async () => {
  const [user, other] = [await newUser(), await newUser()];
  const issue = ({ actor }: typeof user) =>
    issueTicket(env.DB, config(env), { actor, scopes: ["read"] });
  for (const each of [user, other]) {
    await useAllButOne(each, "STREAM_DAILY_TICKETS", "tickets_per_day");
    await issue(each);
    await expect(issue(each)).rejects.toMatchObject({ data: { code: "daily_limit" } });
  }
  const begin = (limit: string) =>
    sendOrder(orderOf(["user", "begin-day"], { "user-id": user.userId, limit }));
  expect(await begin("tickets")).toMatchObject({ problem: { code: "invalid_request" } });
  expect(await begin("requests_per_day")).toMatchObject({ ok: true });
  await expect(issue(user)).rejects.toMatchObject({ data: { code: "daily_limit" } });
  const used = config(env).STREAM_DAILY_TICKETS;
  expect(await begin("tickets_per_day")).toMatchObject({ result: { used } });
  expect(await issue(user)).toHaveProperty("ticket");
  await expect(issue(other)).rejects.toMatchObject({ data: { code: "daily_limit" } });
});

describe("a nearly full database", () => {
  afterEach(() => all(env.DB, sql`DELETE FROM kill_switches WHERE name = 'storage_full'`));
  const fill = () =>
    all(
      env.DB,
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('storage_full', '', 0)`,
    );

  it.each(COUNTED)("stops %s", async (_limit, _setting, attempt) => {
    const user = await newUser();
    await fill();
    expect(await attempt(user)).toBe("unavailable");
  });

  it("stops registrations and says why", async () => {
    const user = await newUser();
    await fill();
    const { status, json } = await apiOf(user).post("/auth/register", {
      email: `${crypto.randomUUID()}@example.com`,
      password: "long enough for this",
    });
    expect([status, json["code"], json["outcome"]]).toEqual([503, "unavailable", "none"]);
    expect(json["detail"]).toContain("nearly full");
  });

  it("lets accepts, cancels, withdrawals, revocations and freezes pass", async () => {
    const { book, requester, maker, request } = await openMarket();
    const quotes = [
      await placeQuote(maker, request.request_id, 400_000),
      await placeQuote(maker, request.request_id, 500_000),
    ];
    const key = await newKey(requester);
    await fill();
    const cancelled = await submit(command.cancelQuote(maker, quotes[1]?.quote_id ?? ""));
    const accepted = await submit(command.accept(requester, quotes[0]?.quote_id ?? ""));
    expect([outcomeOf(cancelled), outcomeOf(accepted)]).toEqual(["ok", "ok"]);
    expect((await queueWithdrawal(key, book, 1n)).amount).toBe(1n);
    expect(await revokeApiKey(env.DB, { apiKeyId: key.apiKeyId, operator: "test" })).toBe(true);
    expect(await freezeUser(env.DB, { userId: maker.userId, operator: "test" })).toBe(true);
  });
});
