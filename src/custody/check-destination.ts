import type { AssetKey } from "../assets/asset.ts";
import { readAssetKey } from "../assets/asset.ts";
import { type ChainConfig, type Config, defaultChain, venueConfig } from "../platform/config.ts";
import { invalidRequest, problem } from "../platform/problem.ts";
import { blob, first, sql } from "../platform/sql.ts";

const ZERO_ADDRESS = `0x${"0".repeat(40)}`;

export function chainNamed(settings: Config, name: string | undefined): ChainConfig {
  if (name === undefined) return defaultChain(settings);
  const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
  if (chain === undefined)
    throw problem(
      "chain_unknown",
      "This deployment does not serve that chain. GET /config lists those it does.",
    );
  return chain;
}

/** USDC leaves on the chain that is named, or the default one; an outcome token on its venue's chain only. */
export function withdrawalChain(
  settings: Config,
  asset: AssetKey,
  named: string | undefined,
): ChainConfig {
  const token = readAssetKey(asset);
  if (token === null) return chainNamed(settings, named);
  const home = chainNamed(settings, venueConfig(settings, token.venue).chain);
  if (named !== undefined && chainNamed(settings, named) !== home) {
    throw invalidRequest([
      { path: "body.chain", message: `outcome tokens of ${token.venue} live on ${home.chain}` },
    ]);
  }
  return home;
}

/** Money sent to one of our own contracts or deposit addresses would come back in, or never: 400. */
export async function checkDestination(
  db: D1Database,
  settings: Config,
  toAddress: string,
): Promise<void> {
  const ours = settings.CHAINS.flatMap((chain) => [chain.vault, chain.factory, chain.usdc]);
  const tokens = settings.VENUES.map((venue) => venue.outcome_tokens);
  const to = toAddress.toLowerCase();
  if (to === ZERO_ADDRESS) throw refused("is the zero address");
  if ([...ours, ...tokens].some((address) => address.toLowerCase() === to))
    throw refused("is one of the service's own contracts");
  const chains = JSON.stringify(settings.CHAINS.map((chain) => chain.chain));
  const deposit = await first(
    db,
    sql`SELECT 1 FROM json_each(${chains}) c CROSS JOIN deposit_addresses a ON a.chain = c.value AND a.address = ${blob(toAddress)} LIMIT 1`,
  );
  if (deposit !== undefined) throw refused("is a deposit address of this service");
}

function refused(message: string) {
  return invalidRequest([{ path: "body.to_address", message }]);
}
