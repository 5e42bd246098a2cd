/** The users of a soak and what they do, through the public client only. */
import { randomBytes } from "node:crypto";
import type { Address } from "viem";
import { Client, NoAnswer, Problem, type Quote } from "../../packages/client/src/index.ts";
import type { Stack } from "../stack/start-stack.ts";
import { withdrawKey } from "../stack/withdraw-key.ts";
import { ASSETS, type Asset, nameOf, TOKENS, USDC } from "./assets.ts";
import type { Chain } from "./chain.ts";
import type { Dice } from "./dice.ts";
import type { Tally } from "./tally.ts";

export type Person = {
  email: string;
  userId: string;
  session: Client;
  /** Signs with an API key of all scopes. After a revocation it is another one. */
  client: Client;
  apiKeyId: string;
  addresses: Address[];
  /** All withdrawals that were sent, by client_withdrawal_id, with any response. */
  withdrawals: Map<string, { asset: Asset; amount: bigint; to: Address; answered: boolean }>;
};

export type World = {
  stack: Stack;
  chain: Chain;
  people: Person[];
  refuser: Address;
  tally: Tally;
  ended(): boolean;
  /** Ends the soak early. */
  end(): void;
};

/** Rejections that faults and races between users explain. */
const EXPECTED = new Set([
  "account_frozen",
  "api_key_revoked",
  "chain_liquidity",
  "deadline_passed",
  "deposit_address_limit",
  "destination_refused",
  "idempotency_in_progress",
  "insufficient_funds",
  "open_quote_limit",
  "open_request_limit",
  "quote_expired",
  "quote_not_open",
  "request_expired",
  "request_not_open",
  "unavailable",
  "withdrawals_paused",
]);
const MAX_ADDRESSES = 5;
/** The machine is under load, and the endpoints are slow at times. */
const QUOTE_MAX_AGE_MS = 10_000;
const LARGEST_DEPOSIT = 5_000_000_000;
const OPERATOR = "soak";

export async function introduce(stack: Stack, name: string): Promise<Person> {
  const email = `${name}@soak.example`;
  const guest = new Client({ baseUrl: stack.baseUrl, attempts: 8 });
  const registered = await guest.auth.register({
    email,
    password: randomBytes(18).toString("base64url"),
  });
  const session = guest.withSession(registered);
  const { client, apiKeyId } = await newKey(stack, session);
  const { address } = await client.custody.createDepositAddress();
  return {
    email,
    userId: registered.user_id,
    session,
    client,
    apiKeyId,
    addresses: [address as Address],
    withdrawals: new Map(),
  };
}

export async function newKey(
  stack: Stack,
  session: Client,
): Promise<Pick<Person, "client" | "apiKeyId">> {
  const scopes = ["read", "trade", "withdraw"] as const;
  const { api_key_id: apiKeyId, secret } = await withdrawKey(stack, session, { scopes }, OPERATOR);
  return { client: session.withApiKey({ apiKeyId, secret }), apiKeyId };
}

const ACTIONS = { deposit: 3, trade: 5, withdraw: 4, address: 0.3, look: 1 } as const;

/** Performs one operation after the other until the soak ends. */
export async function act(world: World, dice: Dice): Promise<void> {
  while (!world.ended()) {
    const action = dice.weighted(ACTIONS);
    try {
      await DO[action](world, dice);
    } catch (error) {
      note(world.tally, action, error);
    }
    await new Promise((resolve) => setTimeout(resolve, dice.between(0, 150)));
  }
}

/** Counts a failed call. One that nothing explains fails the soak. */
export function note(tally: Tally, what: string, error: unknown): void {
  if (error instanceof NoAnswer) tally.count("lost", what);
  else if (error instanceof Problem && EXPECTED.has(error.code)) tally.count("refused", error.code);
  else tally.odd.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
}

const DO: Readonly<Record<keyof typeof ACTIONS, (world: World, dice: Dice) => Promise<void>>> = {
  deposit: async ({ chain, people, tally }, dice) => {
    const asset = dice.pick(ASSETS);
    await chain.mint(
      asset,
      dice.pick(dice.pick(people).addresses),
      BigInt(dice.between(1, LARGEST_DEPOSIT)),
    );
    tally.count("operation", "deposit");
  },
  trade,
  withdraw,
  address: async ({ people, tally }, dice) => {
    const person = dice.pick(people);
    if (person.addresses.length >= MAX_ADDRESSES) return;
    const { address } = await person.client.custody.createDepositAddress();
    person.addresses.push(address as Address);
    tally.count("operation", "deposit address");
  },
  look: async ({ people, tally }, dice) => {
    const { client } = dice.pick(people);
    await (dice.chance(0.5) ? client.custody.balances().page() : client.custody.ledger().page());
    tally.count("operation", "read");
  },
};

/** Sends a request and one to three quotes, then an accept, a cancel, both at once, or nothing. */
async function trade({ people, tally }: World, dice: Dice): Promise<void> {
  const taker = dice.pick(people);
  const asset = dice.pick(TOKENS);
  const side = dice.pick(["Bid", "Ask"] as const);
  const held = await taker.client.custody.balance(asset);
  const amount =
    side === "Ask" && held.balance > 0n
      ? dice.part(held.balance)
      : BigInt(dice.between(1, 200_000_000));
  const request = await taker.client.rfq.request({ ...asset, amount, side, expires_in_secs: 20 });
  tally.count("operation", "request");
  const makers = people.filter((person) => person !== taker);
  const quotes: Quote[] = [];
  for (let n = dice.between(1, 3); n > 0; n--) {
    const maker = dice.pick(makers);
    const terms = {
      request_id: request.request_id,
      price: dice.between(1, 1_000_000),
      expires_in_secs: dice.between(1, 20),
    };
    await maker.client.rfq
      .quote(terms, { maxAgeMs: QUOTE_MAX_AGE_MS })
      .then((quote) => {
        quotes.push(quote);
        tally.count("operation", "quote");
      })
      .catch((error: unknown) => note(tally, "quote", error));
  }
  const [quote] = quotes;
  if (quote === undefined) return;
  const ending = dice.weighted({ accept: 6, cancel: 1, both: 2, nothing: 1 });
  const moves: Promise<unknown>[] = [];
  if (ending === "accept" || ending === "both") {
    const accepted = taker.client.rfq.accept({ quote_id: quote.quote_id }).then((match) => {
      tally.count("operation", "match");
      tally.moved("traded", USDC, match.usdc_amount);
    });
    moves.push(accepted);
  }
  if (ending === "cancel" || ending === "both")
    moves.push(taker.client.rfq.cancelRequest({ request_id: request.request_id }));
  for (const move of await Promise.allSettled(moves))
    if (move.status === "rejected") note(tally, ending, move.reason);
}

async function withdraw(world: World, dice: Dice): Promise<void> {
  const person = dice.pick(world.people);
  const asset = dice.pick(ASSETS);
  const part =
    asset === USDC
      ? await person.client.custody.usdcBalance()
      : await person.client.custody.balance(asset);
  const amount = dice.part(part.balance);
  // Sometimes sent twice at once, which must make one withdrawal.
  const times = dice.chance(0.15) ? 2 : 1;
  await withdrawAmount(world, dice, { person, asset, amount, times });
}

/** Sends the same withdrawal so many times at once. */
export async function withdrawAmount(
  { refuser, tally }: Pick<World, "refuser" | "tally">,
  dice: Dice,
  terms: { person: Person; asset: Asset; amount: bigint; times: number },
): Promise<void> {
  const { person, asset, amount, times } = terms;
  const to = asset !== USDC && dice.chance(0.05) ? refuser : dice.hex(20);
  const id = `soak-${dice.hex(8)}`;
  const asked = { asset, amount, to, answered: false };
  person.withdrawals.set(id, asked);
  const body = {
    client_withdrawal_id: id,
    amount,
    to_address: to,
    ...(asset === USDC ? {} : asset),
  };
  const responses = await Promise.allSettled(
    Array.from({ length: times }, () => person.client.custody.withdraw(body)),
  );
  for (const response of responses) {
    if (response.status === "fulfilled") asked.answered = true;
    else note(tally, `withdraw ${nameOf(asset)}`, response.reason);
  }
  if (asked.answered) tally.count("operation", "withdrawal");
}
