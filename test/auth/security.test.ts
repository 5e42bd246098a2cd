/**
 * Security tests of every route in the OpenAPI description, so that new routes are covered
 * automatically. Each request is invalid beyond its credential and changes nothing, so a request
 * that passes the checks returns 400.
 */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { issueSession } from "../../src/auth/session.ts";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import {
  bearer,
  codeOf,
  type DescribedRoute,
  describedRoutes,
  problemOf,
  type Sent,
  type Signer,
  send,
  sendSigned,
  settings,
  sign,
} from "../support/http.ts";
import { newKey, newUser } from "../support/users.ts";
import type { Scope } from "../../src/platform/actor.ts";

const routes = await describedRoutes();
const guarded = routes
  .filter((route) => route.credential !== "public")
  .map((route) => [`${route.method} ${route.path}`, route] as const);
const open = routes
  .filter((route) => route.credential === "public" && !route.stream)
  .map((route) => [`${route.method} ${route.path}`, route] as const);
const SCOPES: readonly Scope[] = ["read", "trade", "withdraw"];

/** Failing requests change nothing, so most tests share a user, and a key of each kind. */
const user = await newUser();
const keys = new Map<string, ReturnType<typeof newKey>>();
function keyWith(scopes: readonly Scope[]): ReturnType<typeof newKey> {
  const made = keys.get(scopes.join()) ?? newKey(user, scopes);
  keys.set(scopes.join(), made);
  return made;
}

async function frozenUser() {
  const { token, userId } = await newUser();
  const key = await newKey({ userId }, []);
  await freezeUser(env.DB, { userId, operator: "test" });
  return { token, key };
}
const frozen = frozenUser();

/** A request that always fails validation, because it contains an unknown parameter. */
function invalidRequestTo(route: DescribedRoute): { target: string; sent: Sent } {
  const target = `${route.path}?no_such_field=1`;
  return { target, sent: { method: route.method } };
}

const call = (route: DescribedRoute, headers: Record<string, string>) => {
  const { target, sent } = invalidRequestTo(route);
  return send(target, { ...sent, headers });
};
const signed = (
  route: DescribedRoute,
  key: Signer,
  more: { timestamp?: number; headers?: Record<string, string> } = {},
) => {
  const { target, sent } = invalidRequestTo(route);
  return sendSigned(key, target, { ...sent, ...more });
};

describe.each(guarded)("%s", (_name, route) => {
  it("rejects requests without credentials and names a scheme", async () => {
    const response = await call(route, {});
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    expect(await codeOf(response)).toBe("401 credentials_missing");
  });

  it("rejects malformed, expired, unsigned and foreign sessions", async () => {
    const claims = { userId: user.userId, epoch: 0 };
    const foreign = await issueSession(
      settings({ SESSION_SECRETS: { t2: "another-secret-0123456789-0123456789-abc" } }),
      claims,
    );
    const expired = await issueSession(settings(), claims, Date.now() - 3_600_000);
    const [, payload = ""] = user.token.split(".");
    const header = Buffer.from('{"alg":"none","typ":"JWT","kid":"t2"}').toString("base64url");
    const none = `${header}.${payload}.`;
    for (const token of ["garbage", "a.b.c", foreign.accessToken, none, `${user.token}x`]) {
      expect(await codeOf(await call(route, bearer(token)))).toBe("401 session_invalid");
    }
    expect(await codeOf(await call(route, { authorization: "Basic dTpw" }))).toBe(
      "401 session_invalid",
    );
    expect(await codeOf(await call(route, bearer(expired.accessToken)))).toBe(
      "401 session_expired",
    );
  });

  it("rejects invalid signatures in the order of contract.md", async () => {
    const key = await keyWith(SCOPES);
    const stranger = { apiKeyId: crypto.randomUUID(), secret: key.secret };
    expect(await codeOf(await signed(route, stranger))).toBe("401 api_key_unknown");
    expect(await codeOf(await call(route, { apikey: key.apiKeyId }))).toBe(
      "401 timestamp_malformed",
    );
    expect(
      await codeOf(await signed(route, stranger, { headers: { "x-hmac-timestamp": "soon" } })),
    ).toBe("401 timestamp_malformed");
    expect(await codeOf(await signed(route, { ...key, secret: `${key.secret}x` }))).toBe(
      "401 signature_invalid",
    );
    expect(
      await codeOf(
        await signed(route, { ...key, secret: "x" }, { timestamp: Date.now() - 31_000 }),
      ),
    ).toBe("401 timestamp_outside_tolerance");
    expect(await codeOf(await signed(route, key, { timestamp: Date.now() + 31_000 }))).toBe(
      "401 timestamp_outside_tolerance",
    );
    expect(await codeOf(await signed(route, key, { headers: { "x-hmac-signature": "" } }))).toBe(
      "401 signature_invalid",
    );
  });

  it("accepts timestamps that are 29 s early or late", async () => {
    const key = await keyWith(SCOPES);
    for (const skew of [-29_000, 29_000]) {
      const response = await signed(route, key, { timestamp: Date.now() + skew });
      expect(await codeOf(response)).toBe(
        route.credential === "session" ? "403 session_required" : "400 invalid_request",
      );
    }
  });

  it("never verifies a request with APIKEY as a session", async () => {
    const key = await keyWith(SCOPES);
    const both = {
      ...bearer(user.token),
      ...sign({ ...key, secret: "wrong" }, { method: route.method, target: route.path }),
    };
    expect(await codeOf(await call(route, both))).toBe("401 signature_invalid");
    expect(
      await codeOf(
        await call(route, {
          ...bearer(user.token),
          apikey: "",
          "x-hmac-timestamp": String(Date.now()),
        }),
      ),
    ).toBe("401 api_key_unknown");
    expect(await codeOf(await call(route, { ...bearer(user.token), apikey: "" }))).toBe(
      "401 timestamp_malformed",
    );
  });

  it("rejects keys without the scope and reports it", async () => {
    const { scope, keyScopes = scope === undefined ? [] : [scope], credential } = route;
    if (keyScopes.length === 0 || credential === "session") return;
    const others = SCOPES.filter((held) => !keyScopes.includes(held));
    const response = await signed(route, await keyWith(others));
    expect(await problemOf(response)).toMatchObject({
      status: 403,
      code: "scope_missing",
      required_scope: keyScopes[0],
      granted_scopes: others,
    });
    for (const one of keyScopes) {
      const key = await keyWith([one]);
      expect(await codeOf(await signed(route, key))).toBe("400 invalid_request");
    }
  });

  it("rejects sessions where an API key is required", async () => {
    const response = await call(route, bearer(user.token));
    const expected =
      route.credential !== "api_key"
        ? "400 invalid_request"
        : route.scope === "withdraw"
          ? "403 session_cannot_withdraw"
          : "403 api_key_required";
    expect(await codeOf(response)).toBe(expected);
  });

  it("rejects frozen accounts once the credential is verified", async () => {
    forgetAllCredentials();
    const { token, key } = await frozen;
    expect(await codeOf(await call(route, bearer(token)))).toBe("403 account_frozen");
    expect(await codeOf(await signed(route, key))).toBe("403 account_frozen");
    expect(await codeOf(await signed(route, { ...key, secret: "wrong" }))).toBe(
      "401 signature_invalid",
    );
  });

  it("returns problems with the request id, not cacheable", async () => {
    const response = await call(route, { "x-request-id": "00000000-0000-4000-8000-00000000beef" });
    const id = response.headers.get("x-request-id");
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(id).not.toBe("00000000-0000-4000-8000-00000000beef");
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect((await problemOf(response))["request_id"]).toBe(id);
  });

  it("limits bodies to 64 KiB before checking credentials", async () => {
    if (route.method === "GET") return;
    const { target, sent } = invalidRequestTo(route);
    expect(await codeOf(await send(target, { ...sent, body: " ".repeat(65_537) }))).toBe(
      "413 body_too_large",
    );
    expect(await codeOf(await send(target, { ...sent, body: " ".repeat(65_536) }))).toBe(
      "401 credentials_missing",
    );
  });
});

describe.each(open)("public %s", (_name, route) => {
  it("ignores credentials, even invalid ones", async () => {
    const { target, sent } = invalidRequestTo(route);
    for (const headers of [{}, bearer("garbage"), { apikey: "x" }]) {
      expect(await codeOf(await send(target, { ...sent, headers }))).toBe("400 invalid_request");
    }
  });
});

it("describes the credential and scope of every route in contract.md", () => {
  const table = routes.map(
    (route) =>
      `${route.method} ${route.path} ${route.stream ? "ticket" : route.credential} ${route.scope ?? "-"}`,
  );
  for (const line of [
    "POST /auth/login public -",
    "GET /auth/whoami any -",
    "POST /auth/api-keys session -",
    "DELETE /auth/sessions session -",
    "POST /auth/ws-ticket/signed api_key read",
    "POST /custody/withdraw api_key withdraw",
    // A session, or a key with the scope withdraw: cancel-withdrawal.test.ts.
    "DELETE /custody/withdraw any -",
    "POST /custody/create-deposit-address any read",
    "GET /custody/get-ledger any read",
    "POST /custody/split any trade",
    "POST /custody/redeem any trade",
    "POST /rfq/request any trade",
    "DELETE /rfq/request any trade",
    "GET /rfq/request any read",
    "POST /rfq/quote any trade",
    "DELETE /rfq/quotes any trade",
    "POST /rfq/accept any trade",
    "POST /rfq/accept-price any trade",
    "GET /rfq/stream ticket -",
    "GET /account/stream ticket -",
  ]) {
    expect(table).toContain(line);
  }
  for (const route of routes) {
    if (route.credential === "public" || route.path.startsWith("/auth")) continue;
    if (route.scope === undefined && (route.credential === "session" || route.method === "DELETE"))
      continue;
    const expected =
      route.path === "/custody/withdraw"
        ? "withdraw"
        : /^\/(rfq|custody\/(split|redeem)$)/.test(route.path) && route.method !== "GET"
          ? "trade"
          : "read";
    expect(`${route.method} ${route.path} ${route.scope}`).toBe(
      `${route.method} ${route.path} ${expected}`,
    );
  }
});

describe.each(routes.filter((route) => route.stream).map((route) => [route.path, route] as const))(
  "stream %s",
  (_name, route) => {
    const query = route.path === "/rfq/stream" ? "&venue_id=venue_one" : "";
    it("checks upgrade, query and ticket in order, without quoting the ticket", async () => {
      expect(await codeOf(await send(`${route.path}?ticket=abc`))).toBe("426 websocket_required");
      const upgrade = { headers: { upgrade: "websocket" } };
      const invalid = await send(`${route.path}?ticket=secret-ticket&typo=1${query}`, upgrade);
      const text = await invalid.text();
      expect(invalid.status).toBe(400);
      expect(text).not.toContain("secret-ticket");
      expect(await codeOf(await send(`${route.path}?ticket=secret-ticket${query}`, upgrade))).toBe(
        "401 ticket_invalid",
      );
    });
  },
);

describe("hints in a 401 of a signature", () => {
  const hintOf = async (headers: Record<string, string>, timestamp = Date.now()) => {
    const key = await keyWith(SCOPES);
    const response = await sendSigned({ ...key, secret: "wrong" }, "/auth/whoami", {
      headers,
      timestamp,
    });
    return (await problemOf(response))["detail"];
  };

  it("name the form of a signature that cannot be one", async () => {
    const base64 = "must be 44 characters of standard Base64";
    for (const signature of ["ab".repeat(32), "", `${"A".repeat(43)}-`])
      expect(await hintOf({ "x-hmac-signature": signature })).toContain(base64);
  });

  it("are the same for every well-formed wrong signature", async () => {
    const hints = ["A", "B"].map((letter) =>
      hintOf({ "x-hmac-signature": `${letter.repeat(42)}A=` }),
    );
    const [one, other] = await Promise.all(hints);
    expect(one).toContain("The key is the text of the secret, not decoded");
    expect(other).toBe(one);
  });

  it("recognise seconds instead of milliseconds", async () => {
    const seconds = Math.floor(Date.now() / 1_000);
    expect(await hintOf({}, seconds)).toContain("It looks like seconds. Send milliseconds.");
    expect(await hintOf({}, Date.now() - 60_000)).not.toContain("seconds.");
  });

  it("recognise microseconds, and a header that was sent twice", async () => {
    expect(await hintOf({}, Date.now() * 1_000)).toContain("microseconds. Send milliseconds.");
    const id = crypto.randomUUID();
    expect(await hintOf({ apikey: `${id}, ${id}` })).toContain("sent more than once");
  });
});
