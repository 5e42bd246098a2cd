-- Names of markets: which look the same, and how listed ones were corrected.

-- Title and outcome as texts are compared, each in a line. A market that an earlier version listed
-- has the letters A to Z in one case only, until it is set again.
-- Example: folded ’will it rain in paris on 1 june?\nyes’
ALTER TABLE markets ADD COLUMN folded TEXT NOT NULL DEFAULT '';
UPDATE markets SET folded = lower(title) || char(10) || lower(outcome);

-- What a listed market was called, as two operators have corrected it (`--correct`). Cron announces
-- each row to those who hold the token, in slices of accounts.
--
-- Example row:
--   correction_id 1, asset ’venue_one:0x1’, title ’Will it rain in Paris on 2 June?’,
--   outcome ’Yes’, previous_title ’Will it rain in Paris on 1 June?’, previous_outcome ’Yes’,
--   at 1780275600000, set_group 51, told_up_to 20000, told_group 52, told_at NULL
CREATE TABLE market_corrections (
  correction_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  asset TEXT NOT NULL,
  title TEXT NOT NULL,
  outcome TEXT NOT NULL,
  previous_title TEXT NOT NULL,
  previous_outcome TEXT NOT NULL,
  at INTEGER NOT NULL,
  set_group INTEGER NOT NULL,
  told_up_to INTEGER NOT NULL DEFAULT 0,  -- holders up to this account have the event
  told_group INTEGER,                     -- that announced the last slice
  told_at INTEGER                         -- when all holders had it
) STRICT;

-- Those to announce.
CREATE INDEX market_corrections_untold ON market_corrections (correction_id) WHERE told_at IS NULL;

-- As before, with the type of the event about a correction.
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
  END AS type,
  hex(substr(r.ids, 1 + 16 * ((r.event ->> 0) - (r.events ->> '$[0][0]')), 80)) AS ids,
  r.event AS body
FROM (
  SELECT r.*, e.key, iif(e.type = 'array', e.value, '[]') AS event
  FROM event_runs r CROSS JOIN json_each(iif(json_valid(r.events), r.events, '[]')) e
) r;
