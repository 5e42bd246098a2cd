/** Settings and secrets of a local Worker. The secrets are random; a kept directory keeps them. */
import { randomBytes } from "node:crypto";
import { privateKeyToAddress } from "viem/accounts";
import type { Address, Hex } from "viem";
import { newPrivateKey, type OperatorKey, publicHalf } from "../operator/operator-key.ts";
import type { Deployment } from "./deploy-contracts.ts";
import { CHAINLESS_VENUE } from "./local-venues.ts";

export const LOCAL_CHAIN = "local";
const DEPLOYMENT = "local";
/** Two, to try approvals: npm run dev -- --set OPERATOR_APPROVALS=2 */
const OPERATORS = ["local", "local-2"];

/** Two are enough, because a local chain has no reorganisations of its own. */
const CONFIRMATIONS = 2;
const POLL_MS = 400;

export type LocalSecrets = {
  sessionSecret: string;
  masterKey: string;
  auditKey: string;
  addressKey: string;
  payerKey: Hex;
  operators: OperatorKey[];
};

export function makeSecrets(): LocalSecrets {
  const text = () => randomBytes(32).toString("base64url");
  return {
    sessionSecret: text(),
    masterKey: text(),
    auditKey: text(),
    addressKey: text(),
    payerKey: `0x${randomBytes(32).toString("hex")}`,
    operators: OPERATORS.map((name) => ({
      name,
      deployment: DEPLOYMENT,
      private_key: newPrivateKey(),
    })),
  };
}

export function payerAddress(secrets: LocalSecrets): Address {
  return privateKeyToAddress(secrets.payerKey);
}

/** The settings of the Worker. They override the `[vars]` of wrangler.toml. */
export function localSettings(input: {
  secrets: LocalSecrets;
  deployment: Deployment;
  rpcUrl: string;
}): Record<string, string> {
  const { secrets, deployment, rpcUrl } = input;
  const chain = {
    chain: LOCAL_CHAIN,
    chain_id: deployment.chainId,
    rpc_urls: [rpcUrl],
    factory: deployment.factory,
    vault: deployment.vault,
    usdc: deployment.usdc,
    confirmations: CONFIRMATIONS,
    poll_ms: POLL_MS,
    start_block: Number(deployment.deployedAtBlock),
    replace_after_secs: 20,
    min_sweep: 1,
    default: true,
  };
  const venues = Object.entries(deployment.outcomeTokens).map(([venue_id, outcome_tokens]) => ({
    venue_id,
    chain: LOCAL_CHAIN,
    outcome_tokens,
    min_request: 1,
  }));
  return {
    WEBHOOK_LOOPBACK: "on",
    AUTH_REGISTRATION: "open",
    AUTH_DAILY_REGISTRATIONS: "1000",
    AUTH_LOGINS_PER_MINUTE: "10000",
    AUTH_OPERATOR_KEY_DELAY_SECS: "0",
    AUTH_SECURITY_DELAY_SECS: "0",
    WITHDRAWAL_MIN_UNITS: "1",
    CHAINS: JSON.stringify([chain]),
    VENUES: JSON.stringify([...venues, { venue_id: CHAINLESS_VENUE }]),
    SETTLE_DELAY_SECS: "0",
    DEPLOYMENT,
    OPERATORS: JSON.stringify(
      Object.fromEntries(
        secrets.operators.map(({ name, private_key }) => [name, publicHalf(private_key)]),
      ),
    ),
    SESSION_SECRETS: JSON.stringify({ s1: secrets.sessionSecret }),
    MASTER_KEYS: JSON.stringify({ m1: secrets.masterKey }),
    AUDIT_KEYS: JSON.stringify({ a1: secrets.auditKey }),
    ADDRESS_KEY: secrets.addressKey,
    PAYER_KEYS: JSON.stringify({ [LOCAL_CHAIN]: secrets.payerKey }),
  };
}
