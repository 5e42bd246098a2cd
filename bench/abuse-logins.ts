/**
 * What owners notice while one person logs in with the right passwords of many own accounts, which
 * costs the service a hash each: whether their logins and step-up calls succeed, and how long they
 * take. Each owner has an address of their own that the service knows.
 */
import { type Figure, number, percentile } from "./figures.ts";
import { drive, httpRequest, run } from "./load.ts";
import { loginRequest, makeLogins } from "./people.ts";
import type { BenchStack } from "./stack.ts";

const ACCOUNTS = 36;
const ADDRESSES = 9;
/** Of one account. The service lets a caller wait twice. */
const LANES_PER_ACCOUNT = 2;
/** 144 requests a second from nine addresses, which is below every rate limit. */
const LANE_EVERY_MS = 500;
const OWNERS = 10;
const TRIES = 30;
const PASSWORD = "correct horse battery staple";

type Account = { readonly email: string; readonly ip: string };

export async function benchLogins(
  stack: BenchStack,
  { quick, say }: { quick: boolean; say: (line: string) => void },
): Promise<Figure[]> {
  const flooders = await makeAccounts(stack, ACCOUNTS, (n) => `203.0.113.${10 + (n % ADDRESSES)}`);
  const owners = await makeAccounts(stack, OWNERS, (n) => `192.0.2.${100 + n}`);
  const tries = quick ? 3 : TRIES;
  const alone = await tryEach(stack, owners, Math.min(tries, OWNERS));
  const stop = new AbortController();
  const flood = keepLoggingIn(stack, flooders, stop.signal);
  const during = await tryEach(stack, owners, tries);
  stop.abort();
  const told = await flood;
  say(
    `  logins: attacker ${JSON.stringify(told)}; owners ${JSON.stringify(during.statuses)} ` +
      `in ${tries} tries`,
  );
  const failed = (statuses: Readonly<Record<string, number>>) =>
    Object.entries(statuses).reduce((sum, [code, n]) => sum + (code.endsWith(" 200") ? 0 : n), 0);
  return [
    {
      what: `logins of ${ACCOUNTS} accounts on ${ADDRESSES} addresses: owners' calls that failed`,
      unit: "calls",
      ours: failed(during.statuses),
      target: { atMost: 0 },
      note: `of ${2 * tries}`,
    },
    ...(["login", "step-up"] as const).map((call): Figure => ({
      what: `  an owner's ${call}, p50`,
      unit: "ms",
      ours: percentile(during.ms[call], 0.5),
      peer: { name: "alone", value: percentile(alone.ms[call], 0.5) },
      note: `slowest ${number(percentile(during.ms[call], 1))} ms`,
    })),
  ];
}

/** Accounts with a password, each of which has logged in from its address. */
async function makeAccounts(
  stack: BenchStack,
  count: number,
  ipOf: (n: number) => string,
): Promise<Account[]> {
  const emails = await makeLogins(stack, count, PASSWORD);
  const accounts = emails.map((email, n) => ({ email, ip: ipOf(n) }));
  for (const account of accounts) await send(stack, login(account));
  return accounts;
}

function login({ email, ip }: Account): Uint8Array {
  return loginRequest({ email, password: PASSWORD }, { "cf-connecting-ip": ip });
}

/** A call that takes the password beside a session. */
function stepUp({ ip }: Account, token: string): Uint8Array {
  return httpRequest({
    method: "POST",
    target: "/auth/policy",
    headers: { "cf-connecting-ip": ip, authorization: `Bearer ${token}` },
    body: JSON.stringify({ password: PASSWORD, sessions_trade: true }),
  });
}

async function send(stack: BenchStack, request: Uint8Array) {
  const { statuses, latencies, bodies } = await run({
    port: stack.port,
    lanes: [[request]],
    collect: true,
  });
  return {
    status: Object.keys(statuses)[0] ?? "closed",
    ms: latencies[0] ?? Number.NaN,
    body: JSON.parse(bodies[0]?.[0] ?? "null") as { access_token?: string } | null,
  };
}

/** The owners log in and step up one after the other. */
async function tryEach(stack: BenchStack, owners: readonly Account[], tries: number) {
  const statuses: Record<string, number> = {};
  const ms = { login: [] as number[], "step-up": [] as number[] };
  const note = (call: keyof typeof ms, sent: { status: string; ms: number }) => {
    const name = `${call} ${sent.status}`;
    statuses[name] = (statuses[name] ?? 0) + 1;
    ms[call].push(sent.ms);
  };
  for (let n = 0; n < tries; n++) {
    const owner = owners[n % owners.length] as Account;
    const loggedIn = await send(stack, login(owner));
    note("login", loggedIn);
    note("step-up", await send(stack, stepUp(owner, loggedIn.body?.access_token ?? "")));
  }
  return { statuses, ms };
}

/** Returns what the attacker was told, by status. */
async function keepLoggingIn(
  stack: BenchStack,
  accounts: readonly Account[],
  stop: AbortSignal,
): Promise<Readonly<Record<string, number>>> {
  const told: Record<string, number> = {};
  const lanes = accounts.flatMap((account) =>
    Array.from({ length: LANES_PER_ACCOUNT }, () => [login(account)]),
  );
  while (!stop.aborted) {
    const { statuses } = await drive({
      port: stack.port,
      lanes,
      forMs: 20_000,
      everyMs: LANE_EVERY_MS,
      reconnect: true,
    });
    for (const [status, n] of Object.entries(statuses)) told[status] = (told[status] ?? 0) + n;
  }
  return told;
}
