-- Reconciliation and archive

-- How far each scan of the reconciliation has come (src/reconcile/reconcile.ts). One row per scan.
--
-- Example row:
--   scan ’transfers’, position 15, mark ’’, finished_at 1764551750000
CREATE TABLE ledger_checkpoints (
  scan TEXT PRIMARY KEY NOT NULL,  -- ’transfers’, ’groups’, ’accounts’, ’streams’, ’rights’, each
                                   -- also with ’full_’ before it, or ’assets:<chain>’
  position INTEGER NOT NULL,       -- the last transfer, commit group, account, stream or user
                                   -- checked
  mark TEXT NOT NULL,              -- of ’assets:<chain>’: the last asset, of a full scan until it
                                   -- ends: ’running’, or the last transfer that it checks
  finished_at INTEGER              -- when the scan last reached the end
) STRICT;

-- Each account’s balance and sums of trades at the checkpoint of a scan over transfers, from which
-- the next transfers are checked.
--
-- Example row:
--   scan ’transfers’, account_id 1, balance 99999682081, traded 0, traded_usdc 0
CREATE TABLE checked_balances (
  scan TEXT NOT NULL,  -- ’transfers’ or ’full_transfers’
  account_id INTEGER NOT NULL,
  balance INTEGER NOT NULL,
  traded INTEGER NOT NULL DEFAULT 0,
  traded_usdc INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scan, account_id)
) STRICT, WITHOUT ROWID;

-- Assets of which a chain held less than the journal has issued. A second block that shows it too
-- pauses withdrawals. Deleted when the holdings suffice again.
--
-- Example row:
--   chain ’polygon’, asset ’usdc’, block 94, missing ’250000’
CREATE TABLE shortfalls (
  chain TEXT NOT NULL,
  asset TEXT NOT NULL,
  block INTEGER NOT NULL,  -- the first confirmed block that showed it
  missing TEXT NOT NULL,   -- native units, at the latest look
  PRIMARY KEY (chain, asset)
) STRICT;

-- The chain of seals. A seal is an object in R2 with a closed range of the journal and the records
-- that ended in it (src/archive/seal-format.ts). Its row is written once the object has been read
-- back and verified. Rows stay.
--
-- Example row:
--   number 1, epoch 1, after_transfer 0, up_to_transfer 15, after_group 0, up_to_group 96,
--   transfers 15, requests 1, quotes 1, matches 1, last_at 1764551698000, bytes 1842,
--   previous 0x0000…0000, sha256 0x3c1f…a90e, sealed_at 1764555000000,
--   delivered_at 1764555000100, released_at 1764555120200, held 2, matches_released_at NULL
CREATE TABLE journal_seals (
  number INTEGER PRIMARY KEY NOT NULL,
  epoch INTEGER NOT NULL,             -- rises with a restore, part of the object’s key
  after_transfer INTEGER NOT NULL,    -- contains the transfers after this one
  up_to_transfer INTEGER NOT NULL,    -- up to this one
  after_group INTEGER NOT NULL,       -- and the requests and quotes that ended after this group,
  up_to_group INTEGER NOT NULL,       -- up to this one
  transfers INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  quotes INTEGER NOT NULL,
  matches INTEGER NOT NULL,
  last_at INTEGER NOT NULL,           -- the last transfer’s instant, of a seal without any, that of
                                      -- the seal before
  bytes INTEGER NOT NULL,             -- of the object
  previous BLOB NOT NULL,             -- hash of the seal before, zeros: there is none
  sha256 BLOB NOT NULL,
  sealed_at INTEGER NOT NULL,
  delivered_at INTEGER,               -- from then on nobody reads its transfers in this database
  released_at INTEGER,                -- from then on its transfers, requests and quotes are deleted
                                      -- here, in slices, except those held
  held INTEGER,                       -- transfers that stayed, NULL until all others are deleted
  matches_released_at INTEGER         -- its matches were deleted here
) STRICT;

-- The last delivered seal, above which entries are read.
CREATE INDEX journal_seals_delivered ON journal_seals (number) WHERE delivered_at IS NOT NULL;

-- The next seal to release.
CREATE INDEX journal_seals_unreleased ON journal_seals (number) WHERE held IS NULL;

-- The last released seal, and the last one whose matches are released.
CREATE INDEX journal_seals_released ON journal_seals (number) WHERE released_at IS NOT NULL;
CREATE INDEX journal_seals_matches_released ON journal_seals (number)
  WHERE matches_released_at IS NOT NULL;

-- The next seal whose matches are to be released.
CREATE INDEX journal_seals_matches_unreleased ON journal_seals (number)
  WHERE matches_released_at IS NULL AND held IS NOT NULL AND matches > 0;

-- The seal that contains a transfer, a request or a match.
CREATE INDEX journal_seals_up_to ON journal_seals (up_to_transfer, number);
CREATE INDEX journal_seals_up_to_group ON journal_seals (up_to_group, number);
CREATE INDEX journal_seals_last_at ON journal_seals (last_at, number);

-- A seal continues the one before it. So of two that were made of one range, one is rejected.
CREATE TRIGGER journal_seals_insert BEFORE INSERT ON journal_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: journal seal exists')
    WHERE EXISTS (SELECT 1 FROM journal_seals WHERE number >= NEW.number);
  SELECT RAISE(ABORT, 'append-only: a journal seal continues the one before')
    WHERE EXISTS (
      SELECT 1 FROM (SELECT * FROM journal_seals ORDER BY number DESC LIMIT 1) s
      WHERE (NEW.number, NEW.after_transfer, NEW.after_group, NEW.previous)
          IS NOT (s.number + 1, s.up_to_transfer, s.up_to_group, s.sha256)
        OR NEW.epoch < s.epoch OR NEW.sealed_at < s.sealed_at);
  SELECT RAISE(ABORT, 'append-only: a journal seal goes forward')
    WHERE NEW.up_to_transfer < NEW.after_transfer OR NEW.up_to_group < NEW.after_group
      OR length(NEW.previous) <> 32 OR length(NEW.sha256) <> 32;
END;

-- A seal is delivered, then released, each once and in order. When it is released, its transfers
-- are all there, when they have been deleted, exactly those held are left.
CREATE TRIGGER journal_seals_update BEFORE UPDATE ON journal_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: journal seal')
    WHERE (NEW.number, NEW.epoch, NEW.after_transfer, NEW.up_to_transfer, NEW.after_group,
        NEW.up_to_group, NEW.transfers, NEW.requests, NEW.quotes, NEW.matches, NEW.last_at,
        NEW.bytes, NEW.previous, NEW.sha256, NEW.sealed_at)
      IS NOT (OLD.number, OLD.epoch, OLD.after_transfer, OLD.up_to_transfer, OLD.after_group,
        OLD.up_to_group, OLD.transfers, OLD.requests, OLD.quotes, OLD.matches, OLD.last_at,
        OLD.bytes, OLD.previous, OLD.sha256, OLD.sealed_at)
      OR coalesce(OLD.delivered_at, NEW.delivered_at) IS NOT NEW.delivered_at
      OR coalesce(OLD.released_at, NEW.released_at) IS NOT NEW.released_at
      OR coalesce(OLD.held, NEW.held) IS NOT NEW.held
      OR coalesce(OLD.matches_released_at, NEW.matches_released_at)
        IS NOT NEW.matches_released_at
      OR (NEW.matches_released_at IS NOT NULL AND OLD.held IS NULL)
      OR (NEW.released_at IS NOT NULL AND OLD.delivered_at IS NULL)
      OR (NEW.held IS NOT NULL AND OLD.released_at IS NULL);
  SELECT RAISE(ABORT, 'append-only: journal seals are delivered and released in order')
    WHERE EXISTS (SELECT 1 FROM journal_seals s WHERE s.number = NEW.number - 1
      AND ((NEW.delivered_at IS NOT NULL AND s.delivered_at IS NULL)
        OR (NEW.released_at IS NOT NULL AND s.held IS NULL)
        OR (NEW.matches_released_at IS NOT NULL AND s.matches > 0
          AND s.matches_released_at IS NULL)));
  SELECT RAISE(ABORT, 'append-only: the journal is not what was sealed')
    WHERE NEW.released_at IS NOT NULL AND OLD.released_at IS NULL
      AND NEW.transfers <> (SELECT count(*) FROM transfers
        WHERE transfer_id > NEW.after_transfer AND transfer_id <= NEW.up_to_transfer);
  SELECT RAISE(ABORT, 'append-only: other transfers are left than are held')
    WHERE NEW.held IS NOT NULL AND OLD.held IS NULL
      AND NEW.held <> (SELECT count(*) FROM transfers
        WHERE transfer_id > NEW.after_transfer AND transfer_id <= NEW.up_to_transfer);
END;

CREATE TRIGGER journal_seals_delete BEFORE DELETE ON journal_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: journal seal');
END;

-- Each account’s balance and sums of trades at the end of the last seal. Written in the batch that
-- stores the seal, from the rows that it contains.
--
-- Example row:
--   account_id 1, balance 99999682081, traded 0, traded_usdc 0
CREATE TABLE sealed_balances (
  account_id INTEGER PRIMARY KEY NOT NULL,
  balance INTEGER NOT NULL,
  traded INTEGER NOT NULL DEFAULT 0,
  traded_usdc INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The owners with a block in a seal. Written in the batch that stores the seal. Each block names
-- the owner’s block before it, so the last one leads to all of them.
--
-- Example row:
--   owner 01a2…c585, first_seal 1, last_seal 1, last_request_at NULL,
--   last_quote_at 1764551330000, last_match_at 1764551353797
CREATE TABLE sealed_owners (
  owner BLOB PRIMARY KEY NOT NULL,
  first_seal INTEGER NOT NULL,
  last_seal INTEGER NOT NULL,
  last_request_at INTEGER,  -- when the newest sealed request of the owner was opened, NULL: none is
  last_quote_at INTEGER,    -- the same of quotes
  last_match_at INTEGER     -- when the newest sealed match was made
) STRICT, WITHOUT ROWID;

-- Rows only grow. Also refuses INSERT OR REPLACE, which deletes without the guard of deletions.
CREATE TRIGGER sealed_owners_insert BEFORE INSERT ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: sealed owner exists')
    WHERE EXISTS (SELECT 1 FROM sealed_owners WHERE owner = NEW.owner);
  SELECT RAISE(ABORT, 'append-only: an owner begins with the newest seal')
    WHERE NOT EXISTS (SELECT 1 FROM journal_seals
      WHERE number = NEW.first_seal AND number = NEW.last_seal
        AND number = (SELECT max(number) FROM journal_seals));
END;

CREATE TRIGGER sealed_owners_update BEFORE UPDATE ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: a sealed owner only grows')
    WHERE NEW.owner <> OLD.owner OR NEW.first_seal <> OLD.first_seal
      OR NEW.last_seal < OLD.last_seal
      OR NEW.last_seal > (SELECT max(number) FROM journal_seals)
      OR (OLD.last_request_at IS NOT NULL
        AND coalesce(NEW.last_request_at < OLD.last_request_at, 1))
      OR (OLD.last_quote_at IS NOT NULL AND coalesce(NEW.last_quote_at < OLD.last_quote_at, 1))
      OR (OLD.last_match_at IS NOT NULL AND coalesce(NEW.last_match_at < OLD.last_match_at, 1));
END;

CREATE TRIGGER sealed_owners_delete BEFORE DELETE ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: sealed owner');
END;

-- Has a row only inside the batch of the operator command that writes rows of sealed_owners anew
-- from the archive. Lets that batch past their guards.
--
-- Example row:
--   one 1
CREATE TABLE owner_mends (
  one INTEGER PRIMARY KEY NOT NULL,
  CONSTRAINT owner_mends_one CHECK (one = 1)
) STRICT;

-- What the matches that have left the database were worth, by UTC day. Written in the batch that
-- deletes them, and read by the operator’s `fees`. Sums stop at 2^62.
--
-- Example row:
--   day 20422, venue ’venue_one’, trades 1, usdc_amount 317919, taker_fee 0, maker_fee 0
CREATE TABLE venue_days (
  day INTEGER NOT NULL,  -- days since 1970-01-01
  venue TEXT NOT NULL,
  trades INTEGER NOT NULL,
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,
  maker_fee INTEGER NOT NULL,
  PRIMARY KEY (day, venue)
) STRICT, WITHOUT ROWID;

-- Candles: the prices and sums of an asset’s trades in a minute, an hour or a UTC day, of which
-- there is a row only if somebody traded. Each match before `candle_cursor` is added once
-- (src/archive/candles.ts). Minutes are deleted after two days, hours after 90 days.
--
-- Example row:
--   asset ’venue_one:0x1’, step 60, start 29409180, open 650000, high 660000, low 650000,
--   close 655000, amount 3000000, usdc_amount 1965000, trades 3, last_at 1764551353797
CREATE TABLE candles (
  asset TEXT NOT NULL,
  step INTEGER NOT NULL,         -- in minutes: 1, 60 or 1440
  start INTEGER NOT NULL,        -- in minutes since 1970-01-01
  open INTEGER NOT NULL,         -- prices, scaled by 1e6
  high INTEGER NOT NULL,
  low INTEGER NOT NULL,
  close INTEGER NOT NULL,
  amount INTEGER NOT NULL,       -- sums, which stop at 2^62
  usdc_amount INTEGER NOT NULL,
  trades INTEGER NOT NULL,
  last_at INTEGER NOT NULL,      -- instant of the last trade
  PRIMARY KEY (asset, step, start)
) STRICT, WITHOUT ROWID;

-- The newest hours of all assets, and the rows to delete.
CREATE INDEX candles_start ON candles (step, start) WHERE step < 1440;

-- The minute before which all matches are in candles. One row.
--
-- Example row:
--   one 1, minute 29409235, moved_group 96
CREATE TABLE candle_cursor (
  one INTEGER PRIMARY KEY NOT NULL,
  minute INTEGER NOT NULL,
  moved_group INTEGER NOT NULL,  -- that moved it last
  CONSTRAINT candle_cursor_one CHECK (one = 1)
) STRICT;
