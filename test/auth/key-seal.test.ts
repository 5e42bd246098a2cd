/** A key's row that was edited past the service does not open. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { all, raw, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf } from "../support/http.ts";
import { newKey, newUser, type TestKey } from "../support/users.ts";
import { answerAlert } from "../support/pager.ts";

const whoami = (key: TestKey) => {
  forgetAllCredentials();
  return apiOf(key).get("/auth/whoami");
};
const edit = (key: TestKey, change: string) =>
  all(env.DB, sql`UPDATE api_keys SET ${raw(change)} WHERE api_key_id = ${uuid(key.apiKeyId)}`);

it.each([
  "scopes = 'read,trade,withdraw'",
  "limits = NULL",
  "require_idempotency = 1 - require_idempotency",
  "allowed_ips = NULL",
  "active_from = active_from - 1",
  "active_from = NULL",
  "expires_at = expires_at + 1",
  "expires_at = NULL",
  "minted_by = 'session'",
  "user_id = randomblob(16)",
  "master_key_id = 'm0'",
  "secret_sealed = substr(secret_sealed, 4)",
])("rejects a key after `%s`, and alerts the operator", async (change) => {
  const user = await newUser();
  const key = await newKey(user, ["read"], {
    expiresAt: Date.now() + 3_600_000,
    allowedIps: ["0.0.0.0/0"],
    limits: { venues: ["venue_one"], maxUsdcPerTrade: 5n, maxUsdcPerDay: null },
  });
  expect((await whoami(key)).status).toBe(200);
  if (change.startsWith("user_id")) {
    const other = await newUser();
    await all(
      env.DB,
      sql`UPDATE api_keys SET user_id = ${uuid(other.userId)}
        WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
  } else await edit(key, change);
  expect(await codeOf(await whoami(key))).toBe("401 api_key_unknown");
  await answerAlert("key_row_altered", key.apiKeyId);
});

it("opens a row whose label, use and revocation changed", async () => {
  const key = await newKey(await newUser(), ["read"]);
  await edit(key, "label = 'renamed', last_used_at = 1, approved_at = NULL");
  expect((await whoami(key)).status).toBe(200);
  await edit(key, "revoked_at = 1");
  expect(await codeOf(await whoami(key))).toBe("401 api_key_revoked");
});
