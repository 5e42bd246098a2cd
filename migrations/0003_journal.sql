-- Journal

-- One balance per owner, asset and kind. Rows are opened by src/ledger/post.ts. Their balance moves
-- only while a transfer is posted, and `promised` only while a quote is placed or ends. Never
-- deleted.
--
-- A user’s account of an outcome token also sums its trades: the available account what was bought,
-- the pending account what was sold.
--
-- Example row:
--   account_id 1, owner 01a2…c585, asset ’usdc’, kind ’available’, balance 99999682081,
--   promised 0, sub_account 2, traded 0, traded_usdc 0
CREATE TABLE accounts (
  account_id INTEGER PRIMARY KEY NOT NULL,
  owner BLOB NOT NULL,       -- a user id, or the name of a house account in bytes:
                             -- ’external:<chain>’, ’fees’
  asset TEXT NOT NULL,
  kind TEXT NOT NULL,
  balance INTEGER NOT NULL,  -- of an external account: negative, what the service has issued on the
                             -- chain
  promised INTEGER NOT NULL DEFAULT 0,  -- of an available account: the sum of what its owner’s open
                                        -- quotes reserve, which no transfer can take
  sub_account INTEGER,       -- numbers the user’s available or pending accounts of all assets as
                             -- one: 2 × the first account_id of the owner, + 1 for pending. NULL:
                             -- a house account
  traded INTEGER NOT NULL DEFAULT 0,       -- of an available account: all that was bought, of a
                                           -- pending one: all that was sold
  traded_usdc INTEGER NOT NULL DEFAULT 0,  -- what was paid or received for it: the cost with the
                                           -- fee of a purchase, less the fee of a sale
  CONSTRAINT accounts_kind CHECK (kind IN ('available', 'pending', 'external', 'fees')),
  CONSTRAINT accounts_balance CHECK (
    balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904
  ),
  CONSTRAINT accounts_promised CHECK (
    promised = 0 OR kind = 'available' AND promised BETWEEN 1 AND balance
  ),
  CONSTRAINT accounts_traded CHECK (
    traded = 0 AND traded_usdc = 0
    OR kind IN ('available', 'pending') AND asset <> 'usdc'
      AND traded BETWEEN 1 AND 4611686018427387904
      AND traded_usdc BETWEEN 0 AND 4611686018427387904
  )
) STRICT;

-- Guards and postings find accounts by it. A user’s balances come in the order of their assets.
CREATE UNIQUE INDEX accounts_owner ON accounts (owner, asset, kind);

-- Neither key may be taken again, and money enters an account by transfers only.
CREATE TRIGGER accounts_insert BEFORE INSERT ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account exists')
    WHERE EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.account_id)
      OR EXISTS (SELECT 1 FROM accounts
        WHERE owner = NEW.owner AND asset = NEW.asset AND kind = NEW.kind);
  SELECT RAISE(ABORT, 'an account starts at zero') WHERE NEW.balance <> 0 OR NEW.promised <> 0
    OR NEW.traded <> 0 OR NEW.traded_usdc <> 0;
  SELECT RAISE(ABORT, 'append-only: the database numbers sub-accounts')
    WHERE NEW.sub_account IS NOT NULL;
END;

-- Numbers a user’s account. The first account of an owner gives the owner’s number.
CREATE TRIGGER accounts_number AFTER INSERT ON accounts
WHEN NEW.kind IN ('available', 'pending') BEGIN
  UPDATE accounts SET sub_account = (NEW.kind = 'pending') + 2 * coalesce(
      (SELECT a.sub_account / 2 FROM accounts a
        WHERE a.owner = NEW.owner AND a.sub_account IS NOT NULL LIMIT 1),
      NEW.account_id)
    WHERE account_id = NEW.account_id;
END;

CREATE TRIGGER accounts_delete BEFORE DELETE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account');
END;

-- accounts_number sets the sub-account once. After that a balance changes only to what the newest
-- transfer left on the account, from what was there before it: no other statement can move money.
CREATE TRIGGER accounts_update BEFORE UPDATE ON accounts
WHEN NEW.balance <> OLD.balance BEGIN
  SELECT RAISE(ABORT, 'a balance moves only by a transfer') WHERE NOT EXISTS (
    SELECT 1 FROM (SELECT * FROM transfers ORDER BY transfer_id DESC LIMIT 1) t
    WHERE (t.from_account = OLD.account_id AND NEW.balance = t.from_balance
        AND OLD.balance = t.from_balance + t.amount)
      OR (t.to_account = OLD.account_id AND NEW.balance = t.to_balance
        AND OLD.balance = t.to_balance - t.amount));
END;

-- The sums of trades grow only with a balance that a trade moves, and by what it moves.
CREATE TRIGGER accounts_sums BEFORE UPDATE ON accounts
WHEN NEW.traded <> OLD.traded OR NEW.traded_usdc <> OLD.traded_usdc BEGIN
  SELECT RAISE(ABORT, 'a sum of trades grows only by a trade')
    WHERE NEW.balance = OLD.balance OR NEW.traded_usdc < OLD.traded_usdc
      OR (SELECT iif(reason = 6, amount, 0) FROM transfers ORDER BY transfer_id DESC LIMIT 1)
        IS NOT NEW.traded - OLD.traded;
END;

CREATE TRIGGER accounts_identity BEFORE UPDATE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account')
    WHERE NEW.account_id <> OLD.account_id OR NEW.owner <> OLD.owner
      OR NEW.asset <> OLD.asset OR NEW.kind <> OLD.kind
      OR (NEW.sub_account IS NOT OLD.sub_account AND NOT (OLD.sub_account IS NULL
        AND OLD.kind IN ('available', 'pending') AND NEW.balance = OLD.balance));
END;

-- The journal: one row moves one amount from one account to another, so the whole always sums to
-- zero. An entry of the public ledger is one side of it: entry 2t is the debit of transfer t, entry
-- 2t + 1 the credit. Written by src/ledger/post.ts only. Kept for ever, here or in a seal.
--
-- Example row: accepting a quote sets the requester’s USDC aside.
--   transfer_id 9, from_account 1, to_account 2, amount 317919, reason 4, ref 019a…94b0, step 1,
--   line 0, at 1764551353797, from_balance 99999682081, to_balance 317919, from_sub_account 2,
--   to_sub_account NULL
CREATE TABLE transfers (
  -- AUTOINCREMENT, because a restore moves the sequence past every id ever given
  transfer_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  from_account INTEGER NOT NULL,
  to_account INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  -- Codes of src/ledger/codes.ts: 1 deposit, 2 withdrawal, 3 reserve_rfq, 4 reserve_trade,
  -- 5 release, 6 trade, 7 fee.
  reason INTEGER NOT NULL,
  ref BLOB NOT NULL,      -- the record that caused it: a deposit, quote, match or withdrawal
  step INTEGER NOT NULL,  -- of the record’s life: 1 reserve, 2 end, 3 match, 4 credit, 5 queue
  line INTEGER NOT NULL,  -- 0, and 1 for the second fee of a match
  at INTEGER NOT NULL,
  from_balance INTEGER,   -- what the transfer left on each account, filled in by transfers_fill
  to_balance INTEGER,
  -- The accounts’ sub-accounts, filled in by transfers_fill for the indexes below. NULL: a house
  -- account, or a credit whose debit the same owner gave.
  from_sub_account INTEGER,
  to_sub_account INTEGER,
  CONSTRAINT transfers_amount CHECK (amount > 0 AND amount <= 4611686018427387904),
  CONSTRAINT transfers_accounts CHECK (from_account <> to_account),
  CONSTRAINT transfers_reason CHECK (reason BETWEEN 1 AND 7),
  CONSTRAINT transfers_step CHECK (step BETWEEN 1 AND 5)
) STRICT;

-- Posting exactly once: a quote is traded once, and a withdrawal ends once.
CREATE UNIQUE INDEX transfers_once ON transfers (ref, step, line);

-- Reading a ledger: one side of a sub-account, or of an account for some assets, for one reason, in
-- order. Each ends in the rowid, transfer_id. The credit of a reserve or of a release is found by
-- its debit, which the same owner gave, so only other credits are indexed.
CREATE INDEX transfers_from_sub_account ON transfers (from_sub_account, reason)
  WHERE from_sub_account IS NOT NULL;
CREATE INDEX transfers_to_sub_account ON transfers (to_sub_account, reason)
  WHERE to_sub_account IS NOT NULL;
CREATE INDEX transfers_from ON transfers (from_account, reason);
CREATE INDEX transfers_to ON transfers (to_account, reason) WHERE reason NOT BETWEEN 3 AND 5;

-- Completes a row: computes what it leaves on both accounts, and inserts it so instead of the row
-- without. A statement inserts its rows one after the other, so each sees those before it.
CREATE TRIGGER transfers_fill BEFORE INSERT ON transfers WHEN NEW.from_balance IS NULL BEGIN
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers')
    WHERE NEW.transfer_id IS NOT NULL AND NEW.transfer_id <> -1;
  SELECT RAISE(ABORT, 'append-only: balances are filled by the journal')
    WHERE NEW.to_balance IS NOT NULL OR NEW.from_sub_account IS NOT NULL
      OR NEW.to_sub_account IS NOT NULL;
  INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at,
      from_balance, to_balance, from_sub_account, to_sub_account)
    VALUES (NEW.from_account, NEW.to_account, NEW.amount, NEW.reason, NEW.ref, NEW.step, NEW.line,
      NEW.at,
      (SELECT balance - NEW.amount FROM accounts WHERE account_id = NEW.from_account),
      (SELECT balance + NEW.amount FROM accounts WHERE account_id = NEW.to_account),
      (SELECT sub_account FROM accounts WHERE account_id = NEW.from_account),
      iif(NEW.reason IN (1, 6),
        (SELECT sub_account FROM accounts WHERE account_id = NEW.to_account), NULL));
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  SELECT RAISE(IGNORE);
END;

-- A complete row keeps the journal’s rules: fresh keys, the database’s own number, time that does
-- not go back, the right balances, and two accounts of one asset.
CREATE TRIGGER transfers_insert BEFORE INSERT ON transfers WHEN NEW.from_balance IS NOT NULL BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer exists')
    WHERE EXISTS (SELECT 1 FROM transfers WHERE transfer_id = NEW.transfer_id)
      OR EXISTS (SELECT 1 FROM transfers
        WHERE ref = NEW.ref AND step = NEW.step AND line = NEW.line);
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers')
    WHERE NEW.transfer_id IS NOT NULL AND NEW.transfer_id <> -1;
  SELECT RAISE(ABORT, 'append-only: time went back')
    WHERE NEW.at < (SELECT at FROM transfers ORDER BY transfer_id DESC LIMIT 1);
  SELECT RAISE(ABORT, 'constraint failed: only a second fee has a line of its own')
    WHERE NEW.line <> 0 AND (NEW.line, NEW.reason) <> (1, 7);
  SELECT RAISE(ABORT, 'constraint failed: a transfer joins two accounts of one asset')
    WHERE (SELECT asset FROM accounts WHERE account_id = NEW.from_account)
        IS NOT (SELECT asset FROM accounts WHERE account_id = NEW.to_account)
      OR NOT EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.from_account);
  SELECT RAISE(ABORT, 'append-only: balances are filled by the journal')
    WHERE NOT EXISTS (SELECT 1 FROM accounts f, accounts t
      WHERE f.account_id = NEW.from_account AND t.account_id = NEW.to_account
        AND NEW.from_balance = f.balance - NEW.amount AND NEW.to_balance = t.balance + NEW.amount
        AND NEW.from_sub_account IS f.sub_account
        AND NEW.to_sub_account IS iif(NEW.reason IN (1, 6), t.sub_account, NULL));
END;

-- Posts the transfer: both balances become what the row says, within their bounds. An update that
-- would leave the bounds, or take what is promised, matches no row and so aborts the batch. Its
-- condition repeats the CHECKs of accounts, because OR IGNORE would skip a row that fails a CHECK
-- without an error. A trade of a token is added to the sums of both accounts in the same update.
CREATE TRIGGER transfers_post AFTER INSERT ON transfers BEGIN
  -- Before the insert an id that the database will give reads as -1, and so would an explicit -1.
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers') WHERE NEW.transfer_id < 1;
  UPDATE accounts SET balance = NEW.from_balance,
      traded = traded + iif(NEW.reason = 6 AND asset <> 'usdc', NEW.amount, 0),
      traded_usdc = traded_usdc + iif(NEW.reason = 6 AND asset <> 'usdc',
        (SELECT m.usdc_amount - m.seller_fee FROM match_sides m
          WHERE m.match_id = NEW.ref OR m.quote_id = NEW.ref), 0)
    WHERE account_id = NEW.from_account
      AND NEW.from_balance >= iif(kind = 'external', -4611686018427387904, promised);
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  UPDATE accounts SET balance = NEW.to_balance,
      traded = traded + iif(NEW.reason = 6 AND asset <> 'usdc', NEW.amount, 0),
      traded_usdc = traded_usdc + iif(NEW.reason = 6 AND asset <> 'usdc',
        (SELECT m.usdc_amount + m.buyer_fee FROM match_sides m
          WHERE m.match_id = NEW.ref OR m.quote_id = NEW.ref), 0)
    WHERE account_id = NEW.to_account AND NEW.to_balance <= 4611686018427387904;
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
END;

CREATE TRIGGER transfers_update BEFORE UPDATE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: a transfer never changes');
END;

-- A transfer is deleted only when its seal is released (src/archive/release.ts), and never while
-- its record can still move. The newest one stays, because the next continues its number.
CREATE TRIGGER transfers_delete BEFORE DELETE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer')
    WHERE (SELECT released_at FROM journal_seals WHERE up_to_transfer >= OLD.transfer_id
        ORDER BY up_to_transfer, number LIMIT 1) IS NULL
      OR OLD.transfer_id >= (SELECT max(transfer_id) FROM transfers)
      OR EXISTS (SELECT 1 FROM withdrawals
        WHERE withdrawal_id = OLD.ref
          AND status IN ('awaiting_approval', 'queued', 'submitted'));
END;

-- The CSV statements that are being written, one of a user (src/ledger/statement-lease.ts). Deleted
-- when the statement is complete. A row whose writer died expires.
--
-- Example row:
--   user_id 01a2…c585, token ’0f8c2a9d41b7e650’, expires_at 1764551413000
CREATE TABLE statement_leases (
  user_id BLOB PRIMARY KEY NOT NULL,
  token TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
