/** Reads of a soak: every list and record that a user can read. */
import type { Client } from "../../packages/client/src/index.ts";
import { TOKENS } from "./assets.ts";
import type { Dice } from "../actors/dice.ts";
import { type Person, withSession, type World } from "./world.ts";

type Look = (client: Client, dice: Dice, world: World, person: Person) => Promise<unknown>;

const SNAPSHOT_MS = 20_000;

/** By what they read. Each is chosen equally often. */
const LOOKS: Readonly<Record<string, Look>> = {
  service: (client) =>
    Promise.all([client.time(), client.health(), client.config(), client.status()]),
  credentials: (client) =>
    Promise.all([
      client.auth.whoami(),
      client.auth.apiKeys().page(),
      client.auth.auditEvents().page(),
    ]),
  balances: (client, dice) =>
    Promise.all([
      client.custody.balances().page(),
      client.custody.balance(dice.pick(TOKENS)),
      client.custody.usdcBalance(),
    ]),
  ledger: (client) => client.custody.ledger().page(),
  deposits: (client) =>
    Promise.all([client.custody.deposits().page(), client.custody.depositAddresses()]),
  withdrawals: async (client) => {
    const { items } = await client.custody.withdrawals({ limit: 1 }).page();
    for (const withdrawal of items) await client.custody.withdrawal(withdrawal);
  },
  requests: async (client, dice) => {
    await client.rfq.openRequests({ ...dice.pick(TOKENS), limit: 5 }).page();
    const { items } = await client.rfq
      .myRequests({ status: "all", label: "soak-a", limit: 1 })
      .page();
    for (const request of items) {
      await client.rfq.getRequest(request);
      await client.rfq.quotes({ request_id: request.request_id, limit: 5 }).page();
    }
  },
  quotes: async (client, dice) => {
    const { items } = await client.rfq.myQuotes({ ...dice.pick(TOKENS), limit: 1 }).page();
    for (const quote of items) await client.rfq.getQuote(quote);
    for (const quote of items) await client.rfq.cancelQuote(quote).catch(() => {});
  },
  matches: async (client, dice) => {
    const { items } = await client.rfq.matches({ ...dice.pick(TOKENS), role: "maker" }).page();
    for (const { match_id } of items.slice(0, 1)) await client.rfq.getMatch({ match_id });
    await client.rfq.trades({ ...dice.pick(TOKENS), limit: 5 }).page();
  },
  markets: async (client, dice) => {
    await client.markets({ status: "open", q: "a", limit: 5 }).page();
    const token = dice.pick(TOKENS);
    await client.rfq.tickers(token).page();
    await client.rfq.candles({ ...token, interval: "1m" }).page();
  },
  account: async (client) => {
    await client.rfq.positions().page();
    const { next_since: since } = await client.accountEvents({ limit: 5 });
    await client.accountEvents({ since, limit: 5 });
  },
  protection: (client) => client.rfq.protection(),
  snapshot: (_client, _dice, world, person) =>
    withSession(person, (session) => readSnapshot(session, world)),
};

export async function look(world: World, dice: Dice): Promise<void> {
  const person = dice.pick(world.people);
  const what = dice.pick(Object.values(LOOKS));
  await what(person.client, dice, world, person);
  world.tally.count("operation", "read");
}

/** The snapshot of the account, over a socket of the session. */
async function readSnapshot(session: Client, { verbs }: World): Promise<void> {
  const stream = session.accountStream({ snapshot: true });
  const timeout = setTimeout(() => stream.close(), SNAPSHOT_MS);
  try {
    for await (const message of stream) {
      if (message.type === "snapshot" && !message.data.more) break;
    }
    verbs.use("GET /account/stream");
  } finally {
    clearTimeout(timeout);
    stream.close();
  }
}
