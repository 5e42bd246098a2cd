/** The secrets of a new deployment, in a file that only its owner reads. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { privateKeyToAddress } from "viem/accounts";
import type { Hex } from "viem";
import type { DeploySettings } from "./settings.ts";

export type Secrets = Record<string, string>;

/** A secret that no file has is empty. */
const EMPTY: Secrets = {
  ALERT_URL: "{}",
  HEARTBEAT_URL: "{}",
  PAYER_SIGNER_HEADERS: "{}",
  RPC_URLS: "{}",
};

export function readSecrets(path: string): Secrets {
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Secrets) : {};
}

/** The file has the secrets of before, or all of these. A kill leaves no half of one. */
export function writeSecrets(path: string, secrets: Secrets): void {
  const next = `${path}.next`;
  writeFileSync(next, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  renameSync(next, path);
}

/** Values of the given secrets, of which those of `known` stay as they are. */
export function completed(
  names: readonly string[],
  known: Secrets,
  settings: DeploySettings,
): Secrets {
  const key = () => randomBytes(32).toString("base64url");
  const ring = (id: string) => JSON.stringify({ [id]: key() });
  const webhook = () => JSON.stringify([`whsec_${randomBytes(32).toString("base64")}`]);
  const signers = JSON.parse(settings.vars["PAYER_SIGNERS"] ?? "{}") as object;
  const payers = settings.chains.filter(({ chain }) => !(chain in signers));
  const made: Secrets = {
    ...EMPTY,
    SESSION_SECRETS: ring("s1"),
    MASTER_KEYS: ring("m1"),
    AUDIT_KEYS: ring("a1"),
    ADDRESS_KEY: key(),
    METRICS_TOKEN: key(),
    NOTICE_SECRETS: webhook(),
    ALERT_SECRETS: webhook(),
    PAYER_KEYS: JSON.stringify(
      Object.fromEntries(
        payers.map(({ chain }) => [chain, `0x${randomBytes(32).toString("hex")}`]),
      ),
    ),
  };
  const values = { ...made, ...known, OPERATORS: JSON.stringify(settings.operators) };
  return Object.fromEntries(
    names.map((name) => {
      const value = Reflect.get(values, name) as string | undefined;
      if (value === undefined) throw new Error(`add ${name} to the file of secrets`);
      return [name, value];
    }),
  );
}

/** The operator account of each chain whose key is in the file. */
export function payersOf({ PAYER_KEYS = "{}" }: Secrets): [chain: string, address: string][] {
  const keys = JSON.parse(PAYER_KEYS) as Record<string, Hex>;
  return Object.entries(keys).map(([chain, key]) => [chain, privateKeyToAddress(key)]);
}
