/** Makes the callers of a fuzz, and brings back those who have locked themselves out. */
import { randomBytes } from "node:crypto";
import type { Address } from "viem";
import { Client } from "../../packages/client/src/index.ts";
import type { Dice } from "../soak/dice.ts";
import { tokensOfVenue } from "../stack/deploy-contracts.ts";
import { openFaucet } from "../stack/faucet.ts";
import { verifyWhole } from "../operator/verify-whole.ts";
import type { OperatorRequest } from "../stack/operator-call.ts";
import type { Stack } from "../stack/start-stack.ts";
import { withdrawKey } from "../stack/withdraw-key.ts";
import type { Caller } from "./callers.ts";
import { BOOKS } from "./values.ts";

const FUNDS = 1_000_000_000_000n;
const CREDIT_MS = 60_000;

/** Users with funds of every asset, a session, and a key of all scopes. */
export async function makeCallers(stack: Stack, dice: Dice, count: number): Promise<Caller[]> {
  const faucet = await openFaucet({ rpcUrl: stack.rpcUrl, usdc: stack.deployment.usdc });
  const guest = new Client({ baseUrl: stack.baseUrl });
  const made: { caller: Caller; client: Client }[] = [];
  for (let index = 0; index < count; index++) {
    const email = `caller-${index}-${randomBytes(4).toString("hex")}@fuzz.example`;
    const password = randomBytes(12).toString("hex");
    const registered = await guest.auth.register({ email, password });
    const client = guest.withSession(registered);
    const { address } = await client.custody.createDepositAddress();
    // Safe cast: the service returns a checked address.
    const to = address as Address;
    await faucet.usdc(to, FUNDS);
    for (const { venue_id, asset_id } of BOOKS) {
      const token = tokensOfVenue(stack.deployment.outcomeTokens, venue_id);
      await faucet.outcomeTokens(token, { to, id: BigInt(asset_id), amount: FUNDS });
    }
    const caller: Caller = {
      email,
      ip: `10.${dice.between(0, 255)}.${dice.between(0, 255)}.${index + 1}`,
      password,
      token: registered.access_token,
      keys: [],
      totpSecret: undefined,
      newTotpSecret: undefined,
      recoveryCodes: [],
      totpStep: 0,
    };
    await addWithdrawKey(stack, caller, client);
    made.push({ caller, client });
  }
  await Promise.all(made.map(({ client }) => untilFunded(client)));
  return made.map(({ caller }) => caller);
}

async function untilFunded(client: Client): Promise<void> {
  const deadline = Date.now() + CREDIT_MS;
  while ((await client.custody.deposits({ status: "credited" }).all()).length <= BOOKS.length) {
    if (Date.now() > deadline) throw new Error("the deposits of the fuzz were not credited");
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

/** A key that trades, which the operator makes at once. */
export async function addKey(stack: Stack, caller: Caller): Promise<void> {
  const options = { email: caller.email, scopes: "read,trade" };
  // Safe cast: the documented result of the command.
  const key = (await order(stack, { command: ["api-key", "create"], options })) as NewKey;
  keep(caller, key);
}

/** A key of all scopes. It needs a session of a user without TOTP. */
async function addWithdrawKey(stack: Stack, caller: Caller, client: Client): Promise<void> {
  keep(caller, await withdrawKey(stack, client, { scopes: ["read", "trade", "withdraw"] }));
}

type NewKey = { readonly api_key_id: string; readonly secret: string };

function keep(caller: Caller, { api_key_id: apiKeyId, secret }: NewKey): void {
  caller.keys = [...caller.keys.slice(-2), { apiKeyId, secret }];
}

/** Ends a freeze. */
export async function unfreeze(stack: Stack, { email }: Caller): Promise<void> {
  await order(stack, { command: ["user", "unfreeze"], options: { email } });
}

/** A new session. Removes TOTP, whose codes count only once in 30 seconds. */
export async function logInAgain(stack: Stack, caller: Caller): Promise<void> {
  const { email } = caller;
  if (caller.totpSecret !== undefined) {
    await order(stack, { command: ["user", "reset-totp"], options: { email } });
    caller.totpSecret = undefined;
    caller.recoveryCodes = [];
  }
  const response = await fetch(`${stack.directUrl}/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json", "cf-connecting-ip": caller.ip },
    body: JSON.stringify({ email, password: caller.password }),
  });
  if (!response.ok) throw new Error(`${email} cannot log in: ${await response.text()}`);
  // Safe cast: the published response.
  const session = (await response.json()) as { access_token: string };
  caller.token = session.access_token;
  await addWithdrawKey(stack, caller, new Client({ baseUrl: stack.baseUrl }).withSession(session));
}

async function order(stack: Stack, command: OperatorRequest): Promise<unknown> {
  const response = await stack.operator(command);
  if (!response.ok)
    throw new Error(`${command.command.join(" ")}: ${JSON.stringify(response.problem)}`);
  return response.result;
}

/** What the operator's own checks find at the end. */
export async function differences(stack: Stack): Promise<string[]> {
  const books = await order(stack, { command: ["reconcile"] });
  const audit = await verifyWhole({ command: ["audit", "verify"] }, async (part) => ({
    ok: true,
    result: await order(stack, part),
  }));
  // Safe casts: the documented results of the commands.
  const { ok, complete } = books as { ok: boolean; complete: boolean };
  const { verdict } = (audit.ok ? audit.result : {}) as { verdict?: string };
  return [
    ...(ok && complete ? [] : [`reconcile: ${JSON.stringify(books)}`]),
    ...(verdict === "forged" ? [`audit verify: ${JSON.stringify(audit)}`] : []),
  ];
}
