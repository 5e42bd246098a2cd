/**
 * What a quote costs beside its peers: the leanest quotes of one D1, a signed route that does
 * nothing, PostgreSQL, and one book instead of 256. Each round measures all of them.
 */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, median, number } from "./figures.ts";
import { fillLeanPeer } from "./lean-peer.ts";
import { startPostgres } from "./postgres.ts";
import {
  MAKERS as SOCKETS,
  MANY_BOOKS,
  MASS,
  medianOf,
  PATIENT,
  quotesInCalls,
  quotesOverBooks,
  quotesOverRest,
  quotesOverSockets,
  type Rate,
  sayFailures,
} from "./quote-loads.ts";
import type { BenchStack } from "./stack.ts";

/** Of all sockets, as of all connections to PostgreSQL. */
const FEW_MAKERS = 10;
/** The peer's calls last as long as ours, because it places more of them in a second. */
const LEAN_CALLS = 5;

/** The conditions and locks of a quote: the request stays open, and the account is its maker's. */
const POSTGRES_SCHEMA = `
CREATE TABLE requests (request_id bigint PRIMARY KEY, status text NOT NULL,
  expires_at timestamptz NOT NULL);
CREATE TABLE accounts (maker bigint PRIMARY KEY, balance bigint NOT NULL, promised bigint NOT NULL,
  CHECK (promised BETWEEN 0 AND balance));
CREATE TABLE quotes (quote_id bigserial PRIMARY KEY, request_id bigint NOT NULL,
  maker bigint NOT NULL, price bigint NOT NULL, amount bigint NOT NULL, reserve bigint NOT NULL,
  expires_at timestamptz NOT NULL, status text NOT NULL);
INSERT INTO requests SELECT r, 'open', now() + interval '1 day' FROM generate_series(1, 64) r;
INSERT INTO accounts SELECT m, 1000000000000, 0 FROM generate_series(0, ${FEW_MAKERS - 1}) m;
INSERT INTO quotes (request_id, maker, price, amount, reserve, expires_at, status)
  SELECT 0, 0, 500000, 1000, 1000, now(), 'expired' FROM generate_series(1, ${QUOTES_OF_A_DAY});
CREATE FUNCTION place(m bigint, r bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE id bigint;
BEGIN
  PERFORM 1 FROM requests WHERE request_id = r AND status = 'open' AND expires_at > now() FOR SHARE;
  IF NOT FOUND THEN RAISE 'the request is not open'; END IF;
  PERFORM 1 FROM accounts WHERE maker = m AND balance - promised >= 1000 FOR UPDATE;
  IF NOT FOUND THEN RAISE 'the maker lacks the money'; END IF;
  INSERT INTO quotes (request_id, maker, price, amount, reserve, expires_at, status)
    VALUES (r, m, 500000, 1000, 1000, now() + interval '5 minutes', 'open')
    RETURNING quote_id INTO id;
  UPDATE accounts SET promised = promised + 1000 WHERE maker = m;
  RETURN id;
END $$;
`;
/** One transaction in one round trip, which is the fastest way. */
const POSTGRES_QUOTE = `\\set m :client_id % ${FEW_MAKERS}
\\set r random(1, 64)
SELECT place(:m, :r);
`;

type Round = { readonly forMs: number; readonly calls: number };
const WAYS = {
  sockets: (stack, { forMs }) => quotesOverSockets(stack, forMs),
  leanSockets: (stack, { forMs }) => quotesOverSockets(stack, forMs, { to: "peer" }),
  calls: (stack, { calls }) => quotesInCalls(stack, calls),
  leanCalls: (stack, { calls }) => quotesInCalls(stack, LEAN_CALLS * calls, "peer"),
  rest: (stack, { forMs }) => quotesOverRest(stack, forMs),
  emptyRoute: (stack, { forMs }) => quotesOverRest(stack, forMs, "peer"),
  books: (stack, { forMs }) => quotesOverBooks(stack, forMs),
  fewMakers: (stack, { forMs }) => quotesOverSockets(stack, forMs, { makers: FEW_MAKERS }),
} satisfies Readonly<Record<string, (stack: BenchStack, round: Round) => Promise<Rate>>>;
type Way = keyof typeof WAYS;
// Safe cast: these are its keys.
const NAMES = Object.keys(WAYS) as Way[];

export const benchQuotes: Bench = async ({ quick, say, start, onStop }) => {
  const [rounds, forMs, calls] = quick ? [1, 2_000, 4] : [5, 5_000, 20];
  const day = quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY;
  const stack = await start({ peer: "lean", settings: PATIENT });
  const postgres = startPostgres(POSTGRES_SCHEMA);
  onStop(async () => postgres?.stop());
  await fillDay(stack.db, day);
  await fillLeanPeer(stack, day);
  const load = { clients: SOCKETS, seconds: forMs / 1_000 };
  const rates = new Map(NAMES.map((way) => [way, [] as Rate[]]));
  const [durable, lazy]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    for (const [way, list] of rates) list.push(await WAYS[way](stack, { forMs, calls }));
    durable.push((await postgres?.load(POSTGRES_QUOTE, load)) ?? Number.NaN);
    lazy.push((await postgres?.load(POSTGRES_QUOTE, { ...load, lazy: true })) ?? Number.NaN);
    const last = [
      ...[...rates].map(([way, list]) => [way, list.at(-1)?.perSecond] as const),
      ["durable", durable.at(-1)] as const,
      ["lazy", lazy.at(-1)] as const,
    ];
    const texts = last.map(([name, rate = Number.NaN]) => `${name} ${number(rate)}/s`);
    say(`  round ${round + 1}: ${texts.join(", ")}`);
  }
  sayFailures(stack, say);
  const of = (way: Way, pick: keyof Rate) => medianOf(rates.get(way) ?? [], pick);
  return [...figuresOf(of), ...postgresFigures(of, { durable, lazy })];
};

type MedianOf = (way: Way, pick: keyof Rate) => number;

function figuresOf(of: MedianOf): Figure[] {
  const beside = (
    what: string,
    [ours, peer, name]: readonly [Way, Way, string],
    atLeast: number,
  ): Figure[] => {
    const figure = (row: string, unit: string, pick: keyof Rate): Figure => ({
      what: row,
      unit,
      ours: of(ours, pick),
      peer: { name, value: of(peer, pick) },
    });
    return [
      { ...figure(what, "/s", "perSecond"), target: { atLeast } },
      figure("  by processor time of workerd", "µs", "cpuMicros"),
      {
        ...figure("  p50", "ms", "p50"),
        note: `${number(of(ours, "perCommit"))} quotes per commit`,
      },
    ];
  };
  return [
    ...beside(`quotes over ${SOCKETS} sockets`, ["sockets", "leanSockets", "leanest D1"], 0.6),
    ...beside(`quotes by ${MASS} a call`, ["calls", "leanCalls", "leanest D1"], 0.35),
    ...beside("quotes over REST", ["rest", "emptyRoute", "an empty route"], 0.5),
    ...beside(`quotes into ${MANY_BOOKS} books`, ["books", "rest", "one book"], 0.45),
  ];
}

function postgresFigures(
  of: MedianOf,
  { durable, lazy }: Readonly<Record<"durable" | "lazy", readonly number[]>>,
): Figure[] {
  const shared = { unit: "/s", ours: of("fewMakers", "perSecond") };
  return [
    {
      ...shared,
      what: `quotes over ${SOCKETS} sockets of ${FEW_MAKERS} makers`,
      peer: { name: "PostgreSQL", value: median(durable) },
      target: { atLeast: 1.5 },
    },
    {
      ...shared,
      what: "  the same",
      peer: { name: "PostgreSQL, synchronous_commit off", value: median(lazy) },
    },
  ];
}
