/** Whatever takes the right to trade from sessions ends their open quotes in the same commit. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { expr, scalar, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { openMarket, placeQuote } from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "../support/totp.ts";
import { newKey, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000 });

const DELAYED = { ...env, AUTH_SECURITY_DELAY_SECS: "86400" };
const password = PASSWORD;
type Change = (user: TestUser, secret: string) => Promise<unknown>;
const reset =
  (line: string): Change =>
  async ({ email }) => {
    const options = { email, "keep-keys": "true" };
    const other = line.endsWith("password") ? { password: "of-the-operator" } : {};
    return sendOrder(orderOf(line.split(" "), { ...options, ...other }), DELAYED);
  };

/** Quotes of a session and of a key, with the commit group that ended them. */
async function quoted() {
  const { request, book } = await openMarket();
  const maker = await newUserWithPassword({ [book]: 1_000n, usdc: 1_000_000n });
  const { secret } = await enrol(maker);
  const key = await newKey(maker, ["read", "trade"]);
  const mine = await placeQuote(maker, request.request_id, 500_000);
  const ofKey = await placeQuote({ ...maker, actor: key.actor }, request.request_id, 500_001);
  const statusOf = async ({ quote_id }: { quote_id: string }) =>
    scalar<string>(
      env.DB,
      expr`SELECT CASE WHEN status = 'open' THEN 'open' WHEN g.at = (SELECT max(at)
          FROM audit_events WHERE user_id = maker_id AND kind <> 'login') THEN 'ended with it' END
        FROM quotes LEFT JOIN commit_groups g ON g.seq = ended_group
        WHERE quote_id = ${uuid(quote_id)}`,
    );
  return { maker, secret, statuses: async () => [await statusOf(mine), await statusOf(ofKey)] };
}

it.each<[string, Change]>([
  [
    "the end of all sessions",
    (user) => apiOf(user).delete("/auth/sessions", { revoke_keys: false }),
  ],
  [
    "a new password",
    async (user, secret) => {
      const totp_code = await freshCode(user, secret);
      const body = { password, totp_code, new_password: "another long one", revoke_keys: false };
      return apiOf(user).post("/auth/change-password", body);
    },
  ],
  [
    "a policy without sessions_trade",
    async (user, secret) => {
      const totp_code = await freshCode(user, secret);
      return apiOf(user).post("/auth/policy", { password, totp_code, sessions_trade: false });
    },
  ],
  [
    "a device that waits",
    async (user, secret) => {
      const api = apiOf(user, { AUTH_SECURITY_DELAY_SECS: "86400" });
      const totp_code = await freshCode(user, secret);
      const { json } = await api.post("/auth/totp", { password, totp_code });
      return api.post("/auth/confirm-totp", {
        totp_code: codeOfStep(json["secret"], presentStep()),
      });
    },
  ],
  ["a reset of the password", reset("user set-password")],
  ["a reset of the device", reset("user reset-totp")],
])("%s ends the quotes of sessions, and of no key", async (_, change) => {
  const { maker, secret, statuses } = await quoted();
  expect(await change(maker, secret)).toMatchObject({});
  forgetAllCredentials();
  expect(await statuses()).toEqual(["ended with it", "open"]);
});

it("another policy leaves the quotes of sessions", async () => {
  const { maker, secret, statuses } = await quoted();
  const totp_code = await freshCode(maker, secret);
  const body = { password, totp_code, max_trade_usdc_per_day: "1000000000" };
  expect((await apiOf(maker).post("/auth/policy", body)).status).toBe(200);
  expect(await statuses()).toEqual(["open", "open"]);
});
