/** The users of a soak and what they do, through the public client only. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Address } from "viem";
import { Client } from "../../packages/client/src/index.ts";
import type { Stack } from "../stack/start-stack.ts";
import { newUser } from "../actors/users.ts";
import { withdrawKey } from "../actors/withdraw-key.ts";
import { addressBook, approve, policy, untilCode, wantApprovals } from "./approvals.ts";
import { ASSETS } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { look } from "./look.ts";
import { disconnect, protect, timer } from "./safeguards.ts";
import { ladder, trade } from "./trades.ts";
import { withdraw } from "./withdrawals.ts";
import { note, type Person, type World } from "./world.ts";

const MAX_ADDRESSES = 5;
const LARGEST_DEPOSIT = 5_000_000_000;

/** `approves`: their large withdrawals wait for an approval with a one-time code. */
export async function introduce(
  { stack, verbs }: Pick<World, "stack" | "verbs">,
  name: string,
  { approves }: { readonly approves: boolean },
): Promise<Person> {
  const email = `${name}@soak.example`;
  const { onResponse } = verbs;
  const guest = new Client({ baseUrl: stack.baseUrl, attempts: 8, onResponse });
  const { password, userId, session, address } = await newUser(guest, email);
  const person: Person = {
    email,
    password,
    userId,
    session,
    ...(await newKey(stack, { session, codes: undefined })),
    addresses: [address],
    codes: undefined,
    busy: new Set(),
    withdrawals: new Map(),
  };
  if (approves) await wantApprovals(person);
  return person;
}

export async function newKey(
  stack: Stack,
  { session, codes }: Pick<Person, "session" | "codes">,
): Promise<Pick<Person, "client" | "apiKeyId">> {
  const scopes = ["read", "trade", "withdraw"] as const;
  const totp_code = codes === undefined ? undefined : await untilCode(codes);
  const key = await withdrawKey(stack, session, { scopes, totp_code });
  const { api_key_id: apiKeyId, secret } = key;
  return { client: session.withApiKey({ apiKeyId, secret }), apiKeyId };
}

const ACTIONS = {
  deposit: 3,
  trade: 3,
  ladder: 4,
  protect: 0.8,
  timer: 0.4,
  disconnect: 0.4,
  withdraw: 4,
  approve: 1.5,
  addressBook: 0.3,
  policy: 0.2,
  address: 0.3,
  look: 1,
} as const;

/** Performs one operation after the other until the soak ends. */
export async function act(world: World, dice: Dice): Promise<void> {
  while (!world.ended()) {
    const action = dice.weighted(ACTIONS);
    try {
      await DO[action](world, dice);
    } catch (error) {
      note(world.tally, action, error);
    }
    await sleep(dice.between(0, 150));
  }
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
  look,
  ladder,
  protect,
  timer,
  disconnect,
  approve,
  addressBook,
  policy,
};
