/**
 * `doctor` names what fails open: settings that are safe only where nothing is at stake, and
 * buckets whose objects can be changed. Only operators see it, because it tells a thief where to
 * begin.
 */
import { email } from "../auth/account-fields.ts";
import { type Config, witnessesOf } from "../platform/config.ts";
import { putOnce } from "../platform/put-once.ts";
import { all, first, readUuid, sql } from "../platform/sql.ts";
import type { OperatorContext } from "./context.ts";

type Finding = { readonly setting: string; readonly value: string; readonly risk: string };

const DAY_SECS = 86_400;
/** Accounts that are listed at once. The next call lists others once these are mended. */
const MAX_LISTED = 100;
const EMAILS_PER_QUERY = 1_000;
/** Beneath each locked prefix. Sorts after the heads of the audit log, whose reader stops there. */
const CANARIES = { ARCHIVE: "journal/lock-canary", AUDIT: "audit/lock-canary" } as const;

export async function doctor({ env, settings }: OperatorContext): Promise<unknown> {
  const locks = await Promise.all(
    Object.entries(CANARIES).map(([name, key]) =>
      checkLock(name, key, name === "AUDIT" ? env.AUDIT : env.ARCHIVE),
    ),
  );
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
    accounts: { ...accounts, email_in_old_form: await emailsInOldForm(env.DB) },
    not_visible_to_the_service:
      "workers_dev and preview_urls of wrangler.toml, roles at Cloudflare",
  };
}

/**
 * The first accounts that nobody can log in to, because their stored email is not in the form that
 * is looked up. An email that is ASCII and lower case always is, except for a dot at its end.
 */
async function emailsInOldForm(db: D1Database): Promise<string[]> {
  const found: string[] = [];
  let after = "";
  for (;;) {
    const rows = await all<{ id: string; address: string }>(
      db,
      sql`SELECT hex(user_id) AS id, email AS address FROM users
        WHERE user_id > unhex(${after}) AND (email GLOB ${"*[^!-~]*"} OR email GLOB ${"*[A-Z]*"}
          OR email LIKE ${"%."})
        ORDER BY user_id LIMIT ${EMAILS_PER_QUERY}`,
    );
    for (const { id, address } of rows)
      if (email.safeParse(address).data !== address) found.push(readUuid(id));
    after = rows.at(-1)?.id ?? "";
    if (rows.length < EMAILS_PER_QUERY || found.length >= MAX_LISTED)
      return found.slice(0, MAX_LISTED);
  }
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
    settings.KEY_SEAL_MIN_VERSION < 2 &&
      finding("KEY_SEAL_MIN_VERSION", "SQL can widen a key whose seal is of version 1"),
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
 * A Worker cannot read a bucket's lock, so this overwrites an object that holds nothing. R2 names
 * the refusal by the code 10069. Any other failure leaves it open whether there is a lock.
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
