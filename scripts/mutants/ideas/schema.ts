import { ideas, type Mutant } from "../mutant.ts";

export const SCHEMA: readonly Mutant[] = [
  ...ideas("migrations", "rfq/replace", {
    "place: reserve not reused": ["NEW.reserve - (", "NEW.reserve - 0 * ("],
  }),
  ...ideas("migrations", "rfq/place-quote", {
    "place: the newest of equal prices wins": ["NEW.price > (", "NEW.price >= ("],
    "place: a higher price outbids on a Bid": ["NEW.price < (", "NEW.price > ("],
    "place: the oldest of equal prices is outbid": [
      "ORDER BY opened_at DESC, quote_id DESC",
      "ORDER BY opened_at, quote_id",
    ],
    "place: outbid for no reason": [
      "cancel_reason = iif(expires_at <= NEW.at, NULL, 'outbid'),",
      "cancel_reason = NULL,",
    ],
  }),
  ...ideas("migrations", "rfq/book", {
    "place: promised funds quoted": ["AND (balance - promised) >= (", "AND balance >= ("],
    "schema: a quote promises nothing": [
      "UPDATE accounts SET promised = promised + NEW.reserve",
      "UPDATE accounts SET promised = promised",
    ],
    "schema: a promise never ends": [
      "iif(OLD.stuck_at IS NULL, promised - OLD.reserve,",
      "iif(OLD.stuck_at IS NULL, promised,",
    ],
  }),
  ...ideas("migrations", "rfq/preconditions", {
    "place: limit of own quotes dropped": [
      "            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes\n          )",
      "            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes + 1\n          )",
    ],
    "place: own quotes counted by their newest alone": [
      "            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes,\n            1,",
      "            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes + 1,\n            1,",
    ],
    "place: a quote states what the one before it did": [
      "      1 + coalesce(\n",
      "      0 + coalesce(\n",
    ],
    "expire: quotes in other books not looked for": [
      "        AND q.stuck_at IS NULL\n        AND q.expires_at <= NEW.at\n      LIMIT 200\n    )\n    AND",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at < 0\n      LIMIT 200\n    )\n    AND",
    ],
    "expire: a maker's quotes elsewhere stay open": [
      "        AND q.stuck_at IS NULL\n        AND q.expires_at <= NEW.at\n      LIMIT 200\n    )\n  )",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at < 0\n      LIMIT 200\n    )\n  )",
    ],
  }),
  ...ideas("migrations", "rfq/book rfq/model", {
    "place: key forgotten": ["    NEW.key_hash,\n", "    NULL,\n"],
  }),
  ...ideas("migrations", "rfq/preconditions rfq/races rfq/model", {
    "expire: late requests not looked for": [
      "        AND r.expires_at <= NEW.at\n    );",
      "        AND r.expires_at < 0\n    );",
    ],
  }),
  ...ideas("migrations", "rfq/races rfq/model", {
    "expire: a minute late": [
      "AND q.expires_at <= NEW.at\n        AND NEW.quote_ids IS NULL\n      LIMIT 200\n    )\n    UNION",
      "AND q.expires_at <= NEW.at - 60000\n        AND NEW.quote_ids IS NULL\n      LIMIT 200\n    )\n    UNION",
    ],
  }),
  ...ideas("migrations", "rfq/preconditions rfq/races", {
    "expire: request ends before its quotes": [
      "AND q.status = 'open' AND q.stuck_at IS NULL\n      )",
      "AND q.status = 'accepted'\n      )",
    ],
  }),
  ...ideas("migrations", "rfq/protection", {
    "protection: matches unlimited": [">= max_matches OR", "> max_matches OR"],
    "protection: USDC unlimited": [">= max_usdc\n", "> max_usdc\n"],
    "protection: totals overflow": [
      "usdc = min(usdc + NEW.usdc_amount, 4611686018427387904)",
      "usdc = usdc + NEW.usdc_amount",
    ],
  }),
  ...ideas("migrations", "rfq/protection.clock", {
    "protection: counted anew only when reset": [
      "period = period + 1, matches = 0, usdc = 0\n    WHERE user_id = NEW.maker_id AND",
      "matches = matches\n    WHERE user_id = NEW.maker_id AND",
    ],
  }),
  ...ideas("migrations", "rfq/row-guards", {
    "schema: more promised than is there": ["promised BETWEEN 1 AND balance", "promised >= 1"],
  }),
  ...ideas("migrations", "rfq/set-aside", {
    "schema: a set-aside quote keeps its promise": [
      "iif(OLD.stuck_at IS NULL, promised - OLD.reserve,",
      "iif(1, promised - OLD.reserve,",
    ],
  }),
  ...ideas("migrations", "platform/append-only", {
    "schema: event numbers skip": [
      "    WHERE NEW.first_seq IS NOT (SELECT last_seq + 1",
      "    WHERE NEW.first_seq < (SELECT last_seq + 1",
    ],
    "schema: closed withdrawal changed": [
      "WHEN OLD.status IN ('settled', 'failed', 'cancelled') BEGIN",
      "WHEN OLD.status IN ('settled') BEGIN",
    ],
  }),
  ...ideas("migrations", "archive/sealer", {
    "archive: seal leaves transfers out": [
      "          IS NOT (s.number + 1, s.up_to_transfer, s.up_to_group, s.sha256)",
      "          IS NOT (s.number + 1, NEW.after_transfer, s.up_to_group, s.sha256)",
    ],
  }),
  ...ideas("migrations", "archive/release", {
    "archive: released with fewer transfers": [
      "      AND NEW.transfers <> (SELECT count(*) FROM transfers",
      "      AND NEW.transfers < (SELECT count(*) FROM transfers",
    ],
  }),
  ...ideas("migrations", "rfq/positions", {
    "a purchase costs no fee": [
      "iif(owner = m.requester_id, m.usdc_amount + m.taker_fee,",
      "iif(owner = m.requester_id, m.usdc_amount,",
    ],
    "a sum of trades rises without a trade": [
      "WHERE NEW.balance = OLD.balance OR NEW.traded_usdc < OLD.traded_usdc",
      "WHERE NEW.traded_usdc < OLD.traded_usdc",
    ],
  }),
  ...ideas("migrations", "rfq/pairs rfq/backing", {
    "schema: a pair pays what it does not hold": [
      "AND owner < CAST('pair;' AS BLOB),\n          0,",
      "AND owner < CAST('pair;' AS BLOB),\n          -1000,",
    ],
    "schema: the pair of a quote changes": [
      "BEFORE UPDATE OF complement ON quotes BEGIN",
      "BEFORE UPDATE OF complement ON quotes WHEN 0 BEGIN",
    ],
    "schema: a settled result is corrected": [
      "iif(condition IS NULL, settles_at, read_at) <= NEW.at",
      "0",
    ],
    "schema: a pair changes": ["NEW.complement IS NOT OLD.complement)", "0)"],
  }),
];
