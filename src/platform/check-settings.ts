/** The checks of settings that no single one of them fails. */
import type { Config } from "./config.ts";
import { WebhookSecrets } from "./receivers.ts";

/** The message is for the log, because it may name an RPC provider. Anybody may read the names. */
export class SettingsError extends Error {
  readonly names: readonly string[];
  constructor(reason: string, names: readonly string[] = ["CHAINS", "VENUES"]) {
    super(`Settings are not valid: ${reason}`);
    this.names = names;
  }
}

/** Host, port and path of a URL. Its user and query are credentials of the same endpoint. */
function endpointOf(url: string): string {
  const { hostname, port, pathname } = new URL(url);
  const host = hostname.replace(/\.$/, "") + (port === "" ? "" : `:${port}`);
  return host + pathname.replace(/\/*$/, "/");
}

export function checkTables(settings: Config): Config {
  const chains = new Set(settings.CHAINS.map((chain) => chain.chain));
  if (chains.size !== settings.CHAINS.length)
    throw new SettingsError("CHAINS contains two chains of the same name");
  if (new Set(settings.VENUES.map((venue) => venue.venue_id)).size !== settings.VENUES.length)
    throw new SettingsError("VENUES contains two venues of the same id");
  for (const venue of settings.VENUES) {
    if ((venue.chain === undefined) !== (venue.outcome_tokens === undefined))
      throw new SettingsError(`${venue.venue_id} has only one of chain and outcome_tokens`);
    if (venue.chain === undefined && venue.collateral !== undefined)
      throw new SettingsError(`${venue.venue_id} has a collateral and no chain`);
    if (venue.collateral === undefined && venue.float_account !== undefined)
      throw new SettingsError(`${venue.venue_id} has a float_account and no collateral`);
    if (venue.chain !== undefined && !chains.has(venue.chain))
      throw new SettingsError(`VENUES assigns ${venue.venue_id} to an unknown chain`);
  }
  for (const chain of Object.keys(settings.RPC_URLS))
    if (!chains.has(chain)) throw new SettingsError(`RPC_URLS has an unknown chain ${chain}`);
  for (const [chain, { headers }] of Object.entries(settings.PAYER_SIGNERS)) {
    const missing = headers.find((name) => !(name in (settings.PAYER_SIGNER_HEADERS[chain] ?? {})));
    if (missing !== undefined)
      throw new SettingsError(`PAYER_SIGNER_HEADERS has no ${missing} for ${chain}`);
  }
  for (const { chain, rpc_urls } of settings.CHAINS) {
    if (rpc_urls.length === 0)
      throw new SettingsError(`CHAINS and RPC_URLS have no URL for ${chain}`);
    const twice = rpc_urls.map(endpointOf).find((one, index, all) => all.indexOf(one) !== index);
    if (twice !== undefined)
      throw new SettingsError(
        `the RPC URLs of ${chain} name one endpoint of ` +
          `${twice.slice(0, twice.indexOf("/"))} twice, but endpoints are each other's witnesses`,
      );
  }
  checkAlertSecrets(settings);
  if (settings.NOTICE_URL !== "" && settings.NOTICE_SECRETS.length === 0)
    throw new SettingsError("NOTICE_URL is set without NOTICE_SECRETS, which sign what it gets");
  for (const { chain, min_tip_gwei = 0, max_tip_gwei } of settings.CHAINS) {
    // A replacement must be able to raise the tip.
    if (max_tip_gwei < 2 * min_tip_gwei)
      throw new SettingsError(`max_tip_gwei of ${chain} is less than twice its min_tip_gwei`);
  }
  return settings;
}

function checkAlertSecrets({ ALERT_URL, ALERT_FORMAT, ALERT_SECRETS: secrets }: Config): void {
  if (ALERT_URL === "") return;
  const { needed, fits } = {
    webhook: {
      needed: "one or two whsec_ with 24 to 64 bytes in Base64",
      fits: secrets.length > 0 && WebhookSecrets.safeParse(secrets).success,
    },
    pagerduty: {
      needed: "one integration key of 32 letters and digits",
      fits: secrets.length === 1 && /^[A-Za-z0-9]{32}$/.test(secrets.join("")),
    },
    slack: { needed: "nothing, because ALERT_URL is Slack's secret", fits: secrets.length === 0 },
  }[ALERT_FORMAT];
  if (!fits) throw new SettingsError(`ALERT_SECRETS must contain ${needed}`);
}
