/** The checks of settings that no single one of them fails. */
import type { Config } from "./config.ts";
import { WebhookSecrets } from "./receivers.ts";

/** The message is for the log, because it may name an RPC provider. Anybody may read the names. */
export class SettingsError extends Error {
  readonly names: readonly string[];
  constructor(reason: string, names: readonly string[]) {
    super(`Settings are not valid: ${reason}`);
    this.names = names;
  }
}

export function invalid(reason: string, names: readonly string[] = ["CHAINS", "VENUES"]): Error {
  return new SettingsError(reason, names);
}

/**
 * Host, port and path of a URL. Its user and query are credentials, which make no other endpoint.
 */
function endpointOf(url: string): string {
  const { hostname, port, pathname } = new URL(url);
  const host = hostname.replace(/\.$/, "") + (port === "" ? "" : `:${port}`);
  return host + pathname.replace(/\/*$/, "/");
}

export function checkTables(settings: Config): Config {
  const chains = new Set(settings.CHAINS.map((chain) => chain.chain));
  if (chains.size !== settings.CHAINS.length)
    throw invalid("CHAINS contains two chains of the same name");
  if (new Set(settings.VENUES.map((venue) => venue.venue_id)).size !== settings.VENUES.length)
    throw invalid("VENUES contains two venues of the same id");
  for (const venue of settings.VENUES) {
    if (!chains.has(venue.chain))
      throw invalid(`VENUES assigns ${venue.venue_id} to an unknown chain`);
  }
  for (const chain of Object.keys(settings.RPC_URLS)) {
    if (!chains.has(chain)) throw invalid(`RPC_URLS has an unknown chain ${chain}`);
  }
  for (const [chain, { headers }] of Object.entries(settings.PAYER_SIGNERS)) {
    const missing = headers.find((name) => !(name in (settings.PAYER_SIGNER_HEADERS[chain] ?? {})));
    if (missing !== undefined) throw invalid(`PAYER_SIGNER_HEADERS has no ${missing} for ${chain}`);
  }
  for (const { chain, rpc_urls } of settings.CHAINS) {
    if (rpc_urls.length === 0) throw invalid(`CHAINS and RPC_URLS have no URL for ${chain}`);
    const twice = rpc_urls.map(endpointOf).find((one, index, all) => all.indexOf(one) !== index);
    if (twice !== undefined)
      throw invalid(
        `the RPC URLs of ${chain} name one endpoint of ` +
          `${twice.slice(0, twice.indexOf("/"))} twice, but endpoints are each other's witnesses`,
      );
  }
  checkAlertSecrets(settings);
  if (settings.NOTICE_URL !== "" && settings.NOTICE_SECRETS.length === 0)
    throw invalid("NOTICE_URL is set without NOTICE_SECRETS, which sign what it gets");
  for (const { chain, min_tip_gwei = 0, max_tip_gwei } of settings.CHAINS) {
    // Else no replacement could raise the tip.
    if (max_tip_gwei < 2 * min_tip_gwei)
      throw invalid(`max_tip_gwei of ${chain} is less than twice its min_tip_gwei`);
  }
  return settings;
}

function checkAlertSecrets({ ALERT_URL, ALERT_FORMAT, ALERT_SECRETS }: Config): void {
  if (ALERT_URL === "") return;
  const fits = {
    webhook: ALERT_SECRETS.length > 0 && WebhookSecrets.safeParse(ALERT_SECRETS).success,
    pagerduty: ALERT_SECRETS.length === 1 && /^[A-Za-z0-9]{32}$/.test(ALERT_SECRETS.join("")),
    slack: ALERT_SECRETS.length === 0,
  };
  if (!fits[ALERT_FORMAT])
    throw invalid(`ALERT_SECRETS must contain ${NEEDED_SECRETS[ALERT_FORMAT]}`);
}

const NEEDED_SECRETS = {
  webhook: "one or two whsec_ with 24 to 64 bytes in Base64",
  pagerduty: "one integration key of 32 letters and digits",
  slack: "nothing, because ALERT_URL is Slack's secret",
};
