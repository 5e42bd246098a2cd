/** Searches every file that a stack leaves for the secrets that its users used. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  fund,
  newAsset,
  newTrader,
  withdrawalClient,
  startTestStack,
  type TestStack,
} from "../support/node/stack.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  await stack?.stop();
});

/** The stack keeps its settings for `--keep` in this file, which only its owner can read. */
const KEPT = "local.json";
/** Its purpose is to hold the operators' keys. Only its owner can read it. */
const OPERATOR = "operator.json";

it("no log or database file contains a secret in clear text", async () => {
  const trader = await newTrader(stack);
  const secrets = new Set<string>([trader.password]);
  const session = await trader.session.auth.login({
    email: trader.email,
    password: trader.password,
  });
  secrets.add(session.access_token);
  const key = await trader.session.auth.createApiKey({ label: "grep", scopes: ["read", "trade"] });
  secrets.add(key.secret);
  const client = trader.session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  secrets.add((await client.auth.wsTicket()).ticket);
  const asset = newAsset();
  await fund(stack, [{ trader, usdc: 1_000n }]);
  await client.rfq.request({ ...asset, amount: 10n, side: "Bid" });
  const { ticket } = await client.auth.wsTicket();
  await fetch(`${stack.baseUrl}/rfq/stream?ticket=${ticket}&venue_id=venue_one`);
  await trader.session.auth
    .login({ email: trader.email, password: `wrong-${trader.password}` })
    .catch(() => {});
  const paying = await withdrawalClient(stack, trader);
  await paying.custody.withdraw({
    client_withdrawal_id: "grep",
    amount: 10n,
    to_address: "0x000000000000000000000000000000000000dEaD",
  });
  const kept: unknown = JSON.parse(readFileSync(join(stack.dir, KEPT), "utf8"));
  for (const text of textsIn(kept))
    if (text.length >= 32 && !/^0x[0-9a-fA-F]{40}$/.test(text))
      secrets.add(text.replace(/^0x/, ""));
  expect(secrets.size).toBeGreaterThan(6);
  expect(statSync(join(stack.dir, OPERATOR)).mode & 0o077).toBe(0);

  const files = filesBelow(stack.dir).filter(
    (file) => !file.endsWith(KEPT) && !file.endsWith(OPERATOR) && !file.includes("bundle"),
  );
  expect(files.some((file) => file.endsWith(".sqlite"))).toBe(true);
  for (const file of files) {
    const bytes = readFileSync(file).toString("latin1");
    for (const secret of secrets)
      expect(
        bytes.includes(secret),
        `${file} contains a secret that begins ${secret.slice(0, 4)}`,
      ).toBe(false);
  }
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

/** Every string in a JSON value, including those in strings that contain JSON. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") {
    try {
      const inner: unknown = JSON.parse(value);
      if (typeof inner === "object" && inner !== null) return textsIn(inner);
    } catch {
      // Not JSON.
    }
    return [value];
  }
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
