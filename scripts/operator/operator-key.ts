/**
 * The keys with which operators sign their orders. Those of deployed services are files of mode 600
 * in the operator's configuration folder, one for each name.
 */
import { createPublicKey, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

export type OperatorKey = {
  /** As in the secret OPERATORS. */
  name: string;
  /** The setting DEPLOYMENT of the service that the key is for. */
  deployment: string;
  /** PKCS #8, base64url. */
  private_key: string;
};

const NAME = /^[A-Za-z0-9._@-]{1,64}$/;

export function newPrivateKey(): string {
  const { privateKey } = generateKeyPairSync("ed25519");
  return privateKey.export({ format: "der", type: "pkcs8" }).toString("base64url");
}

/** The public half as OPERATORS has it: 32 bytes, base64url. */
export function publicHalf(privateKey: string): string {
  const { x } = createPublicKey(privateKeyOf(privateKey)).export({ format: "jwk" });
  if (x === undefined) throw new Error("The key is no Ed25519 key.");
  return x;
}

export function privateKeyOf(privateKey: string) {
  return createPrivateKey({
    key: Buffer.from(privateKey, "base64url"),
    format: "der",
    type: "pkcs8",
  });
}

function folder(): string {
  const base = process.env["XDG_CONFIG_HOME"] || join(homedir(), ".config");
  return join(base, "rfq-custody", "operators");
}

/** Makes a key and its file. Throws if the name has one, because it may be deployed. */
export function createOperatorKey(name: string, deployment: string): Record<string, string> {
  if (!NAME.test(name)) throw new Error("--name must be 1 to 64 letters, digits or . _ @ -");
  const path = join(folder(), `${name}.json`);
  if (existsSync(path)) throw new Error(`${path} exists. Remove it first to make another key.`);
  mkdirSync(folder(), { recursive: true, mode: 0o700 });
  const key: OperatorKey = { name, deployment, private_key: newPrivateKey() };
  writeFileSync(path, `${JSON.stringify(key, null, 2)}\n`, { mode: 0o600, flag: "wx" });
  const half = publicHalf(key.private_key);
  return {
    file: path,
    public_key: half,
    next: `Add ${JSON.stringify({ [name]: half })} to the secret OPERATORS and deploy it.`,
  };
}

/** The key of this name, or the only one. */
export function readOperatorKey(name: string | undefined): OperatorKey {
  const names = existsSync(folder())
    ? readdirSync(folder()).flatMap((file) => (file.endsWith(".json") ? [file.slice(0, -5)] : []))
    : [];
  const chosen = name ?? (names.length === 1 ? names[0] : undefined);
  if (chosen === undefined || !names.includes(chosen))
    throw new Error(
      names.length === 0
        ? "There is no operator's key here. Make one: npm run operator -- key create --name <you>"
        : `Name one of these keys with --operator: ${names.join(", ")}`,
    );
  return JSON.parse(readFileSync(join(folder(), `${chosen}.json`), "utf8")) as OperatorKey;
}
