-- Standing accepts, and a limit for the slips of makers.

-- Prices at which requesters accept the first quote that is as good, with the credential that set
-- them. Written by src/rfq/standing-accept.ts. Deleted once the request has ended
-- (src/rfq/trim-rfq.ts).
--
-- Example row:
--   request_id 019a…9ef4, requester_id 01a2…c585, side ’Bid’, price 650000,
--   api_key_id 019a…77aa, session_epoch NULL, session_expires_at NULL,
--   mac ’a1.kzQ3nGbZc1mP0rXv7TqYw2LhE9sJdU4oKf8aIiNe6Rg’, changed_by 019a…94b0, changed_group 88,
--   refused_for ’insufficient_funds’, refused_quote 019a…fd49, refused_group 91
CREATE TABLE standing_accepts (
  request_id BLOB PRIMARY KEY NOT NULL,
  requester_id BLOB NOT NULL,
  side TEXT NOT NULL,
  price INTEGER,                -- the worst one. NULL: removed, or the request has ended
  api_key_id BLOB,              -- as in quote_commands
  session_epoch INTEGER,
  session_expires_at INTEGER,
  mac TEXT,                     -- of the request’s terms and all above (standing-accept.ts)
  changed_by BLOB NOT NULL,     -- the command that set the price last
  changed_group INTEGER NOT NULL,
  refused_for TEXT,             -- why a quote that was as good was not accepted, once for a price
  refused_quote BLOB,
  refused_group INTEGER,
  CONSTRAINT standing_accepts_side CHECK (side IN ('Bid', 'Ask')),
  CONSTRAINT standing_accepts_price CHECK (price BETWEEN 1 AND 1000000)
) STRICT, WITHOUT ROWID;

-- Those that are over.
CREATE INDEX standing_accepts_over ON standing_accepts (request_id) WHERE price IS NULL;

-- Commands that accept quotes, in the order of arrival. Those of a commit group are inserted by one
-- statement (src/rfq/accept-quote.ts). Always empty: the trigger accept_commands_accept carries out
-- each command and stores none.
--
-- Example row:
--   match_id 019a…94b0, requester_id 01a2…c585, api_key_id 019a…77aa, session_epoch NULL,
--   session_expires_at NULL, received_at 1764551329990, commit_before 1764551360990,
--   not_after NULL, cancels_others 1, standing NULL, at 1764551330000, accepted_group 91,
--   quote_id 019a…fd49, request_id 019a…9ef4, maker_id 01a2…b1a6, credential 019a…77ab,
--   asset ’venue_one:0x1’, complement NULL, side ’Bid’, price 317919, amount 1000000,
--   usdc_amount 317919, taker_fee 0, maker_fee 0, reserve 1000000,
--   reserve_asset ’venue_one:0x1’, maker_label ’bot-7’
CREATE TABLE accept_commands (
  match_id BLOB NOT NULL,
  requester_id BLOB NOT NULL,
  api_key_id BLOB,                 -- as in quote_commands
  session_epoch INTEGER,
  session_expires_at INTEGER,
  received_at INTEGER NOT NULL,    -- as in quote_commands
  commit_before INTEGER NOT NULL,
  not_after INTEGER,
  cancels_others INTEGER NOT NULL, -- 1: with the other quotes of a maker whose protection it trips
  standing TEXT,                   -- the terms of the standing accept that it is for
  at INTEGER NOT NULL,
  accepted_group INTEGER NOT NULL,
  quote_id BLOB NOT NULL,          -- what follows is copied from the quote, which never changes it
  request_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  credential BLOB NOT NULL,
  asset TEXT NOT NULL,
  complement TEXT,
  side TEXT NOT NULL,
  price INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,
  maker_fee INTEGER NOT NULL,
  reserve INTEGER NOT NULL,
  reserve_asset TEXT NOT NULL,
  maker_label TEXT
) STRICT;

-- How far a quote may be from the last price of its asset, scaled by 1e6. NULL: no limit.
-- Example: max_deviation 50000
ALTER TABLE protections ADD COLUMN max_deviation INTEGER
  CONSTRAINT protections_max_deviation CHECK (max_deviation > 0);

-- 1: the maker means the price, however far it is. NULL: not said.
-- Example: confirm_price NULL
ALTER TABLE quote_commands ADD COLUMN confirm_price INTEGER;

-- A smaller trade sets no last price.
-- Example: min_priced 1000000
ALTER TABLE quote_commands ADD COLUMN min_priced INTEGER;

-- As before, with the type of the event of a refused standing accept.
DROP VIEW stream_events;
CREATE VIEW stream_events AS
SELECT r.run_id, r.stream_id, r.last_seq AS run_seq, r.first_seq + r.key AS seq, r.at,
  r.event ->> 1 AS code,
  CASE r.event ->> 1
    WHEN 1 THEN 'request.opened'
    WHEN 2 THEN 'request.closed'
    WHEN 3 THEN 'quote.opened'
    WHEN 4 THEN 'quote.received'
    WHEN 5 THEN 'quote.closed'
    WHEN 6 THEN 'quote.closed'
    WHEN 7 THEN 'match.created'
    WHEN 8 THEN 'trade.printed'
    WHEN 9 THEN 'protection.tripped'
    WHEN 10 THEN 'protection.reset'
    WHEN 11 THEN 'deposit.detected'
    WHEN 12 THEN 'deposit.credited'
    WHEN 13 THEN 'deposit.orphaned'
    WHEN 14 THEN 'deposit.quarantined'
    WHEN 15 THEN 'deposit.below_minimum'
    WHEN 16 THEN 'withdrawal.awaiting_approval'
    WHEN 17 THEN 'withdrawal.queued'
    WHEN 18 THEN 'withdrawal.submitted'
    WHEN 19 THEN 'withdrawal.settled'
    WHEN 20 THEN 'withdrawal.failed'
    WHEN 21 THEN 'withdrawal.cancelled'
    WHEN 22 THEN 'account.notice'
    WHEN 23 THEN 'request.closed'
    WHEN 24 THEN 'market.result'
    WHEN 25 THEN 'market.corrected'
    WHEN 26 THEN 'accept.refused'
  END AS type,
  hex(substr(r.ids, 1 + 16 * ((r.event ->> 0) - (r.events ->> '$[0][0]')), 80)) AS ids,
  r.event AS body
FROM (
  SELECT r.*, e.key, iif(e.type = 'array', e.value, '[]') AS event
  FROM event_runs r CROSS JOIN json_each(iif(json_valid(r.events), r.events, '[]')) e
) r;
