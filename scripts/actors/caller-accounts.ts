/** Makes such callers (callers.ts), and brings back those who have locked themselves out. */
import { randomBytes } from "node:crypto";
import { Client } from "../../packages/client/src/index.ts";
import type { Dice } from "./dice.ts";
import { openFaucet } from "../stack/faucet.ts";
import { order } from "../operator/carry-out.ts";
import type { Reconciliation } from "../operator/results.ts";
import type { Stack } from "../stack/start-stack.ts";
import { fundAll, newUser } from "./users.ts";
import { withdrawKey } from "./withdraw-key.ts";
import type { Caller } from "./callers.ts";
import { BOOKS } from "../soak/verbs/values.ts";

const FUNDS = 1_000_000_000_000n;

/** Users with funds of every asset, a session, and a key of all scopes. */
export async function makeCallers(stack: Stack, dice: Dice, count: number): Promise<Caller[]> {
  const guest = new Client({ baseUrl: stack.baseUrl });
  const callers: Caller[] = [];
  const clients: Client[] = [];
  for (let index = 0; index < count; index++) {
    const email = `caller-${index}-${randomBytes(4).toString("hex")}@fuzz.example`;
    const { password, accessToken: token, session } = await newUser(guest, email);
    const caller: Caller = {
      email,
      ip: `10.${dice.between(0, 255)}.${dice.between(0, 255)}.${index + 1}`,
      password,
      token,
      keys: [],
      totpSecret: undefined,
      newTotpSecret: undefined,
      recoveryCodes: [],
      totpStep: 0,
    };
    await addWithdrawKey(stack, caller, session);
    callers.push(caller);
    clients.push(session);
  }
  const given = { usdc: FUNDS, tokens: FUNDS, assets: BOOKS };
  await fundAll(await openFaucet(stack), clients, given);
  return callers;
}

/** A key that trades, which the operator makes at once. */
export async function addKey(stack: Stack, caller: Caller): Promise<void> {
  const options = { email: caller.email, scopes: "read,trade" };
  // Safe cast: the documented result of the command.
  const key = (await order(stack, "api-key create", options)) as NewKey;
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

export async function unfreeze(stack: Stack, { email }: Caller): Promise<void> {
  await order(stack, "user unfreeze", { email });
}

/** A new session. Removes TOTP, whose codes count only once in 30 seconds. */
export async function logInAgain(stack: Stack, caller: Caller): Promise<void> {
  const { email } = caller;
  if (caller.totpSecret !== undefined) {
    await order(stack, "user reset-totp", { email });
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

/** What the operator's own checks find at the end. */
export async function differences(stack: Stack): Promise<string[]> {
  const books = await order(stack, "reconcile");
  const audit = await order(stack, "audit verify");
  // Safe casts: the documented results of the commands.
  const { ok, complete } = books as Reconciliation;
  const { verdict } = audit as { verdict: string };
  return [
    ...(ok && complete ? [] : [`reconcile: ${JSON.stringify(books)}`]),
    ...(verdict === "forged" ? [`audit verify: ${JSON.stringify(audit)}`] : []),
  ];
}
