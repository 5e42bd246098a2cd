-- Pairs: two tokens of a venue that are worth one USDC together. The house account `pair:<asset>`,
-- named after the smaller of the two keys, holds the USDC of the tokens that it has issued.

-- The other token of the pair, set once. NULL: not paired.
-- Example: complement ’venue_four:0x2’
ALTER TABLE markets ADD COLUMN complement TEXT;

-- Of a pair of a venue with a chain: the condition of its token contract, as 0x hex, set once with
-- the complement.
-- Example: condition ’0x9a1f…03d2’
ALTER TABLE markets ADD COLUMN condition TEXT;

-- Which outcome of the condition the token pays for.
-- Example: slot 0
ALTER TABLE markets ADD COLUMN slot INTEGER;

-- Of a condition: when its chain showed the result again that had settled. Only then is it final.
-- Example: read_at 1780279260000
ALTER TABLE markets ADD COLUMN read_at INTEGER;

-- Of what each holder gets, the millionths that the present pass pays.
-- Example: pays 1000000
ALTER TABLE markets ADD COLUMN pays INTEGER NOT NULL DEFAULT 0;

-- From then on a paired market’s result is final, and its holders are paid.
-- Example: settles_at 1780279200000
ALTER TABLE markets ADD COLUMN settles_at INTEGER;

-- When nobody held the token any more.
-- Example: paid_at 1780279260000
ALTER TABLE markets ADD COLUMN paid_at INTEGER;

-- Of a paired market: until then two operators can correct the result.
-- Example: settles_at 1780279200000
ALTER TABLE market_results ADD COLUMN settles_at INTEGER;

-- Tokens that a pair issued for USDC or took back for it, a row for each token. Written by
-- src/rfq/pairs/. Deleted a day after they were made, once their transfers are in the archive.
--
-- Example row:
--   redemption_id 019a…77c1, user_id 01a2…c585, asset ’venue_four:0x1’, pair 0x7061…3078,
--   kind ’merge’, amount 1000000, usdc_amount 317919, at 1764551353797, made_group 91,
--   key_hash 0x5b1e…07c2, terms_hash 0x91f4…d35a
CREATE TABLE redemptions (
  redemption_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  asset TEXT NOT NULL,
  pair BLOB NOT NULL,    -- the owner of the house account
  kind TEXT NOT NULL,    -- ’split’: USDC for both tokens, ’merge’: both for USDC, ’result’: a token
                         -- at its result
  amount INTEGER NOT NULL,
  usdc_amount INTEGER NOT NULL,
  at INTEGER NOT NULL,
  made_group INTEGER NOT NULL,
  key_hash BLOB,         -- as in requests
  terms_hash BLOB,
  CONSTRAINT redemptions_kind CHECK (kind IN ('split', 'merge', 'result')),
  CONSTRAINT redemptions_amount CHECK (amount > 0 AND usdc_amount BETWEEN 0 AND amount)
) STRICT, WITHOUT ROWID;

-- What a commit group made: its transfers, its events, and the reconciliation.
CREATE INDEX redemptions_group ON redemptions (made_group);

-- What an idempotency key has made.
CREATE INDEX redemptions_key ON redemptions (key_hash) WHERE key_hash IS NOT NULL;

CREATE TRIGGER redemptions_insert BEFORE INSERT ON redemptions BEGIN
  SELECT RAISE(ABORT, 'append-only: redemption exists')
    WHERE EXISTS (SELECT 1 FROM redemptions WHERE redemption_id = NEW.redemption_id);
END;

CREATE TRIGGER redemptions_update BEFORE UPDATE ON redemptions BEGIN
  SELECT RAISE(ABORT, 'append-only: redemption');
END;

-- Its transfers must be in the archive.
CREATE TRIGGER redemptions_delete BEFORE DELETE ON redemptions BEGIN
  SELECT RAISE(ABORT, 'append-only: redemption')
    WHERE EXISTS (SELECT 1 FROM transfers WHERE ref = OLD.redemption_id);
END;

-- The other token, if the pair takes part in the trade. Of a Bid: the maker gives USDC and gets the
-- complement. Of an Ask: the maker gives the complement and gets USDC. NULL: the maker gives and
-- gets what the requester gets and gives.
-- Example: complement ’venue_four:0x2’
ALTER TABLE quotes ADD COLUMN complement TEXT;

-- As in quotes.
-- Example: complement NULL
ALTER TABLE matches ADD COLUMN complement TEXT;

-- What backs a quote, if it is not what its side always reserves: ’usdc’ of a Bid, ’complement’ of
-- an Ask.
-- Example: backing ’usdc’
ALTER TABLE quote_commands ADD COLUMN backing TEXT;

-- A maker promises what they would give.
DROP TRIGGER quotes_promise;
DROP TRIGGER quotes_unpromise;
ALTER TABLE quotes DROP COLUMN reserve_asset;
ALTER TABLE quotes ADD COLUMN reserve_asset TEXT NOT NULL GENERATED ALWAYS AS (
  iif(side = 'Bid', iif(complement IS NULL, asset, 'usdc'), coalesce(complement, 'usdc'))) VIRTUAL;

-- As before, with the pair of a quote.
DROP VIEW quote_sides;
CREATE VIEW quote_sides AS
SELECT q.quote_id, q.request_id, r.requester_id, q.maker_id,
  q.asset, substr(q.asset, 1, instr(q.asset, ':') - 1) AS venue, q.side, q.amount, q.price,
  q.usdc_amount, q.taker_fee, q.maker_fee, q.credential, q.status, q.expires_at, q.complement,
  CAST('pair:' || min(q.asset, q.complement) AS BLOB) AS pair,
  r.status AS request_status, r.expires_at AS request_expires_at,
  iif(q.side = 'Bid', 'usdc', q.asset) AS given_asset,
  -- An amount above 2^62 is clamped here, no balance reaches it, so the comparison stays right.
  iif(q.side = 'Bid', q.usdc_amount + q.taker_fee, CAST(q.amount AS INTEGER)) AS given_amount,
  -- The same, exact, for texts.
  iif(q.side = 'Bid', CAST(q.usdc_amount + q.taker_fee AS TEXT), q.amount) AS given_amount_text
FROM quotes q JOIN requests r ON r.request_id = q.request_id;

-- What each side of a match gives and gets is a part of the trigger accept_commands_accept.
DROP VIEW match_sides;

-- As before, with the type of the event of a redeemed token.
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
    WHEN 27 THEN 'token.redeemed'
  END AS type,
  hex(substr(r.ids, 1 + 16 * ((r.event ->> 0) - (r.events ->> '$[0][0]')), 80)) AS ids,
  r.event AS body
FROM (
  SELECT r.*, e.key, iif(e.type = 'array', e.value, '[]') AS event
  FROM event_runs r CROSS JOIN json_each(iif(json_valid(r.events), r.events, '[]')) e
) r;
