/** Objects of a bucket, by the calls of `wrangler r2 object`, without a process for each. */
import { setTimeout as sleep } from "node:timers/promises";
import type { DeploySettings } from "./settings.ts";
import type { Wrangler } from "./wrangler.ts";

/** Reads an object, or writes it if there are bytes. Undefined: it does not exist. */
export type CallObject = (key: string, bytes?: Uint8Array) => Promise<Uint8Array | undefined>;

const API = "https://api.cloudflare.com/client/v4";
/** Of 429, because too many calls came from this login, and of failures of the server. */
const MAX_TRIES = 8;
const PAUSE_MS = 500;

/** Uses wrangler's login, and the account of the settings or the only one. */
export async function objectCaller(
  wrangler: Wrangler,
  bucket: string,
  { account_id: accountId, jurisdiction }: DeploySettings,
): Promise<CallObject> {
  const { token } = JSON.parse((await wrangler.must(["auth", "token", "--json"])).stdout) as {
    token: string;
  };
  const account = accountId ?? (await onlyAccount(wrangler));
  const base = process.env["CLOUDFLARE_API_BASE_URL"] ?? API;
  const objects = `${base}/accounts/${account}/r2/buckets/${bucket}/objects`;
  return async (key, bytes) => {
    for (let tries = 1; ; tries++) {
      const response = await fetch(`${objects}/${key}`, {
        ...(bytes && { method: "PUT", body: Buffer.from(bytes) }),
        headers: {
          authorization: `Bearer ${token}`,
          ...(jurisdiction && { "cf-r2-jurisdiction": jurisdiction }),
        },
      });
      if (response.ok) return new Uint8Array(await response.arrayBuffer());
      if (response.status === 404 && bytes === undefined) return undefined;
      const mayPass = response.status === 429 || response.status >= 500;
      if (!mayPass || tries === MAX_TRIES)
        throw new Error(`${bucket}/${key}: ${response.status} ${await response.text()}`);
      const asked = Number(response.headers.get("retry-after")) * 1_000;
      await sleep(asked > 0 ? asked : PAUSE_MS * 2 ** tries);
    }
  };
}

async function onlyAccount(wrangler: Wrangler): Promise<string> {
  const given = process.env["CLOUDFLARE_ACCOUNT_ID"];
  if (given !== undefined) return given;
  const { stdout } = await wrangler.must(["whoami", "--json"]);
  const { accounts } = JSON.parse(stdout) as { accounts: { id: string }[] };
  const [one, other] = accounts;
  if (one === undefined || other !== undefined)
    throw new Error("This login has several accounts: set account_id in deploy.<env>.json");
  return one.id;
}
