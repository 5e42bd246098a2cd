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
import { startBenchStack } from "./stack.ts";

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

export const benchQuotes: Bench = async ({ quick, say, onStop }) => {
  const [rounds, forMs, calls] = quick ? [1, 2_000, 4] : [5, 5_000, 20];
  const day = quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY;
  const stack = await startBenchStack({ peer: "lean", settings: PATIENT });
  onStop(stack.stop);
  const postgres = startPostgres(POSTGRES_SCHEMA);
  try {
    await fillDay(stack.db, day);
    await fillLeanPeer(stack, day);
    const load = { clients: SOCKETS, seconds: forMs / 1_000 };
    const ways = {
      sockets: () => quotesOverSockets(stack, forMs),
      leanSockets: () => quotesOverSockets(stack, forMs, { to: "peer" }),
      calls: () => quotesInCalls(stack, calls),
      leanCalls: () => quotesInCalls(stack, LEAN_CALLS * calls, "peer"),
      rest: () => quotesOverRest(stack, forMs),
      emptyRoute: () => quotesOverRest(stack, forMs, "peer"),
      books: () => quotesOverBooks(stack, forMs),
      fewMakers: () => quotesOverSockets(stack, forMs, { makers: FEW_MAKERS }),
    };
    type Way = keyof typeof ways;
    const rates = Object.fromEntries(Object.keys(ways).map((way) => [way, [] as Rate[]])) as Record<
      Way,
      Rate[]
    >;
    const postgresRates = { durable: [] as number[], lazy: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      for (const way of Object.keys(ways) as Way[]) rates[way].push(await ways[way]());
      postgresRates.durable.push((await postgres?.load(POSTGRES_QUOTE, load)) ?? Number.NaN);
      const lazy = { ...load, lazy: true };
      postgresRates.lazy.push((await postgres?.load(POSTGRES_QUOTE, lazy)) ?? Number.NaN);
      const last = [...Object.entries(rates), ...Object.entries(postgresRates)].map(
        ([name, list]) => {
          const rate = list.at(-1) ?? Number.NaN;
          return `${name} ${number(typeof rate === "number" ? rate : rate.perSecond)}/s`;
        },
      );
      say(`  round ${round + 1}: ${last.join(", ")}`);
    }
    sayFailures(stack, say);
    const beside = (
      what: string,
      [ours, peer, name]: readonly [Way, Way, string],
      atLeast: number,
    ): Figure[] => {
      const figure = (row: string, unit: string, pick: keyof Rate): Figure => ({
        what: row,
        unit,
        ours: medianOf(rates[ours], pick),
        peer: { name, value: medianOf(rates[peer], pick) },
      });
      return [
        { ...figure(what, "/s", "perSecond"), target: { atLeast } },
        figure("  by processor time of workerd", "µs", "cpuMicros"),
        {
          ...figure("  p50", "ms", "p50"),
          note: `${number(medianOf(rates[ours], "perCommit"))} quotes per commit`,
        },
      ];
    };
    const besidePostgres = (what: string, name: string, list: readonly number[]): Figure => ({
      what,
      unit: "/s",
      ours: medianOf(rates.fewMakers, "perSecond"),
      peer: { name, value: median(list) },
    });
    return [
      ...beside(`quotes over ${SOCKETS} sockets`, ["sockets", "leanSockets", "leanest D1"], 0.6),
      ...beside(`quotes by ${MASS} a call`, ["calls", "leanCalls", "leanest D1"], 0.35),
      ...beside("quotes over REST", ["rest", "emptyRoute", "an empty route"], 0.5),
      ...beside(`quotes into ${MANY_BOOKS} books`, ["books", "rest", "one book"], 0.45),
      {
        ...besidePostgres(
          `quotes over ${SOCKETS} sockets of ${FEW_MAKERS} makers`,
          "PostgreSQL",
          postgresRates.durable,
        ),
        target: { atLeast: 1.5 },
      },
      besidePostgres("  the same", "PostgreSQL, synchronous_commit off", postgresRates.lazy),
    ];
  } finally {
    postgres?.stop();
    await stack.stop();
  }
};
