/** Settings and secrets. An invalid one fails the first request, before it can affect a balance. */
import * as z from "zod";
import { PLATFORM } from "./platform-limits.ts";
import { MAX_NATIVE_UNITS } from "./sql.ts";
import { MAX_VENUES, VENUE_ID } from "./venues.ts";
import { checkTables, SettingsError } from "./check-settings.ts";
import { isProtected, receiverUrl, WebhookSecrets } from "./receivers.ts";

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);

/** A decimal number of gwei: 0.001 is 1 000 000 wei. Nine decimals are one wei. */
const gwei = z
  .number()
  .max(1_000_000)
  .refine((value) => /^\d+(\.\d{1,9})?$/.test(String(value)), "must have at most nine decimals");

/** A smaller deposit waits until its address got as much. The maximum keeps any sum below 2^62. */
const minDeposit = z.int().min(1).max(100_000_000_000).default(1);

const Chain = z.strictObject({
  chain: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/),
  chain_id: z.int().positive(),
  /** Endpoints in order of preference. RPC_URLS replaces them, so that their keys can be secret. */
  rpc_urls: z.array(z.url()).default([]),
  factory: address,
  vault: address,
  /**
   * Vaults that `vault` took over from, for good. Their events are read, because a payment may have
   * been on its way.
   */
  previous_vaults: z.array(address).max(16).default([]),
  usdc: address,
  /** Blocks, including the deposit's own, before a deposit is credited. */
  confirmations: z.int().min(1).max(10_000),
  /**
   * Whether the chain supports the `finalized` tag (Polygon, Base, Ethereum). If so, crediting
   * waits for it too.
   */
  finalized: z.boolean().default(false),
  /** An alert follows if `finalized`, or else the head, has not risen for this time. */
  finality_stall_secs: z.int().min(60).default(900),
  /** A block explorer. Its pages of transactions are at `/tx/<hash>`. */
  explorer: z
    .url({ protocol: /^https$/ })
    .transform((text) => text.replace(/\/+$/, ""))
    .optional(),
  /**
   * The first block that the watcher reads: the block in which the vault was deployed. With a later
   * one deposits are missed.
   */
  start_block: z.int().min(0).default(0),
  /** Maximum number of blocks in one eth_getLogs call. */
  scan_range: z.int().min(1).max(10_000).default(500),
  /** Pause between rounds, of a payer with work and after a failure 4 s at most. */
  poll_ms: z.int().min(100).max(60_000).default(12_000),
  /** Maximum fee per gas. A replacement that needs more is not sent, and an alert is raised. */
  max_fee_gwei: z.int().min(1).default(1_000),
  /** Lowest tip per gas, for chains whose nodes refuse less. Default: 25 on Polygon, else 0. */
  min_tip_gwei: gwei.optional(),
  /** Maximum tip per gas of any attempt. The first attempt offers at most half of it. */
  max_tip_gwei: gwei.default(100),
  /** A transaction that is not mined within this time is replaced with one that pays more. */
  replace_after_secs: z.int().min(1).default(60),
  /** An alert names the oldest withdrawal that has neither settled nor failed after this time. */
  late_after_secs: z.int().min(60).default(3_600),
  /**
   * Share of the USDC issued on the chain that the vault should hold, in basis points. Sweeps in
   * the background fill it up, the largest first, unless withdrawals are paused. 0: deposits are
   * swept only when a withdrawal needs them, as outcome tokens always are.
   */
  sweep_float_bps: z.int().min(0).max(10_000).default(1_000),
  /** In USDC units. Sweeps in the background leave smaller holdings where they are. */
  min_sweep: z.int().min(1).default(1_000_000),
  /**
   * Price of one native coin in USDC units, such as 500000 for 0.50 USDC. If given, sweeps leave
   * what is worth less than their gas.
   */
  native_price: z.int().min(1).optional(),
  /**
   * In USDC units. Set it to 1000000: a credited deposit takes about 1 900 bytes for ever, and its
   * sender pays only gas.
   */
  min_deposit: minDeposit,
  /** The chain of calls that name none. */
  default: z.boolean().default(false),
});

/** By default one token or one USDC. */
const minTrade = z.int().min(1).max(100_000_000_000).default(1_000_000);

const VenueSetting = z.strictObject({
  venue_id: z.string().regex(VENUE_ID),
  /** Without a chain, the service issues the venue's tokens in pairs and pays their results. */
  chain: z.string().optional(),
  /** The contract of its tokens on the chain. */
  outcome_tokens: address.optional(),
  /**
   * The ERC-20 that the tokens pay, if their contract is Conditional Tokens. With it the venue has
   * pairs. A unit of it must be worth one of USDC, also after fees of the contract. The chain needs
   * two RPC endpoints.
   */
  collateral: address.optional(),
  /** A user who pays for tokens of settled pairs what the pairs lack, and takes the tokens. */
  float_account: z.uuid().toLowerCase().optional(),
  /** In native units of each outcome token. */
  min_deposit: minDeposit,
  /**
   * In native units of the token, or of USDC for a request in money: one of each. 1 in local
   * stacks.
   */
  min_request: minTrade,
  /** In native units. A smaller trade counts for no candle, ticker or last price. */
  min_priced_trade: minTrade,
  taker_fee_bps: z.int().min(0).max(1_000).default(0),
  maker_fee_bps: z.int().min(0).max(1_000).default(0),
});

const headerName = z.string().regex(/^[a-z][a-z0-9-]{0,63}$/, "must be a lower-case header name");

const Signer = z
  .strictObject({
    url: z.url(),
    address,
    /** Names of request headers, such as `authorization`. PAYER_SIGNER_HEADERS has their values. */
    headers: z.array(headerName).max(16).default([]),
  })
  .refine(
    ({ url, headers }) => headers.length === 0 || isProtected(new URL(url)),
    "must have an https URL, because its headers are secret",
  );

const integer = (fallback: number, min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .default(String(fallback))
    .transform(Number)
    .pipe(z.int().min(min).max(max));
const nativeUnits = (fallback: bigint) =>
  z
    .string()
    .regex(/^\d{1,19}$/)
    .default(String(fallback))
    .transform(BigInt)
    .refine((units) => units <= MAX_NATIVE_UNITS, "must be at most 2^62");

function itemsOf(list: string): string[] {
  return list.split(",").flatMap((item) => item.trim() || []);
}

const json = <T extends z.ZodType>(schema: T) =>
  z
    .string()
    .transform((text, context): unknown => {
      try {
        return JSON.parse(text);
      } catch {
        context.addIssue({ code: "custom", message: "is not valid JSON" });
        return z.NEVER;
      }
    })
    .pipe(schema);

/**
 * Secrets by key id, newest first: `{ "k2": "…", "k1": "…" }`. New signatures and seals use the
 * first one. Existing ones are verified or opened with the secret that they name.
 */
const SecretRing = json(
  z.record(z.string().regex(/^[a-z0-9_-]{1,32}$/), z.string().min(32)),
).refine((ring) => Object.keys(ring).length > 0, "must contain at least one secret");

export const Settings = z.object({
  /** `open`: anyone may register. */
  AUTH_REGISTRATION: z.enum(["open", "closed"]).default("closed"),
  /** What a session may do; never `withdraw`. */
  AUTH_SESSION_SCOPES: z
    .string()
    .default("read,trade")
    .transform(itemsOf)
    .pipe(
      z
        .array(
          z.enum(
            ["read", "trade"],
            "must be read or trade, because a session never has the scope withdraw",
          ),
        )
        .min(1),
    ),
  /** Life of a session. */
  AUTH_SESSION_TTL_SECS: integer(3_600, 60, 604_800),
  /** Logins and step-up calls of one email from one network, right passwords included. */
  AUTH_LOGINS_PER_MINUTE: integer(10, 1, 10_000),
  /** A younger session mints keys and removes withdrawal addresses without the password. */
  AUTH_FRESH_SESSION_SECS: integer(300, 0, 604_800),
  /** Largest difference of a signed timestamp, either side. */
  AUTH_HMAC_TOLERANCE_SECS: integer(30, 1, 300),
  /** Wait before a key that an operator made or approved works. */
  AUTH_OPERATOR_KEY_DELAY_SECS: integer(86_400, 0, 2_592_000),
  /**
   * A change that widens what a credential may do waits this long, so that its owner can cancel it.
   * It takes effect by comparing an instant with the clock. No job applies it.
   */
  AUTH_SECURITY_DELAY_SECS: integer(86_400, 0, 2_592_000),
  /** `off`: a withdraw key that pays only listed addresses needs the operator, as others do. */
  AUTH_LISTED_KEYS: z.enum(["on", "off"]).default("on"),
  /** Accounts that an IPv4 address or IPv6 /48 registers in 24 hours. */
  AUTH_DAILY_REGISTRATIONS: integer(20, 1, 100_000),
  /** API keys that one user mints in a day (UTC). */
  AUTH_DAILY_API_KEYS: integer(100, 1, 10_000),
  /**
   * `on` in wrangler.toml: use the bindings RATE_*, whose `namespace_id`s no other Worker of the
   * account may use.
   */
  RATE_LIMITS: z.enum(["on", "off"]).default("off"),
  /**
   * Origins that browsers may call from, comma-separated. Stays empty unless a page of yours calls.
   */
  CORS_ORIGINS: z
    .string()
    .default("")
    .transform(itemsOf)
    .pipe(z.array(z.string().regex(/^https?:\/\/[^/\s]+$/)).max(32)),
  /** One in this many successful requests is logged, 1 for all. Failed ones always are. */
  LOG_SUCCESS_ONE_IN: integer(100, 1, 1_000_000),
  /** A request that took at least this long, in milliseconds, is always logged. */
  LOG_SLOW_MS: integer(1_000, 0, 60_000),
  /** https. Receives account notices from cron, for mail. Empty: they are not delivered. */
  NOTICE_URL: receiverUrl,
  /**
   * Sign the notices: `["whsec_…"]`, two while you change it, newest first. No other receiver may
   * know them.
   */
  NOTICE_SECRETS: json(WebhookSecrets).default([]),
  /** `on`: webhooks may be at loopback addresses, without TLS. For local stacks. */
  WEBHOOK_LOOPBACK: z.enum(["on", "off"]).default("off"),
  /** The bearer token of GET /metrics. Empty: 404, and nothing is counted. */
  METRICS_TOKEN: z.union([z.literal(""), z.string().min(32)]).default(""),
  /**
   * https. Receives alerts from cron. Slack's is itself a secret. Empty (`{}`): nobody is called.
   */
  ALERT_URL: receiverUrl,
  /** The form in which ALERT_URL takes them: ours, Events v2 of PagerDuty, or of Slack. */
  ALERT_FORMAT: z.enum(["webhook", "pagerduty", "slack"]).default("webhook"),
  /**
   * Sign alerts as NOTICE_SECRETS do, or `["<integration key>"]` of PagerDuty. Slack takes none.
   */
  ALERT_SECRETS: json(z.array(z.string().min(1)).max(2)).default([]),
  /**
   * https. Called each minute while all parts are well. Whoever has it can pretend that they are.
   */
  HEARTBEAT_URL: receiverUrl,
  /** The text of /.well-known/security.txt (RFC 9116). Empty: 404. */
  SECURITY_TXT: z.string().max(4_096).default(""),
  CHAINS: json(z.array(Chain)),
  VENUES: json(z.array(VenueSetting).max(MAX_VENUES)),
  /** `on`: requests are only for assets that the operator has listed. */
  RFQ_LISTED_ONLY: z.enum(["on", "off"]).default("off"),
  /**
   * How long two operators can correct the result of a paired market before it is paid. 0 in local
   * stacks.
   */
  SETTLE_DELAY_SECS: integer(3_600, 0, 604_800),
  /** Open requests of one user. */
  RFQ_OPEN_REQUESTS_PER_USER: integer(200, 1, 10_000),
  /** Open quotes of one user, over all books. */
  RFQ_OPEN_QUOTES_PER_USER: integer(1_000, 1, 10_000),
  /** Requests of one user in a day (UTC). */
  RFQ_DAILY_REQUESTS: integer(10_000, 1, 10_000_000),
  /** Unanswered commands of one socket. Beyond it they would only delay those of others: 429. */
  RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET: integer(8, 1, 1_000),
  /** Unanswered commands of one user in one book. */
  RFQ_COMMANDS_IN_FLIGHT_PER_USER: integer(16, 1, 1_000),
  /** How long a book waits for more commands to commit. */
  RFQ_GROUP_WAIT_MS: integer(2, 0, 50),
  /** A command that has waited longer than this since it was received is not carried out. */
  RFQ_COMMAND_MAX_WAIT_MS: integer(2_000, 100, 60_000),
  /**
   * Where objects are created: the location of D1. Empty: near their first caller (near.ts). Never
   * change it after the first deployment.
   */
  BOOK_LOCATION: z.enum(["", "wnam", "enam", "weur", "eeur", "apac", "oc"]).default(""),
  /**
   * Where objects must stay. Never change it: the same name in another jurisdiction is another
   * object.
   */
  JURISDICTION: z.enum(["", "eu", "fedramp"]).default(""),
  /** Most quotes in one commit group. Of other commands it contains a quarter as many. */
  RFQ_GROUP_MAX_OPERATIONS: integer(256, 1, 256),
  /** Open sockets of one user, over all streams. */
  STREAM_SOCKETS_PER_USER: integer(20, 1, 1_000),
  /** D1 allows 10 GB on a paid plan, 500 MB on the free one. */
  STORAGE_LIMIT_MB: integer(10_000, 1, PLATFORM.database / 1_000_000),
  /**
   * Shortens the windows of the archive (windows.ts), on which clients rely. Above 1 only in tests.
   */
  HOT_WINDOWS_DIVISOR: integer(1, 1, 3_600),
  /** `off`: sealed data stays in D1, which grows. A brake while the archive is in doubt. */
  JOURNAL_RELEASE: z.enum(["on", "off"]).default("on"),
  /** Websocket tickets of one user in a day (UTC). */
  STREAM_DAILY_TICKETS: integer(5_000, 1, 1_000_000),
  /** Deposit addresses of one user in a day (UTC). */
  DEPOSIT_DAILY_ADDRESSES: integer(10, 1, 1_000),
  /** Smallest withdrawal. 1 in local stacks. */
  WITHDRAWAL_MIN_UNITS: nativeUnits(1_000_000n),
  /** Largest withdrawal. The vault's limits hold as well. */
  WITHDRAWAL_MAX_UNITS: nativeUnits(MAX_NATIVE_UNITS),
  /** Withdrawals of one user in 24 hours, failed ones included. */
  WITHDRAWAL_DAILY_COUNT: integer(100, 1, 100_000),
  /**
   * What operators' signatures and the audit log's seals name. It has no default, because two
   * deployments with one name would accept each other's orders. Never change it: earlier signatures
   * would not verify.
   */
  DEPLOYMENT: z
    .string()
    .default("")
    .refine(
      (name) => /^[a-z0-9][a-z0-9._-]{0,63}$/.test(name),
      "must name this deployment and no other, for example acme-production",
    ),
  /** Of deploy.<env>.json, for the commands that alerts name. `npm run deploy` sets it. */
  DEPLOY_ENV: z
    .string()
    .regex(/^([a-z][a-z0-9-]{0,31})?$/)
    .default(""),
  /** Public keys of operators (Ed25519, base64url) by name. */
  OPERATORS: json(
    z.record(z.string().regex(/^[A-Za-z0-9._@-]{1,64}$/), z.string().regex(/^[\w-]{43}$/)),
  )
    .default({})
    .refine(
      (keys) => new Set(Object.values(keys)).size === Object.keys(keys).length,
      "must not name one key twice",
    ),
  /** With 2, orders that widen rights or end a safety stop need a second operator. */
  OPERATOR_APPROVALS: integer(1, 1, 2),
  /** Ed25519 seeds (base64url of 32 bytes) that sign the audit log and the terms of withdrawals. */
  AUDIT_KEYS: SecretRing.refine(
    (ring) => Object.values(ring).every((seed) => /^[\w-]{43}$/.test(seed)),
    "must contain seeds of 32 bytes, base64url",
  ),
  /** Sign sessions: `{ "<id>": "…" }`, newest first, as other rings. */
  SESSION_SECRETS: SecretRing,
  /** Encrypt the secrets of API keys and TOTP. */
  MASTER_KEYS: SecretRing,
  /** Derives deposit addresses and payment ids, marks key ids. Never change it. */
  ADDRESS_KEY: z.string().min(32),
  /** Private keys of the operator accounts, by chain: `{ "<chain>": "0x…" }`. */
  PAYER_KEYS: json(z.record(z.string(), z.string().regex(/^0x[0-9a-fA-F]{64}$/))).default({}),
  /** Instead of a key: remote signers (eth_signTransaction over JSON-RPC), by chain. */
  PAYER_SIGNERS: json(z.record(z.string(), Signer)).default({}),
  /** `{ "<chain>": { "<header>": "<value>" } }`: values of the headers that PAYER_SIGNERS names. */
  PAYER_SIGNER_HEADERS: json(z.record(z.string(), z.record(headerName, z.string().min(1)))).default(
    {},
  ),
  /**
   * `{ "<chain>": ["https://…"] }`: RPC URLs that replace those of CHAINS. At least two, of
   * different providers.
   */
  RPC_URLS: json(z.record(z.string(), z.array(z.url()).min(1))).default({}),
});

export type Config = z.infer<typeof Settings>;
export type VenueSettings = Config["VENUES"][number];
export type ChainConfig = Config["CHAINS"][number];

/** A deployment with a larger setting fails with nothing but the number of an error. */
function checkSizes(env: object): void {
  for (const name of Object.keys(Settings.shape)) {
    const value: unknown = Reflect.get(env, name);
    const bytes = typeof value === "string" ? new TextEncoder().encode(value).length : 0;
    if (bytes > PLATFORM.settingBytes)
      throw new SettingsError(
        `${name} has ${bytes} bytes, and at most ${PLATFORM.settingBytes} fit`,
        [name],
      );
  }
}

const parsed = new WeakMap<object, Config>();

export function config(env: object): Config {
  const known = parsed.get(env);
  if (known !== undefined) return known;
  checkSizes(env);
  const { error, data } = Settings.safeParse(env);
  if (error !== undefined) {
    // Report only paths and our own messages, because zod's messages may quote a secret's value.
    const errors = error.issues.map(
      ({ code, path, message }) => `${path.join(".")}: ${code === "custom" ? message : code}`,
    );
    const names = new Set(error.issues.map(({ path }) => String(path[0])));
    throw new SettingsError(errors.join("; "), [...names]);
  }
  const settings = checkTables(withSecretUrls(data));
  parsed.set(env, settings);
  return settings;
}

/** `copy` has the settings of `env`, so they are not parsed again. */
export function withSettingsOf<Copy extends object>(env: object, copy: Copy): Copy {
  parsed.set(copy, config(env));
  return copy;
}

export function defaultChain(settings: Config): ChainConfig {
  const chain = settings.CHAINS.find((candidate) => candidate.default) ?? settings.CHAINS[0];
  if (chain === undefined) throw new SettingsError("CHAINS is empty");
  return chain;
}

/** The number of endpoints that must agree on confirmed blocks: two if two are configured. */
export function witnessesOf(chain: { readonly rpc_urls: readonly string[] }): 1 | 2 {
  return chain.rpc_urls.length >= 2 ? 2 : 1;
}

/** The chain's vault and the ones that it took over from. */
export function vaultsOf(chain: ChainConfig): readonly string[] {
  return [chain.vault, ...chain.previous_vaults];
}

export function venueConfig(settings: Config, venue: string) {
  const found = settings.VENUES.find((candidate) => candidate.venue_id === venue);
  if (found === undefined) throw new SettingsError(`VENUES does not contain ${venue}`);
  return found;
}

/** Venues whose tokens exist in this service only. */
export function chainlessVenues({ VENUES }: Pick<Config, "VENUES">): ReadonlySet<string> {
  return new Set(VENUES.flatMap(({ chain, venue_id }) => (chain === undefined ? [venue_id] : [])));
}

/** The smallest deposit of an asset that is credited on its own. USDC has no venue. */
export function minDepositOf(settings: Config, chain: ChainConfig, venue: string | null): number {
  return venue === null ? chain.min_deposit : venueConfig(settings, venue).min_deposit;
}

function withSecretUrls(settings: Config): Config {
  const chains = settings.CHAINS.map((chain) => ({
    ...chain,
    rpc_urls: settings.RPC_URLS[chain.chain] ?? chain.rpc_urls,
  }));
  return { ...settings, CHAINS: chains };
}
