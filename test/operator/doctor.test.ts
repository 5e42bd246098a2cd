import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { testSettings } from "../support/settings.ts";
import { SECRETS } from "../support/receiver.ts";
import { orderOf, sendOrder } from "../support/operator.ts";

/** A bucket of which every put is refused for this reason, as that of a locked key is. */
const refusing = (bucket: R2Bucket, reason: string): object => ({
  head: (key: string) => bucket.head(key),
  put: () => Promise.reject(new Error(reason)),
});
const LOCKED = "put: The object is locked by the bucket policy. (10069)";

const [chain] = JSON.parse(testSettings()["CHAINS"] ?? "") as [object];
const safe = {
  OPERATOR_APPROVALS: "2",
  NOTICE_URL: "https://mail.example/notices",
  NOTICE_SECRETS: JSON.stringify(SECRETS),
  ALERT_URL: "https://pager.example/alerts",
  ALERT_SECRETS: JSON.stringify(SECRETS),
  HEARTBEAT_URL: "https://watch.example/heartbeat",
  WEBHOOK_LOOPBACK: "off",
  AUTH_REGISTRATION: "closed",
  RATE_LIMITS: "on",
  AUTH_SECURITY_DELAY_SECS: "86400",
  AUTH_OPERATOR_KEY_DELAY_SECS: "86400",
  CHAINS: JSON.stringify([
    { ...chain, finalized: true, rpc_urls: ["https://one.example", "https://two.example"] },
  ]),
  ARCHIVE: refusing(env.ARCHIVE, LOCKED),
  AUDIT: refusing(env.AUDIT, LOCKED),
};

type Report = { ok: boolean; findings: { setting: string; value: string }[]; accounts: object };
const examine = async (changes: object = {}) => {
  const settings: object = { ...safe, ...changes };
  const { result } = await sendOrder(orderOf(["doctor"]), settings as Partial<Env>);
  return result as unknown as Report;
};

it("the doctor finds nothing where nothing fails open", async () => {
  expect(await examine()).toMatchObject({
    ok: true,
    findings: [],
    accounts: { users: expect.any(Number), without_totp: expect.any(Number) },
  });
});

it.each([
  [{ OPERATOR_APPROVALS: "1" }, "OPERATOR_APPROVALS", "1"],
  [{ NOTICE_URL: "" }, "NOTICE_URL", ""],
  [{ ALERT_URL: "" }, "ALERT_URL", ""],
  [{ HEARTBEAT_URL: "" }, "HEARTBEAT_URL", ""],
  [{ WEBHOOK_LOOPBACK: "on" }, "WEBHOOK_LOOPBACK", "on"],
  [{ AUTH_REGISTRATION: "open" }, "AUTH_REGISTRATION", "open"],
  [{ RATE_LIMITS: "off" }, "RATE_LIMITS", "off"],
  [{ AUTH_SECURITY_DELAY_SECS: "0" }, "AUTH_SECURITY_DELAY_SECS", "0"],
  [{ AUTH_OPERATOR_KEY_DELAY_SECS: "60" }, "AUTH_OPERATOR_KEY_DELAY_SECS", "60"],
  [{ HOT_WINDOWS_DIVISOR: "60" }, "HOT_WINDOWS_DIVISOR", "60"],
  [{ RPC_URLS: JSON.stringify({ local: ["https://one.example"] }) }, "RPC_URLS of local", "1"],
  [{ AUDIT: env.AUDIT }, "R2 bucket AUDIT", "no lock"],
  [{ ARCHIVE: env.ARCHIVE }, "R2 bucket ARCHIVE", "no lock"],
  [{ AUDIT: refusing(env.AUDIT, "put: try again (10001)") }, "R2 bucket AUDIT", "unknown"],
])("the doctor names %j", async (changes, setting, value) => {
  expect(await examine(changes)).toMatchObject({ ok: false, findings: [{ setting, value }] });
});

it("the doctor names a single operator and a chain without finality", async () => {
  const { test: only } = JSON.parse(testSettings()["OPERATORS"] ?? "") as Record<string, string>;
  const report = await examine({
    OPERATORS: JSON.stringify({ test: only }),
    CHAINS: safe.CHAINS.replace('"finalized":true', '"finalized":false'),
  });
  expect(report.findings.map(({ setting }) => setting)).toEqual([
    "OPERATORS",
    "CHAINS, finalized of local",
  ]);
});
