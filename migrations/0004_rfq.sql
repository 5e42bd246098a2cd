-- RFQ

-- Requests for a price. Written by the verbs in src/rfq and committed by the asset’s book. Ended
-- ones are sealed and then deleted (src/archive/release.ts).
--
-- Example row:
--   request_id 019a…9ef4, requester_id 01a2…c585, asset ’venue_one:0x1’, amount ’1000000’,
--   usdc_amount NULL, side ’Bid’, disclosed 0, status ’matched’, opened_at 1764551300000,
--   expires_at 1764551900000,
--   opened_group 84, label NULL, key_hash 0x5b1e…07c2, terms_hash 0x91f4…d35a,
--   ended_by 019a…94b0, ended_group 91, stuck_at NULL
CREATE TABLE requests (
  request_id BLOB PRIMARY KEY NOT NULL,
  requester_id BLOB NOT NULL,
  asset TEXT NOT NULL,
  amount TEXT,                  -- any 256-bit number: nothing is set aside for a request
  usdc_amount INTEGER,          -- the size in USDC, of a request without an amount
  side TEXT NOT NULL,           -- ’Bid’: the requester buys the asset, ’Ask’: the requester sells
                                -- it, ’TwoWay’: either, as the accepted quote says
  disclosed INTEGER NOT NULL,   -- 1: others see requester_id
  status TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,  -- from then on it is expired, even while status is still ’open’
  opened_group INTEGER NOT NULL,
  label TEXT,                   -- the requester’s own, only they see it
  key_hash BLOB,                -- of user, route and idempotency key: 12 bytes. NULL: without a key
  terms_hash BLOB,              -- 4 bytes, a repeat with other terms is rejected
  ended_by BLOB,                -- of a matched request: the match id
  ended_group INTEGER,
  stuck_at INTEGER,             -- set aside by src/rfq/set-aside.ts, because ending it failed
  CONSTRAINT requests_status CHECK (status IN ('open', 'matched', 'cancelled', 'expired')),
  CONSTRAINT requests_side CHECK (side IN ('Bid', 'Ask', 'TwoWay')),
  CONSTRAINT requests_size CHECK ((amount IS NULL) <> (usdc_amount IS NULL)),
  CONSTRAINT requests_usdc_amount CHECK (usdc_amount BETWEEN 1 AND 4611686018427387904)
) STRICT, WITHOUT ROWID;

-- Open requests of one book or venue, newest first, and the snapshot of its stream.
CREATE INDEX requests_open_asset ON requests (asset, opened_at, request_id) WHERE status = 'open';

-- Open requests of every book, newest first.
CREATE INDEX requests_open_at ON requests (opened_at, request_id) WHERE status = 'open';

-- A user’s own requests of one status, newest first, and the number of open ones for the limit.
-- Lists of all statuses merge the four.
CREATE INDEX requests_user_status ON requests (requester_id, status, opened_at, request_id);

-- A user’s own requests with a label, newest first.
CREATE INDEX requests_label ON requests (requester_id, label, opened_at, request_id)
  WHERE label IS NOT NULL;

-- The request that an idempotency key has made (src/rfq/idempotency.ts).
CREATE INDEX requests_key ON requests (key_hash) WHERE key_hash IS NOT NULL;

-- What is due in a book, and its next expiry.
CREATE INDEX requests_due ON requests (asset, expires_at)
  WHERE status = 'open' AND stuck_at IS NULL;

-- What a commit group opened or ended: its events, its report, and the reconciliation. The request
-- that one operation of the group ended, whose quotes end with it.
CREATE INDEX requests_opened_group ON requests (opened_group);
CREATE INDEX requests_ended_group ON requests (ended_group, ended_by)
  WHERE ended_group IS NOT NULL;

-- An open request only ends, by an operation of the newest group, or is set aside.
CREATE TRIGGER requests_open BEFORE UPDATE ON requests WHEN OLD.status = 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a request')
    WHERE (NEW.request_id, NEW.requester_id, NEW.asset, NEW.amount, NEW.usdc_amount, NEW.side,
        NEW.disclosed, NEW.opened_at, NEW.expires_at, NEW.opened_group, NEW.label, NEW.key_hash,
        NEW.terms_hash)
      IS NOT (OLD.request_id, OLD.requester_id, OLD.asset, OLD.amount, OLD.usdc_amount, OLD.side,
        OLD.disclosed, OLD.opened_at, OLD.expires_at, OLD.opened_group, OLD.label, OLD.key_hash,
        OLD.terms_hash);
  SELECT RAISE(ABORT, 'append-only: a request ends by an operation of the newest group')
    WHERE iif(NEW.status = 'open', NEW.ended_by IS NOT NULL OR NEW.ended_group IS NOT NULL,
      NEW.ended_by IS NULL OR NEW.ended_group IS NOT (SELECT max(seq) FROM commit_groups));
END;

-- A request is deleted only when its seal is released.
CREATE TRIGGER requests_delete BEFORE DELETE ON requests BEGIN
  SELECT RAISE(ABORT, 'append-only: an open request') WHERE OLD.status = 'open';
  SELECT RAISE(ABORT, 'append-only: a request that is not sealed')
    WHERE (SELECT released_at FROM journal_seals WHERE up_to_group >= OLD.ended_group
      ORDER BY up_to_group, number LIMIT 1) IS NULL;
END;

-- An ended request never changes again: an accept cannot revive a cancelled one.
CREATE TRIGGER requests_closed BEFORE UPDATE ON requests WHEN OLD.status <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed request never moves');
END;

-- Nor can it be replaced under its id.
CREATE TRIGGER requests_insert BEFORE INSERT ON requests BEGIN
  SELECT RAISE(ABORT, 'append-only: request exists')
    WHERE EXISTS (SELECT 1 FROM requests WHERE request_id = NEW.request_id);
END;

-- Firm prices on requests. The maker’s side is promised while the quote is open
-- (accounts.promised), so no other debit takes it. Written by the verbs in src/rfq. Ended ones are
-- sealed and then deleted (src/archive/release.ts), an accepted one lives on as its match.
--
-- Example row:
--   quote_id 019a…fd49, request_id 019a…9ef4, maker_id 01a2…b1a6, credential 019a…77ab,
--   asset ’venue_one:0x1’, amount ’1000000’, side ’Bid’, price 317919, usdc_amount 317919,
--   taker_fee 0, maker_fee 0, reserve 1000000, status ’accepted’, opened_at 1764551330000,
--   expires_at 1764551390000, opened_group 88, label ’bot-7’, key_hash 0x77b0…9a1c,
--   terms_hash 0x0c5d…4e21, maker_open 3, cancel_reason NULL, replaced_by NULL,
--   ended_by 019a…94b0, ended_group 91, stuck_at NULL
CREATE TABLE quotes (
  quote_id BLOB PRIMARY KEY NOT NULL,
  request_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  credential BLOB NOT NULL,      -- the API key that placed it, or maker_id for a session
  asset TEXT NOT NULL,           -- copied from the request
  amount TEXT NOT NULL,          -- the request’s, or what its usdc_amount buys, rounded down
  side TEXT NOT NULL,            -- the request’s, or one of the two: as the requester sees it
  price INTEGER NOT NULL,        -- USDC per token, scaled by 1e6: 317919 is 0.317919
  usdc_amount INTEGER NOT NULL,  -- amount × price, rounded up
  taker_fee INTEGER NOT NULL,    -- USDC that the requester would pay
  maker_fee INTEGER NOT NULL,    -- USDC that the maker would pay
  -- what the maker promises, and how much of it
  reserve_asset TEXT NOT NULL GENERATED ALWAYS AS (iif(side = 'Bid', asset, 'usdc')) VIRTUAL,
  reserve INTEGER NOT NULL,
  status TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,   -- from then on it is expired, even while status is still ’open’
  opened_group INTEGER NOT NULL,
  label TEXT,                    -- the maker’s own, only they see it
  key_hash BLOB,                 -- as in requests
  terms_hash BLOB,
  maker_open INTEGER NOT NULL,   -- when it was placed, at most so many of the maker’s quotes were
                                 -- open, with this one (src/rfq/place-quote.ts)
  cancel_reason TEXT,            -- why a quote was cancelled that its maker did not cancel, only
                                 -- they see it
  replaced_by BLOB,              -- the quote that replaced it
  ended_by BLOB,                 -- of an accepted quote: the match id
  ended_group INTEGER,
  stuck_at INTEGER,              -- set aside by src/rfq/set-aside.ts, because ending it failed
  -- why it ended, as its maker reads it
  close_reason TEXT GENERATED ALWAYS AS (coalesce(cancel_reason, nullif(status, 'open'))) VIRTUAL,
  CONSTRAINT quotes_status CHECK (
    status = 'open' OR status IN ('accepted', 'cancelled', 'expired', 'rejected')
  ),
  CONSTRAINT quotes_price CHECK (price BETWEEN 1 AND 1000000),
  CONSTRAINT quotes_reserve CHECK (reserve > 0),
  CONSTRAINT quotes_cancel_reason CHECK (
    cancel_reason IS NULL
    OR status = 'cancelled'
      AND cancel_reason IN ('replaced', 'timeout', 'protection', 'disconnect', 'outbid')
  ),
  CONSTRAINT quotes_replaced_by CHECK ((replaced_by IS NULL) = (cancel_reason IS NOT 'replaced'))
) STRICT, WITHOUT ROWID;

-- Quotes on a request of one status from the best price on. Lists of all statuses merge the five.
-- The last columns are for the limits, which count the open quotes of a side, of all makers and of
-- one.
CREATE INDEX quotes_request_status
  ON quotes (request_id, status, price, opened_at, quote_id, maker_id, side, stuck_at);

-- A maker’s own quotes, newest first. The newest one bounds the number of those that are open.
CREATE INDEX quotes_maker ON quotes (maker_id, opened_at, quote_id, maker_open);

-- A maker’s own quotes with a label, newest first.
CREATE INDEX quotes_label ON quotes (maker_id, label, opened_at, quote_id)
  WHERE label IS NOT NULL;

-- The quote that an idempotency key has made (src/rfq/idempotency.ts).
CREATE INDEX quotes_key ON quotes (key_hash) WHERE key_hash IS NOT NULL;

-- A maker’s open quotes: all of them, their number for the limit, those that are due, and what they
-- reserve.
CREATE INDEX quotes_open_maker ON quotes (maker_id, expires_at) WHERE status = 'open';

-- What a commit group ended: its events, its report, the reconciliation and the seal. The quotes
-- that one operation of the group ended. What a group opened is found by the ids.
CREATE INDEX quotes_ended_group ON quotes (ended_group, ended_by) WHERE ended_group IS NOT NULL;

-- An open quote only ends, by an operation of the newest group, or is set aside. Its reserve must
-- stay what its maker has promised.
CREATE TRIGGER quotes_open BEFORE UPDATE ON quotes WHEN OLD.status = 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a quote')
    WHERE (NEW.quote_id, NEW.request_id, NEW.maker_id, NEW.credential, NEW.asset, NEW.amount,
        NEW.side, NEW.price, NEW.usdc_amount, NEW.taker_fee, NEW.maker_fee, NEW.reserve,
        NEW.opened_at, NEW.expires_at, NEW.opened_group, NEW.label, NEW.key_hash, NEW.terms_hash,
        NEW.maker_open)
      IS NOT (OLD.quote_id, OLD.request_id, OLD.maker_id, OLD.credential, OLD.asset, OLD.amount,
        OLD.side, OLD.price, OLD.usdc_amount, OLD.taker_fee, OLD.maker_fee, OLD.reserve,
        OLD.opened_at, OLD.expires_at, OLD.opened_group, OLD.label, OLD.key_hash, OLD.terms_hash,
        OLD.maker_open);
  SELECT RAISE(ABORT, 'append-only: a quote ends by an operation of the newest group')
    WHERE iif(NEW.status = 'open', NEW.ended_by IS NOT NULL OR NEW.ended_group IS NOT NULL,
      NEW.ended_by IS NULL OR NEW.ended_group IS NOT (SELECT max(seq) FROM commit_groups));
END;

-- What a quote reserves is promised while it is open. These two triggers alone write `promised`.
-- Their conditions repeat the CHECK of accounts, for the reason of transfers_post.
CREATE TRIGGER quotes_promise AFTER INSERT ON quotes WHEN NEW.status = 'open' BEGIN
  UPDATE accounts SET promised = promised + NEW.reserve
    WHERE owner = NEW.maker_id AND asset = NEW.reserve_asset AND kind = 'available'
      AND promised + NEW.reserve <= balance;
  SELECT RAISE(ABORT, 'balance not moved: the maker cannot promise it') WHERE changes() <> 1;
END;

-- A quote that was set aside ends whatever was promised for it. The promise becomes what the other
-- open quotes reserve.
CREATE TRIGGER quotes_unpromise AFTER UPDATE OF status ON quotes
WHEN OLD.status = 'open' AND NEW.status <> 'open' BEGIN
  UPDATE accounts SET promised = iif(OLD.stuck_at IS NULL, promised - OLD.reserve,
      (SELECT coalesce(sum(q.reserve), 0) FROM quotes q INDEXED BY quotes_open_maker
        WHERE q.maker_id = OLD.maker_id AND q.status = 'open'
          AND q.reserve_asset = OLD.reserve_asset))
    WHERE owner = OLD.maker_id AND asset = OLD.reserve_asset AND kind = 'available'
      AND (OLD.stuck_at IS NOT NULL OR promised >= OLD.reserve);
  SELECT RAISE(ABORT, 'balance not moved: nothing is promised for the quote')
    WHERE changes() <> 1;
END;

-- A quote is deleted only when its seal is released.
CREATE TRIGGER quotes_delete BEFORE DELETE ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: an open quote') WHERE OLD.status = 'open';
  SELECT RAISE(ABORT, 'append-only: a quote that is not sealed')
    WHERE (SELECT released_at FROM journal_seals WHERE up_to_group >= OLD.ended_group
      ORDER BY up_to_group, number LIMIT 1) IS NULL;
END;

-- An ended quote never changes again: its promise has ended, or it was traded.
CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN OLD.status <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed quote never moves');
END;

-- Nor can it be replaced under its id.
CREATE TRIGGER quotes_insert BEFORE INSERT ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: quote exists')
    WHERE EXISTS (SELECT 1 FROM quotes WHERE quote_id = NEW.quote_id);
END;

-- Commands that place quotes, in the order of arrival. Those of a commit group are inserted by
-- one statement (src/rfq/place-quote.ts). Always empty: the trigger quote_commands_place carries
-- out each command and stores none.
--
-- Example row:
--   quote_id 019a…fd49, request_id 019a…9ef4, maker_id 01a2…b1a6, api_key_id 019a…77aa,
--   session_epoch NULL, session_expires_at NULL, price 317919, amount ’1000000’, side ’Bid’,
--   usdc_amount 317919, taker_fee 0, maker_fee 0, reserve_asset ’venue_one:0x1’,
--   reserve 1000000, received_at 1764551329990, life_ms 60000, commit_before 1764551360990,
--   not_after NULL, label NULL, replaces NULL, max_open_quotes 1000, socket_id NULL,
--   key_hash 0x77b0…9a1c,
--   terms_hash 0x0c5d…4e21, at 1764551330000, placed_group 88
CREATE TABLE quote_commands (
  quote_id BLOB NOT NULL,
  request_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  api_key_id BLOB,                -- that sent it, NULL: a session did
  session_epoch INTEGER,          -- of the session that sent it
  session_expires_at INTEGER,     -- of the session that sent it
  price INTEGER NOT NULL,         -- up to `reserve`: the terms of the quote, as in quotes
  amount TEXT NOT NULL,
  side TEXT,                      -- NULL: not named on a two-way request
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,
  maker_fee INTEGER NOT NULL,
  reserve_asset TEXT NOT NULL,
  reserve INTEGER NOT NULL,       -- an amount above 2^63 is clamped, it is never available
  received_at INTEGER NOT NULL,   -- by the clock of the Worker
  life_ms INTEGER NOT NULL,       -- from received_at
  commit_before INTEGER NOT NULL,  -- a batch that hung until later places nothing
  not_after INTEGER,              -- the client’s deadline
  label TEXT,
  replaces BLOB,                  -- the quote that ends when this one is placed
  max_open_quotes INTEGER NOT NULL,
  socket_id BLOB,                 -- the armed socket on which it arrived
  key_hash BLOB,                  -- as in quotes, NULL: without a key
  terms_hash BLOB,
  at INTEGER NOT NULL,            -- the instant and the number of the commit group
  placed_group INTEGER NOT NULL
) STRICT;

-- What a commit group ends before its operations, one row for each group (src/rfq/expire.ts).
-- Always empty: the trigger expiry_commands_expire ends what is due and stores no
-- command.
--
-- Example row:
--   asset ’venue_one:0x1’, user_ids ’[”01a2…b1a6”]’, quote_ids ’[”019a…fd49”]’,
--   operation 019a…77aa, at 1764551330000, expired_group 88
CREATE TABLE expiry_commands (
  asset TEXT NOT NULL,     -- the book whose due quotes and requests end
  user_ids TEXT NOT NULL,  -- JSON array: the makers whose due quotes end in any book
  quote_ids TEXT,          -- JSON array: quotes of the book that may be due. NULL: not known
  operation BLOB NOT NULL,  -- stamped on the records as ended_by
  at INTEGER NOT NULL,     -- the instant and the number of the commit group
  expired_group INTEGER NOT NULL
) STRICT;

-- Trades. Written by src/rfq/accept-quote.ts in the commit that settles them. Sealed with their
-- transfers, and deleted a day later (src/archive/release.ts).
--
-- Example row:
--   match_id 019a…94b0, request_id 019a…9ef4, quote_id 019a…fd49, requester_id 01a2…c585,
--   maker_id 01a2…b1a6, asset ’venue_one:0x1’, side ’Bid’, amount 1000000, price 317919,
--   usdc_amount 317919, taker_fee 0, maker_fee 0, at 1764551353797, matched_group 91,
--   requester_label NULL, maker_label ’bot-7’
CREATE TABLE matches (
  match_id BLOB PRIMARY KEY NOT NULL,
  request_id BLOB NOT NULL,
  quote_id BLOB NOT NULL,
  requester_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  asset TEXT NOT NULL,
  side TEXT NOT NULL,          -- of the quote
  amount INTEGER NOT NULL,
  price INTEGER NOT NULL,      -- as in quotes
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,  -- USDC that the requester paid
  maker_fee INTEGER NOT NULL,  -- USDC that the maker paid
  at INTEGER NOT NULL,
  matched_group INTEGER NOT NULL,
  requester_label TEXT,        -- each party’s own, copied from the request and the quote
  maker_label TEXT
) STRICT, WITHOUT ROWID;

-- A request and a quote match at most once. A repeated accept finds its match by them.
CREATE UNIQUE INDEX matches_request_id_unique ON matches (request_id);
CREATE UNIQUE INDEX matches_quote_id_unique ON matches (quote_id);

-- A user’s matches on either side, newest first.
CREATE INDEX matches_requester ON matches (requester_id, at, match_id);
CREATE INDEX matches_maker ON matches (maker_id, at, match_id);

-- Those with a label of the user’s own, newest first.
CREATE INDEX matches_requester_label ON matches (requester_id, requester_label, at, match_id)
  WHERE requester_label IS NOT NULL;
CREATE INDEX matches_maker_label ON matches (maker_id, maker_label, at, match_id)
  WHERE maker_label IS NOT NULL;

-- The tape of the last 24 hours: of everything, of a book and of a venue. The end of an asset’s id
-- tells books apart, and takes less room than the whole.
CREATE INDEX matches_at ON matches (at, match_id);
CREATE INDEX matches_asset ON matches (substr(asset, -16), at, match_id);
CREATE INDEX matches_venue ON matches (substr(asset, 1, instr(asset, ':') - 1), at, match_id);

-- What a commit group matched: its events, its report, and the reconciliation.
CREATE INDEX matches_matched_group ON matches (matched_group);

-- None of the three keys may be taken again.
CREATE TRIGGER matches_insert BEFORE INSERT ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match exists')
    WHERE EXISTS (SELECT 1 FROM matches WHERE match_id = NEW.match_id
      OR request_id = NEW.request_id OR quote_id = NEW.quote_id);
END;

CREATE TRIGGER matches_update BEFORE UPDATE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match');
END;

-- A match is deleted only when the matches of its seal are released. All transfers and matches of a
-- seal are later than those of the one before.
CREATE TRIGGER matches_delete BEFORE DELETE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match')
    WHERE (SELECT matches_released_at FROM journal_seals WHERE last_at >= OLD.at
      ORDER BY last_at, number LIMIT 1) IS NULL;
END;

-- Counts the match for its maker’s protection, if the maker has set limits, and trips it when the
-- match reaches one. A trigger, because most makers have no protection: it costs their accepts one
-- lookup by primary key. The totals stop at 2^62, because an overflow would refuse the accept. They
-- trip the protection there, because they can no longer grow.
CREATE TRIGGER matches_protection AFTER INSERT ON matches
WHEN EXISTS (SELECT 1 FROM protections WHERE user_id = NEW.maker_id
  AND (max_matches IS NOT NULL OR max_usdc IS NOT NULL)) BEGIN
  INSERT INTO protection_counts (user_id, period, at, matches_before, usdc_before)
    SELECT user_id, period, NEW.at, matches, usdc FROM protections WHERE user_id = NEW.maker_id;
  UPDATE protections SET matches = matches + 1,
    usdc = min(usdc + NEW.usdc_amount, 4611686018427387904) WHERE user_id = NEW.maker_id;
  UPDATE protections SET tripped_at = NEW.at, blocked_until = NEW.at + cooldown_secs * 1000,
    tripped_by = NEW.match_id, period = period + 1, matches = 0, usdc = 0
    WHERE user_id = NEW.maker_id AND EXISTS (
      SELECT 1 FROM (SELECT c.matches_before, c.usdc_before FROM protection_counts c
        WHERE c.user_id = protections.user_id AND c.period = protections.period
          AND c.at > NEW.at - protections.window_secs * 1000
        ORDER BY c.at, c.matches_before LIMIT 1) f
      WHERE matches - f.matches_before >= max_matches OR usdc - f.usdc_before >= max_usdc
        OR (max_usdc IS NOT NULL AND usdc = 4611686018427387904));
END;

-- Cancel-after timers of credentials. Written by src/rfq/cancel-after.ts. One that has run out
-- stays, because its credential places no quote until it sets it again.
--
-- Example row:
--   credential 01a2…0c11, user_id 01a2…b1a6, cancel_at 1764551360000, closed 0
CREATE TABLE cancel_timers (
  credential BLOB PRIMARY KEY NOT NULL,  -- as in quotes
  user_id BLOB NOT NULL,
  cancel_at INTEGER NOT NULL,            -- from then on the credential’s quotes cannot be accepted
  closed INTEGER NOT NULL                -- 1: it has run out, and its quotes are closed
) STRICT;

-- The timers that still run, of one user or of all. A call that moves one writes no index row.
CREATE INDEX cancel_timers_running ON cancel_timers (user_id) WHERE closed = 0;

-- Sockets whose end cancels the open quotes of their key. Written before the socket is accepted and
-- deleted when it ends (src/rfq/cancel-on-disconnect.ts), so a quote of a socket without a row
-- comes too late.
--
-- Example row:
--   armed_id 7, socket_id 5b0e…9f10, user_id 01a2…b1a6, api_key_id 01a2…0c11,
--   stream ’account:01a2…b1a6’, asked_at 1764551290000, taken_over_at NULL
CREATE TABLE armed_sockets (
  armed_id INTEGER PRIMARY KEY NOT NULL,  -- a newer socket has a higher one
  socket_id BLOB NOT NULL,
  user_id BLOB NOT NULL,
  api_key_id BLOB NOT NULL,
  stream TEXT NOT NULL,
  asked_at INTEGER NOT NULL,              -- when it was armed, or cron asked its object
  taken_over_at INTEGER                   -- when it ended, if a newer socket of the key took over
) STRICT;

-- The socket on which a quote arrived, or that ended.
CREATE UNIQUE INDEX armed_sockets_id ON armed_sockets (socket_id);

-- The other sockets of a key on a stream.
CREATE INDEX armed_sockets_key ON armed_sockets (api_key_id, stream);

-- A maker’s protection: how many matches, and of how much USDC, trip it within a sliding window.
-- Written by src/rfq/protection.ts, and by the trigger matches_protection in the commit of a match.
-- One row for each user who has ever set it.
--
-- Example row:
--   user_id 01a2…b1a6, window_secs 60, max_matches 3, max_usdc 5000000000, cooldown_secs 300,
--   period 4, matches 1, usdc 317919, tripped_at NULL, blocked_until NULL, tripped_by NULL,
--   changed_group 87
CREATE TABLE protections (
  user_id BLOB PRIMARY KEY NOT NULL,
  window_secs INTEGER NOT NULL,
  max_matches INTEGER,             -- NULL: no limit, both limits NULL: off
  max_usdc INTEGER,
  cooldown_secs INTEGER,           -- NULL: it stays tripped until it is reset
  period INTEGER NOT NULL,         -- counting starts again with each: when it is saved, reset or
                                   -- tripped
  matches INTEGER NOT NULL,        -- as maker, in this period
  usdc INTEGER NOT NULL,           -- the sum of their usdc_amount, at most 2^62
  tripped_at INTEGER,              -- of the last trip, NULL once it is reset
  blocked_until INTEGER,           -- NULL with tripped_at: until it is reset
  tripped_by BLOB,                 -- the match that reached a limit
  changed_group INTEGER NOT NULL,  -- the last group that saved or reset it
  CONSTRAINT protections_window CHECK (window_secs > 0),
  CONSTRAINT protections_max_matches CHECK (max_matches > 0),
  CONSTRAINT protections_max_usdc CHECK (max_usdc > 0),
  CONSTRAINT protections_cooldown CHECK (cooldown_secs > 0)
) STRICT;

-- The matches that a protection counts, with its totals before each. What a window contains is the
-- total less the total before its first match, so that a match costs the same however many there
-- are. Deleted once no window reaches back to them (src/rfq/trim-rfq.ts).
--
-- Example row:
--   user_id 01a2…b1a6, period 4, at 1764551353797, matches_before 0, usdc_before 0
CREATE TABLE protection_counts (
  user_id BLOB NOT NULL,
  period INTEGER NOT NULL,
  at INTEGER NOT NULL,
  matches_before INTEGER NOT NULL,
  usdc_before INTEGER NOT NULL,
  PRIMARY KEY (user_id, period, at, matches_before)
) STRICT, WITHOUT ROWID;

-- What a user, or an API key with a limit for a day, gave in matches of a UTC hour. Written in the
-- commit of the match (src/auth/exposure.ts), so that a guard adds up at most 24 rows however many
-- matches there were. Deleted when the hour is no longer part of the last day.
--
-- Example row:
--   subject 01a2…c585, hour 490153, usdc 317919
CREATE TABLE traded_hours (
  subject BLOB NOT NULL,  -- a user or an API key
  hour INTEGER NOT NULL,  -- since 1970
  usdc INTEGER NOT NULL,  -- native units, tokens at 1 USDC each, at most 2^62
  PRIMARY KEY (subject, hour)
) STRICT, WITHOUT ROWID;

-- Deleting old rows.
CREATE INDEX traded_hours_age ON traded_hours (hour);

-- Venues that take no new business while their row exists. Written by the operator commands `venue
-- pause` and `venue resume`.
--
-- Example row:
--   venue ’venue_two’, since 1764551500000
CREATE TABLE paused_venues (
  venue TEXT PRIMARY KEY NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- What an asset is: its title and outcome for people, and when it stops trading. Written by the
-- operator commands `market set`, `market import` and `market close`. Never deleted, because an
-- asset whose row was gone could be traded again.
--
-- Example row:
--   asset ’venue_one:0x1’, title ’Will it rain in Paris on 1 June?’, outcome ’Yes’,
--   url ’https://venue-one.example/rain’, closes_at 1780272000000, closed_at NULL,
--   test 0, changed_group 40, result NULL
CREATE TABLE markets (
  asset TEXT PRIMARY KEY NOT NULL,
  title TEXT NOT NULL,
  outcome TEXT NOT NULL,
  url TEXT,                        -- where the venue describes it
  closes_at INTEGER,               -- from then on it is closed, NULL: never by itself
  closed_at INTEGER,               -- when an operator closed it
  test INTEGER NOT NULL DEFAULT false, -- left out of lists, tape and candles
  changed_group INTEGER NOT NULL,  -- of the newest change
  result INTEGER,                  -- of the newest row of market_results
  CONSTRAINT markets_result CHECK (result IS NULL OR closed_at IS NOT NULL)
) STRICT;

-- What changed since a reader last looked.
CREATE INDEX markets_changed_group ON markets (changed_group, asset);

-- A market has the result of the newest row. One that has a result never trades again.
CREATE TRIGGER markets_result BEFORE UPDATE ON markets
WHEN NEW.result IS NOT OLD.result BEGIN
  SELECT RAISE(ABORT, 'a result is set by market_results')
    WHERE (SELECT result FROM market_results WHERE asset = OLD.asset
      ORDER BY result_id DESC LIMIT 1) IS NOT NEW.result;
END;

CREATE TRIGGER markets_insert BEFORE INSERT ON markets WHEN NEW.result IS NOT NULL BEGIN
  SELECT RAISE(ABORT, 'a result is set by market_results');
END;

-- What a token of a market is worth, as two operators have set it (`market resolve`). A correction
-- is another row. Cron announces each row to those who hold the token, in slices of accounts.
--
-- Example row:
--   result_id 1, asset ’venue_one:0x1’, result 1000000, previous NULL, at 1780275600000,
--   set_group 51, told_up_to 20000, told_group 52, told_at NULL
CREATE TABLE market_results (
  result_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  asset TEXT NOT NULL,
  result INTEGER NOT NULL,                -- USDC for one token, scaled by 1e6
  previous INTEGER,                       -- the result that it corrects
  at INTEGER NOT NULL,
  set_group INTEGER NOT NULL,
  told_up_to INTEGER NOT NULL DEFAULT 0,  -- holders up to this account have the event
  told_group INTEGER,                     -- that announced the last slice
  told_at INTEGER,                        -- when all holders had it
  CONSTRAINT market_results_result CHECK (result BETWEEN 0 AND 1000000)
) STRICT;

-- Those to announce.
CREATE INDEX market_results_untold ON market_results (result_id) WHERE told_at IS NULL;

-- A result follows the one that the market has, and ends its trading.
CREATE TRIGGER market_results_insert BEFORE INSERT ON market_results BEGIN
  SELECT RAISE(ABORT, 'append-only: market result exists')
    WHERE EXISTS (SELECT 1 FROM market_results WHERE result_id = NEW.result_id);
  SELECT RAISE(ABORT, 'a result corrects the one before')
    WHERE NOT EXISTS (SELECT 1 FROM markets
      WHERE asset = NEW.asset AND result IS NEW.previous AND result IS NOT NEW.result);
END;

CREATE TRIGGER market_results_apply AFTER INSERT ON market_results BEGIN
  UPDATE markets SET result = NEW.result, closed_at = coalesce(closed_at, NEW.at),
      changed_group = NEW.set_group
    WHERE asset = NEW.asset;
END;

CREATE TRIGGER market_results_update BEFORE UPDATE ON market_results BEGIN
  SELECT RAISE(ABORT, 'append-only: market result')
    WHERE (NEW.result_id, NEW.asset, NEW.result, NEW.previous, NEW.at, NEW.set_group)
        IS NOT (OLD.result_id, OLD.asset, OLD.result, OLD.previous, OLD.at, OLD.set_group)
      OR NEW.told_up_to < OLD.told_up_to OR OLD.told_at IS NOT NULL;
END;

CREATE TRIGGER market_results_delete BEFORE DELETE ON market_results BEGIN
  SELECT RAISE(ABORT, 'append-only: market result');
END;
