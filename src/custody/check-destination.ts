/** Checks the chain and the destination of a withdrawal before it is queued. */
import { checksumAddress } from "../assets/address.ts";
import { type AssetKey, readAssetKey } from "../assets/asset.ts";
import { forwarderAddress } from "../chain/addresses.ts";
import { payerAddresses } from "../chain/payer-account.ts";
import {
  type ChainConfig,
  type Config,
  defaultChain,
  vaultsOf,
  venueConfig,
} from "../platform/config.ts";
import { invalidRequest, problem } from "../platform/problem.ts";
import { blob, type Expr, expr, listed } from "../platform/sql.ts";

const ZERO_ADDRESS = `0x${"0".repeat(40)}`;

export function chainNamed(settings: Config, name: string | undefined): ChainConfig {
  if (name === undefined) return defaultChain(settings);
  const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
  if (chain === undefined)
    throw problem(
      "chain_unknown",
      "This deployment does not serve that chain. GET /config lists its chains.",
    );
  return chain;
}

/** The chain that pays: for USDC the named or default one, for an outcome token its venue's. */
export function withdrawalChain(
  settings: Config,
  asset: AssetKey,
  named: string | undefined,
): ChainConfig {
  const token = readAssetKey(asset);
  if (token === null) return chainNamed(settings, named);
  const { chain: ofVenue } = venueConfig(settings, token.venue);
  if (ofVenue === undefined) {
    const message = `${token.venue} has no chain. Redeem its tokens (POST /custody/redeem)`;
    throw invalidRequest([{ path: "body.venue_id", message }]);
  }
  const home = chainNamed(settings, ofVenue);
  if (named !== undefined && chainNamed(settings, named) !== home) {
    const message = `must be ${home.chain}, the chain of ${token.venue}, or omitted`;
    throw invalidRequest([{ path: "body.chain", message }]);
  }
  return home;
}

/** Rejects our own public contracts and accounts, where funds would be credited again or lost. */
export function checkDestination(settings: Config, toAddress: string): void {
  const ours = settings.CHAINS.flatMap((chain) => [
    ...vaultsOf(chain),
    chain.factory,
    forwarderAddress(checksumAddress(chain.factory)),
    chain.usdc,
  ]);
  const tokens = settings.VENUES.flatMap(({ outcome_tokens: token }) => token ?? []);
  const to = toAddress.toLowerCase();
  if (payerAddresses(settings).some((address) => address.toLowerCase() === to))
    throw invalidDestination("must not be an account of this service");
  if (to === ZERO_ADDRESS) throw invalidDestination("must not be the zero address");
  if ([...ours, ...tokens].some((address) => address.toLowerCase() === to))
    throw invalidDestination("must not be a contract of this service");
}

/** Whether the address is a deposit address on one of the deployment's chains. */
export function isDepositAddress({ CHAINS }: Pick<Config, "CHAINS">, address: string): Expr {
  const chains = listed(CHAINS.map(({ chain }) => chain));
  return expr`EXISTS (SELECT 1 FROM deposit_addresses
    WHERE chain IN (${chains}) AND address = ${blob(address)})`;
}

function invalidDestination(message: string) {
  return invalidRequest([{ path: "body.to_address", message }]);
}
