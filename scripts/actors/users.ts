/** Users of a local stack: their accounts, keys and funds. */
import { randomBytes } from "node:crypto";
import type { Address, Hex } from "viem";
import { Client, type MarketAsset, Problem } from "../../packages/client/src/index.ts";
import type { Faucet } from "../stack/faucet.ts";
import type { DemoUser } from "../stack/stack-file.ts";
import { until } from "../stack/until.ts";

/** The users of `npm run dev`, whose passwords everybody knows. */
export const DEMO_USERS: DemoUser[] = [
  { email: "taker@demo.example", password: "taker-demo-password", role: "taker" },
  { email: "maker@demo.example", password: "maker-demo-password", role: "maker" },
  // Nobody uses this one, so its trades are those of your own maker.
  { email: "maker-2@demo.example", password: "maker-2-demo-password", role: "maker" },
];

/** Registers the user, or logs in if an earlier start has registered them. */
export async function enter(
  baseUrl: string,
  { email, password }: DemoUser,
): Promise<{ client: Client; isNew: boolean }> {
  const guest = new Client({ baseUrl });
  try {
    return {
      client: guest.withSession(await guest.auth.register({ email, password })),
      isNew: true,
    };
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "email_taken") throw error;
    return { client: await Client.login({ baseUrl, email, password }), isNew: false };
  }
}

/**
 * As `enter`, of users who may have changed since an earlier start, for example with one-time codes
 * or another password. Returns null for them, and says why.
 */
export async function enterUnchanged(
  baseUrl: string,
  user: DemoUser,
  log: (line: string) => void,
): Promise<Awaited<ReturnType<typeof enter>> | null> {
  try {
    return await enter(baseUrl, user);
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500 || error.status === 429) throw error;
    log(`${user.email} is left alone, because it cannot log in: ${error.code}`);
    return null;
  }
}

/** A user with a random password and a deposit address. */
export async function newUser(guest: Client, email: string) {
  const password = randomBytes(18).toString("base64url");
  const registered = await guest.auth.register({ email, password });
  const session = guest.withSession(registered);
  const { user_id: userId, access_token: accessToken } = registered;
  return { email, password, userId, accessToken, session, address: await newAddress(session) };
}

/** The user with a new key, which outlasts a session. */
export async function withKey(session: Client, label: string): Promise<Client> {
  const key = await session.auth.createApiKey({ label, scopes: ["read", "trade"] });
  return session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
}

/** `asset` null: USDC. */
export type Funding = {
  readonly client: Client;
  readonly to: Address;
  readonly asset: MarketAsset | null;
  readonly amount: bigint;
};

const CREDIT_TIMEOUT_MS = 60_000;

/** Mints to the deposit addresses, and resolves when all of it is credited. */
export async function fund(faucet: Faucet, fundings: readonly Funding[]): Promise<void> {
  const due: { client: Client; hash: Hex }[] = [];
  for (const { client, to, asset, amount } of fundings)
    due.push({ client, hash: await faucet.mint(asset, to, amount) });
  for (const [client, own] of Map.groupBy(due, (one) => one.client))
    await until("deposits to be credited, see the Worker's log", CREDIT_TIMEOUT_MS, async () => {
      const { items } = await client.custody.deposits({ status: "credited", limit: 500 }).page();
      const credited = new Set(items.map(({ transaction_hash }) => transaction_hash));
      return own.every(({ hash }) => credited.has(hash)) ? true : null;
    });
}

/** Gives each user the amounts of USDC and of each asset, at a new deposit address. */
export async function fundAll(
  faucet: Faucet,
  clients: readonly Client[],
  given: {
    readonly usdc: bigint;
    readonly tokens: bigint;
    readonly assets: readonly MarketAsset[];
  },
): Promise<void> {
  const fundings: Funding[] = [];
  for (const client of clients) {
    const to = await newAddress(client);
    fundings.push({ client, to, asset: null, amount: given.usdc });
    for (const asset of given.assets) fundings.push({ client, to, asset, amount: given.tokens });
  }
  await fund(faucet, fundings);
}

async function newAddress(session: Client): Promise<Address> {
  // Safe cast: the service returns a checked address.
  return (await session.custody.createDepositAddress()).address as Address;
}
