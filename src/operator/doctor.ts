/**
 * `doctor` names what fails open: settings, and buckets without a lock. Only operators see it: it
 * tells a thief where to begin.
 */
import { type Config, witnessesOf } from "../platform/config.ts";
import { putOnce } from "../platform/put-once.ts";
import { first, sql } from "../platform/sql.ts";
import type { OperatorContext } from "./context.ts";

type Finding = { readonly setting: string; readonly value: string; readonly risk: string };

const DAY_SECS = 86_400;
export async function doctor({ env, settings }: OperatorContext): Promise<unknown> {
  // Beneath each locked prefix. They sort after the heads of the audit log, where its reader stops.
  const locks = await Promise.all([
    checkLock("ARCHIVE", "journal/lock-canary", env.ARCHIVE),
    checkLock("AUDIT", "audit/lock-canary", env.AUDIT),
  ]);
  const findings = [...openSettings(settings), ...locks.flat()];
  const accounts = await first<Record<string, number>>(
    env.DB,
    sql`SELECT count(*) AS users,
        count(*) FILTER (WHERE NOT EXISTS (SELECT 1 FROM totp_secrets t
          WHERE t.user_id = u.user_id AND t.status = 'confirmed')) AS without_totp,
        count(*) FILTER (WHERE NOT EXISTS (SELECT 1 FROM account_policies p
          WHERE p.user_id = u.user_id)) AS without_policy
      FROM users u`,
  );
  return {
    ok: findings.length === 0,
    findings,
    // What their owners have not turned on limits no thief.
    accounts,
    not_visible_to_the_service:
      "workers_dev and preview_urls of wrangler.toml, roles at Cloudflare",
  };
}

/** Pure: the settings that fail open, each with what that costs. */
export function openSettings(settings: Config): Finding[] {
  const { OPERATOR_APPROVALS, NOTICE_URL, OPERATORS } = settings;
  const shown = new Map<string, unknown>(Object.entries(settings));
  const finding = (setting: keyof Config, risk: string): Finding => ({
    setting,
    value: String(shown.get(setting)),
    risk,
  });
  const found: (Finding | false)[] = [
    OPERATOR_APPROVALS < 2 &&
      finding("OPERATOR_APPROVALS", "one operator alone widens rights and ends safety stops"),
    Object.keys(OPERATORS).length < 2 && {
      ...finding("OPERATORS", "nobody can stop or replace the only operator"),
      value: String(Object.keys(OPERATORS).length),
    },
    NOTICE_URL === "" && finding("NOTICE_URL", "owners do not hear of what changes their rights"),
    settings.ALERT_URL === "" && finding("ALERT_URL", "nobody is called when money is at risk"),
    settings.HEARTBEAT_URL === "" &&
      finding("HEARTBEAT_URL", "nobody hears of it if the service stops"),
    settings.WEBHOOK_LOOPBACK === "on" && finding("WEBHOOK_LOOPBACK", "webhooks reach this host"),
    settings.AUTH_REGISTRATION === "open" && finding("AUTH_REGISTRATION", "anyone may register"),
    settings.RATE_LIMITS === "off" && finding("RATE_LIMITS", "a flood is not refused"),
    settings.AUTH_SECURITY_DELAY_SECS < DAY_SECS &&
      finding("AUTH_SECURITY_DELAY_SECS", "an owner has less than a day to stop a thief"),
    settings.AUTH_OPERATOR_KEY_DELAY_SECS < DAY_SECS &&
      finding("AUTH_OPERATOR_KEY_DELAY_SECS", "an owner has less than a day to revoke a key"),
    settings.HOT_WINDOWS_DIVISOR > 1 &&
      finding("HOT_WINDOWS_DIVISOR", "clients lose records before the documented time"),
    ...settings.CHAINS.flatMap(({ chain, rpc_urls, finalized }) => [
      witnessesOf({ rpc_urls }) < 2 && {
        setting: `RPC_URLS of ${chain}`,
        value: String(rpc_urls.length),
        risk: "one endpoint that lies can invent a deposit",
      },
      !finalized && {
        setting: `CHAINS, finalized of ${chain}`,
        value: "false",
        risk: "a reorg deeper than the confirmations takes deposits back",
      },
    ]),
  ];
  return found.filter((one) => one !== false);
}

/**
 * A Worker cannot read a bucket's lock, so this overwrites an object of its own. R2 refuses with
 * the code 10069. Any other failure leaves it open whether there is a lock.
 */
async function checkLock(setting: string, key: string, bucket: R2Bucket): Promise<Finding[]> {
  const found = (value: string, risk: string) => [{ setting: `R2 bucket ${setting}`, value, risk }];
  try {
    await putOnce(bucket, key, "canary", {});
    await bucket.put(key, "canary");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return reason.includes("10069") ? [] : found("unknown", `the lock was not tested: ${reason}`);
  }
  return found("no lock", `objects can be overwritten and deleted (${key})`);
}
