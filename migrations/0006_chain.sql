-- Chain and custody

-- How far each chain has been read. Moved by the chain’s watcher (src/chain/chain-cursor.ts) in the
-- commit of what the blocks contained, so a range that is read twice changes nothing.
--
-- Example row:
--   chain ’polygon’, confirmed_number 85, confirmed_hash 0x7c11…a0e4, scanned_number 88,
--   scanned_hash 0x15de…90ba, head_number 88, moved_group 188, moved_at 1764551580000,
--   halted_at NULL, halt_reason NULL, rechecked_number 40, finalized_number 80,
--   finalized_at 1764551579000, floors ’[{”venue”:null,”floor”:1000000}]’, floors_after NULL
CREATE TABLE chain_cursors (
  chain TEXT PRIMARY KEY NOT NULL,
  confirmed_number INTEGER NOT NULL,  -- up to here deposits are credited and payments settled
  confirmed_hash BLOB NOT NULL,
  scanned_number INTEGER NOT NULL,    -- up to here deposits are detected, never below
                                      -- confirmed_number
  scanned_hash BLOB NOT NULL,
  head_number INTEGER NOT NULL,       -- the head as it was last read
  moved_group INTEGER NOT NULL,       -- later statements of a batch depend on the cursor having
                                      -- moved in it
  moved_at INTEGER NOT NULL,
  halted_at INTEGER,                  -- not NULL: nothing is credited or paid until the operator
                                      -- has looked
  halt_reason TEXT,
  rechecked_number INTEGER,           -- up to here blocks were read again a day later
  finalized_number INTEGER,           -- the chain’s own finalized block, or else its head
  finalized_at INTEGER,               -- when finalized_number last rose
  floors TEXT,                        -- the min_deposit settings, as JSON, for which
                                      -- small_deposits is checked or being checked
  floors_after INTEGER                -- rows of small_deposits up to here are checked, NULL: all
) STRICT;

-- Blocks between the confirmed height and the head, as they were when they were read. A reorg shows
-- as a hash that differs. Written and deleted with the cursor.
--
-- Example row:
--   chain ’polygon’, number 86, hash 0x90c3…41fd
CREATE TABLE chain_blocks (
  chain TEXT NOT NULL,
  number INTEGER NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (chain, number)
) STRICT;

-- Factories whose code and address computation agree with ours. Checked before the first deposit
-- address is issued (src/chain/verify-factory.ts). Kept for ever.
--
-- Example row:
--   chain ’polygon’, factory 0x5fbd…0aa3, verified_at 1764547300000
CREATE TABLE chain_factories (
  chain TEXT NOT NULL,
  factory BLOB NOT NULL,
  verified_at INTEGER NOT NULL,
  PRIMARY KEY (chain, factory)
) STRICT;

-- Addresses that were issued to users and are watched for ever. Written by
-- src/custody/deposit-address.ts, a restore writes lost ones again.
--
-- Example row:
--   chain ’polygon’, address 0x6cda…43f6, user_id 01a2…c585, nonce 0, salt 0x2f18…c07b,
--   created_at 1764547310000
CREATE TABLE deposit_addresses (
  chain TEXT NOT NULL,
  address BLOB NOT NULL,
  user_id BLOB NOT NULL,
  nonce INTEGER NOT NULL,  -- counts the user’s addresses on the chain from 0, the highest is
                           -- current
  salt BLOB NOT NULL,      -- of CREATE2: an HMAC, so that a user id reveals no address, sweeps need
                           -- it
  created_at INTEGER NOT NULL,
  PRIMARY KEY (chain, address)
) STRICT;

-- A user’s addresses. Two calls at once cannot take the same number.
CREATE UNIQUE INDEX deposit_addresses_nonce ON deposit_addresses (user_id, chain, nonce);

-- An address stays with its user. The reconciliation derives it again, because whoever can write
-- SQL can also drop these guards.
CREATE TRIGGER deposit_addresses_insert BEFORE INSERT ON deposit_addresses BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit address exists')
    WHERE EXISTS (SELECT 1 FROM deposit_addresses
        WHERE chain = NEW.chain AND address = NEW.address)
      OR EXISTS (SELECT 1 FROM deposit_addresses
        WHERE user_id = NEW.user_id AND chain = NEW.chain AND nonce = NEW.nonce);
END;

CREATE TRIGGER deposit_addresses_update BEFORE UPDATE ON deposit_addresses BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit address');
END;

CREATE TRIGGER deposit_addresses_delete BEFORE DELETE ON deposit_addresses BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit address');
END;

-- Transfers to deposit addresses. Written by the watcher (src/custody/watcher): first seen as
-- ’confirming’, ’credited’ once confirmed. An orphaned one that is mined again is the same row.
-- Kept for ever.
--
-- Example row:
--   deposit_id 019a…032d, chain ’polygon’, transaction_hash 0xfb1b…c3f4, token 0x3c49…3359,
--   ordinal 0, position 0, block_number 85, block_hash 0x7c11…a0e4, address 0x6cda…43f6,
--   user_id 01a2…c585, asset ’usdc’, amount ’5000000’, required_confirmations 3,
--   status ’credited’, seen_group 188, confirmed_group 188, detected_at 1764551560000,
--   detected_group 185, credited_at 1764551580000, ended_group 188
CREATE TABLE deposits (
  deposit_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  transaction_hash BLOB NOT NULL,
  token BLOB NOT NULL,            -- the contract that logged it
  ordinal INTEGER NOT NULL,       -- among the contract’s transfers in the transaction, a log index
                                  -- would change when it is mined again
  position INTEGER NOT NULL,      -- within an ERC-1155 batch
  block_number INTEGER NOT NULL,  -- where it was last found
  block_hash BLOB,                -- NULL if the deposit was in small_deposits before
  address BLOB NOT NULL,          -- the deposit address that received it
  user_id BLOB NOT NULL,          -- its owner
  asset TEXT NOT NULL,
  amount TEXT NOT NULL,           -- any 256-bit number: anyone can mint junk tokens
  -- of the chain when it was detected
  required_confirmations INTEGER NOT NULL,
  status TEXT NOT NULL,           -- ’quarantined’: confirmed, but too large for the ledger
  seen_group INTEGER NOT NULL,    -- that last found it in the chain, others of its block range are
                                  -- orphaned
  confirmed_group INTEGER,        -- that found it again at the confirmed height
  detected_at INTEGER NOT NULL,
  detected_group INTEGER NOT NULL,  -- 0 if another group recorded it in small_deposits
  credited_at INTEGER,
  ended_group INTEGER,
  CONSTRAINT deposits_status CHECK (
    status IN ('confirming', 'credited', 'orphaned', 'quarantined')
  )
) STRICT;

-- The identity of a deposit, whichever block holds it: it is credited at most once.
CREATE UNIQUE INDEX deposits_identity
  ON deposits (chain, transaction_hash, token, ordinal, position, address);

-- A user’s deposits, newest first, in all statuses or in one.
CREATE INDEX deposits_user ON deposits (user_id, detected_at, deposit_id);
CREATE INDEX deposits_user_status ON deposits (user_id, status, detected_at, deposit_id);

-- Deposits to confirm, credit or orphan in a range of blocks.
CREATE INDEX deposits_open ON deposits (chain, block_number) WHERE status = 'confirming';

-- The ledger filtered by a transaction hash.
CREATE INDEX deposits_hash ON deposits (user_id, transaction_hash);

-- What a commit group detected or ended: its events, its postings, and the reconciliation.
CREATE INDEX deposits_detected_group ON deposits (detected_group);
CREATE INDEX deposits_ended_group ON deposits (ended_group) WHERE ended_group IS NOT NULL;

-- Orphaned deposits of a chain, the oldest first.
CREATE INDEX deposits_orphaned ON deposits (chain, detected_at) WHERE status = 'orphaned';

-- Until it is money a deposit may be found again under its identity. From then on nothing takes its
-- place.
CREATE TRIGGER deposits_insert BEFORE INSERT ON deposits BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit exists')
    WHERE EXISTS (SELECT 1 FROM deposits WHERE deposit_id = NEW.deposit_id)
      OR EXISTS (SELECT 1 FROM deposits
        WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash
          AND token = NEW.token AND ordinal = NEW.ordinal AND position = NEW.position
          AND address = NEW.address AND status IN ('credited', 'quarantined'));
END;

-- Orphaned ones are deleted after a week, because an endpoint can invent any number of them.
CREATE TRIGGER deposits_delete BEFORE DELETE ON deposits WHEN OLD.status <> 'orphaned' BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit');
END;

-- A credited deposit is in the journal.
CREATE TRIGGER deposits_credited BEFORE UPDATE ON deposits WHEN OLD.status = 'credited' BEGIN
  SELECT RAISE(ABORT, 'append-only: a credited deposit never moves');
END;

-- Confirmed transfers to deposit addresses that are below the asset’s min_deposit. Written by
-- src/custody/watcher/small-deposits.ts. Rows move to deposits once they are due. A transfer is
-- either here or there, never in both. Rows are short, because anyone can cause any number of them.
--
-- Example row:
--   small_id 7, key 0x91ab…2c10, deposit_id 019a…0d11, user_id 01a2…c585, chain ’polygon’, nonce 0,
--   transaction_hash 0x3ad0…71fe, token 0x3c49…3359, ordinal 0, position 0, block_number 85,
--   venue NULL, asset_id NULL, amount 250000, required_confirmations 3, detected_at 1764551580000,
--   due 0
CREATE TABLE small_deposits (
  small_id INTEGER PRIMARY KEY NOT NULL,
  -- 8 bytes of a hash of chain, address and token, 1 byte that is lower for larger amounts, 8 bytes
  -- of a hash of the place in the transaction
  key BLOB NOT NULL,
  deposit_id BLOB NOT NULL,
  user_id BLOB NOT NULL,
  chain TEXT NOT NULL,
  nonce INTEGER NOT NULL,            -- names the deposit address, together with user and chain
  transaction_hash BLOB NOT NULL,
  token BLOB NOT NULL,
  ordinal INTEGER NOT NULL,
  position INTEGER NOT NULL,
  block_number INTEGER NOT NULL,
  venue TEXT,                        -- NULL: USDC
  asset_id BLOB,                     -- as a number of up to 32 bytes, because text takes twice that
  amount INTEGER NOT NULL,
  required_confirmations INTEGER NOT NULL,
  detected_at INTEGER NOT NULL,
  due INTEGER NOT NULL,              -- 1: it is credited in one of the next groups
  CONSTRAINT small_deposits_due CHECK (due IN (0, 1))
) STRICT;

-- One row per transfer, and the largest ones of an address and a token, whose sum is compared.
CREATE UNIQUE INDEX small_deposits_key ON small_deposits (key);

-- A user’s deposits, newest first.
CREATE INDEX small_deposits_user ON small_deposits (user_id, detected_at, deposit_id);

-- What is credited next.
CREATE INDEX small_deposits_due_on ON small_deposits (chain) WHERE due = 1;

-- A row never changes and is deleted only when the transfer is in deposits.
CREATE TRIGGER small_deposits_update BEFORE UPDATE OF small_id, key, deposit_id, user_id, chain,
  nonce, transaction_hash, token, ordinal, position, block_number, venue, asset_id, amount,
  required_confirmations, detected_at ON small_deposits BEGIN
  SELECT RAISE(ABORT, 'append-only: small deposit');
END;

CREATE TRIGGER small_deposits_delete BEFORE DELETE ON small_deposits
WHEN NOT EXISTS (SELECT 1 FROM deposit_addresses a CROSS JOIN deposits d
    ON d.chain = OLD.chain AND d.transaction_hash = OLD.transaction_hash AND d.token = OLD.token
      AND d.ordinal = OLD.ordinal AND d.position = OLD.position AND d.address = a.address
  WHERE a.user_id = OLD.user_id AND a.chain = OLD.chain AND a.nonce = OLD.nonce) BEGIN
  SELECT RAISE(ABORT, 'append-only: small deposit');
END;

-- Deposit addresses that hold credited funds. Written with the credit, deleted with the sweep
-- (src/custody/watcher) or once the reconciliation finds the address empty. A hint only: before a
-- sweep the payer reads what the address holds.
--
-- Example row:
--   chain ’polygon’, asset ’usdc’, address 0x6cda…43f6, amount 5000000, block_number 85,
--   not_before NULL
CREATE TABLE sweepable (
  chain TEXT NOT NULL,
  asset TEXT NOT NULL,
  address BLOB NOT NULL,
  amount INTEGER NOT NULL,        -- at most 4e18, because it only sorts
  block_number INTEGER NOT NULL,  -- of the latest deposit: a later sweep deletes the row, as does a
                                  -- confirmed block at or after it that shows the address empty
  not_before INTEGER,             -- after the token refused a sweep
  PRIMARY KEY (chain, asset, address)
) STRICT;

-- The addresses to sweep, largest first, when the vault is short of an asset.
CREATE INDEX sweepable_largest ON sweepable (chain, asset, amount);

-- Payments out. Inserted by src/custody/withdraw.ts, which sets the amount aside in the same
-- commit. The payer (src/custody/payer) submits it, the watcher (src/custody/watcher) settles or
-- fails it, its owner may cancel it (src/custody/cancel-withdrawal.ts). Kept for ever.
--
-- Example row:
--   withdrawal_id 019a…d8ee, job_id 019a…1f0c, user_id 01a2…c585, client_withdrawal_id ’first’,
--   payment_id 0x5ff8…4ad8, chain ’polygon’, asset ’usdc’, amount 1500000,
--   to_address 0x7099…79c8, status ’settled’, approval_expires_at NULL, approved_at NULL,
--   transaction_hash 0x2921…b756, failure_code NULL, failure_message NULL,
--   created_at 1764551698000, updated_at 1764551760000, not_before NULL, queued_group 198,
--   changed_group 212, ended_by 019a…5c7a, terms_mac ’a1.AAAA’, approval_mac NULL
CREATE TABLE withdrawals (
  withdrawal_id BLOB PRIMARY KEY NOT NULL,
  job_id BLOB NOT NULL,                -- the id of the work to pay it, as the public interface
                                       -- names it
  user_id BLOB NOT NULL,
  client_withdrawal_id TEXT NOT NULL,  -- the client’s own id: a repeat with it returns this row
  payment_id BLOB NOT NULL,            -- of the user and client_withdrawal_id, by a key
                                       -- (src/chain/payment-id.ts): the vault pays it once
  chain TEXT NOT NULL,
  asset TEXT NOT NULL,
  amount INTEGER NOT NULL,
  to_address BLOB NOT NULL,
  status TEXT NOT NULL,                -- ’submitted’: a payment is signed, back to ’queued’ if the
                                       -- vault skipped it
  approval_expires_at INTEGER,         -- of one that waits, or waited, for its owner’s approval
  approved_at INTEGER,                 -- when its owner approved it
  transaction_hash BLOB,               -- of the latest attempt, and in the end of the transaction
                                       -- that brought the outcome
  failure_code TEXT,                   -- ’payment_reverted’, ’operator_failed’ or
                                       -- ’approval_expired’
  failure_message TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  not_before INTEGER,                  -- the payer leaves it until then, after the vault skipped it
  queued_group INTEGER NOT NULL,
  changed_group INTEGER NOT NULL,      -- the latest change, the insertion included, each is
                                       -- announced
  ended_by BLOB,                       -- the id of the commit group that settled, failed or
                                       -- cancelled it
  terms_mac TEXT,                      -- over the terms, by a key that is not in the database
                                       -- (src/ledger/withdrawal-mac.ts): the payer signs nothing
                                       -- without it
  approval_mac TEXT,                   -- over the id, NULL: not approved
  CONSTRAINT withdrawals_status CHECK (status IN (
    'awaiting_approval', 'queued', 'submitted', 'settled', 'failed', 'cancelled')),
  CONSTRAINT withdrawals_amount CHECK (amount > 0)
) STRICT;

-- Ids of the public interface and of the vault exist once.
CREATE UNIQUE INDEX withdrawals_job_id_unique ON withdrawals (job_id);
CREATE UNIQUE INDEX withdrawals_payment_id_unique ON withdrawals (payment_id);

-- A repeated POST finds its withdrawal.
CREATE UNIQUE INDEX withdrawals_client_id ON withdrawals (user_id, client_withdrawal_id);

-- A user’s withdrawals, newest first, in all statuses or in one, and their number of the last day.
CREATE INDEX withdrawals_user ON withdrawals (user_id, created_at, withdrawal_id);
CREATE INDEX withdrawals_user_status
  ON withdrawals (user_id, status, created_at, withdrawal_id);

-- What is still to be paid on a chain, oldest first. A query must name both statuses, or SQLite
-- does not use it.
CREATE INDEX withdrawals_open ON withdrawals (chain, created_at, withdrawal_id)
  WHERE status IN ('queued', 'submitted');

-- Approvals that have expired.
CREATE INDEX withdrawals_awaiting ON withdrawals (approval_expires_at)
  WHERE status = 'awaiting_approval';

-- How often payments of a user to an address have reverted.
CREATE INDEX withdrawals_reverted ON withdrawals (user_id, to_address)
  WHERE failure_code = 'payment_reverted';

-- What a commit group changed: its events and the reconciliation.
CREATE INDEX withdrawals_changed_group ON withdrawals (changed_group);

-- What a commit group settled or failed: its postings.
CREATE INDEX withdrawals_ended_by ON withdrawals (ended_by) WHERE ended_by IS NOT NULL;

-- None of the four keys may be taken again.
CREATE TRIGGER withdrawals_insert BEFORE INSERT ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal exists')
    WHERE EXISTS (SELECT 1 FROM withdrawals
      WHERE withdrawal_id = NEW.withdrawal_id OR job_id = NEW.job_id
        OR payment_id = NEW.payment_id
        OR (user_id = NEW.user_id AND client_withdrawal_id = NEW.client_withdrawal_id));
END;

-- A finished withdrawal never changes again: its funds have left or were given back.
CREATE TRIGGER withdrawals_closed BEFORE UPDATE ON withdrawals
WHEN OLD.status IN ('settled', 'failed', 'cancelled') BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed withdrawal never moves');
END;

-- A signed payment may be anywhere, so what it pays is never given back without the chain’s word.
CREATE TRIGGER withdrawals_cancelled BEFORE UPDATE ON withdrawals
WHEN NEW.status = 'cancelled' AND (OLD.status NOT IN ('awaiting_approval', 'queued')
  OR EXISTS (SELECT 1 FROM batch_members m WHERE m.withdrawal_id = OLD.withdrawal_id)) BEGIN
  SELECT RAISE(ABORT, 'append-only: a signed withdrawal is not cancelled');
END;

-- What was ordered is what is paid.
CREATE TRIGGER withdrawals_terms BEFORE UPDATE ON withdrawals
WHEN NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.job_id <> OLD.job_id
  OR NEW.user_id <> OLD.user_id OR NEW.client_withdrawal_id <> OLD.client_withdrawal_id
  OR NEW.payment_id <> OLD.payment_id OR NEW.chain <> OLD.chain OR NEW.asset <> OLD.asset
  OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address
  OR (OLD.terms_mac IS NOT NULL AND NEW.terms_mac IS NOT OLD.terms_mac)
  OR (OLD.approval_mac IS NOT NULL AND NEW.approval_mac IS NOT OLD.approval_mac) BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a withdrawal never change');
END;

CREATE TRIGGER withdrawals_delete BEFORE DELETE ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal');
END;

-- The address books: where withdrawals may go if the policy of the account says
-- withdraw_listed_only. Written by src/custody/withdrawal-addresses.ts. Rows are deleted by their
-- owner, and by a freeze if they are not active yet.
--
-- Example row:
--   address_id 019a…ad01, user_id 01a2…c585, chain ’polygon’, address 0x7099…79c8,
--   label ’cold wallet’, created_at 1764547400000, active_from 1764633800000
CREATE TABLE withdrawal_addresses (
  address_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  chain TEXT NOT NULL,
  address BLOB NOT NULL,
  label TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  active_from INTEGER NOT NULL  -- usable from then on
) STRICT;

-- An address of a user on a chain is listed once, and a withdrawal finds it.
CREATE UNIQUE INDEX withdrawal_addresses_address ON withdrawal_addresses (user_id, chain, address);

-- Listing a user’s addresses newest first.
CREATE INDEX withdrawal_addresses_user ON withdrawal_addresses (user_id, created_at, address_id);

-- Which payer may allocate nonces on a chain. A new payer overwrites the token, and the guards of
-- the earlier one stop applying (src/custody/payer/payer-lease.ts).
--
-- Example row:
--   chain ’polygon’, token 019a…aa10, taken_at 1764551000000, halted_at NULL, halt_reason NULL,
--   batch_floor NULL, floor_vault NULL, sequences_advanced_at NULL
CREATE TABLE payer_leases (
  chain TEXT PRIMARY KEY NOT NULL,
  token BLOB NOT NULL,
  taken_at INTEGER NOT NULL,
  halted_at INTEGER,   -- not NULL: nothing is paid on the chain until the operator has looked
  halt_reason TEXT,
  batch_floor INTEGER, -- after a restore: lower batch numbers were used by payments this database
                       -- has lost
  floor_vault BLOB,    -- the vault whose numbers batch_floor counts
  sequences_advanced_at INTEGER  -- when a restore last skipped ids, once a halt
) STRICT;

-- One row per nonce of an operator account, whatever fees its attempts offer. Written by the payer
-- before anything is sent. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, chain ’polygon’, sender 0xf39f…2266, nonce 1, kind ’pay’, batch_no 1,
--   to_address 0xe7f1…0512, data 0x4a2f…0000, gas_limit 460000, status ’done’, made_group 207,
--   made_at 1764551720000, ended_group 213, reopened_group NULL
CREATE TABLE chain_transactions (
  transaction_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  sender BLOB NOT NULL,        -- the operator account
  nonce INTEGER NOT NULL,
  kind TEXT NOT NULL,          -- what the call does, ’cancel’: a payment without effect that a deep
                               -- reorg removed, so that its nonce is used by a transfer of nothing
  batch_no INTEGER,            -- of a payment: the vault accepts only the next number
  to_address BLOB NOT NULL,
  data BLOB NOT NULL,          -- call data
  gas_limit INTEGER NOT NULL,  -- computed by the contract, never estimated
  status TEXT NOT NULL,        -- ’open’ until the confirmed chain has used the nonce, ’unused’: its
                               -- batch number is free again
  made_group INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  ended_group INTEGER,
  reopened_group INTEGER,      -- a deep reorg had removed it, the operator resumed the chain
  CONSTRAINT chain_transactions_status CHECK (status IN ('open', 'done', 'unused')),
  CONSTRAINT chain_transactions_kind CHECK (kind IN ('pay', 'sweep', 'void', 'cancel'))
) STRICT;

-- A nonce is used once. The highest one is the next to allocate.
CREATE UNIQUE INDEX chain_transactions_nonce ON chain_transactions (chain, sender, nonce);

-- A vault uses a batch number once, until its transaction is known to have had no effect. The next
-- vault numbers from 1 again.
CREATE UNIQUE INDEX chain_transactions_batch ON chain_transactions (chain, to_address, batch_no)
  WHERE batch_no IS NOT NULL AND status <> 'unused' AND kind <> 'cancel';

-- What is in flight on a chain, in order.
CREATE INDEX chain_transactions_open ON chain_transactions (chain, nonce) WHERE status = 'open';

-- The transaction that a commit group made, for its attempt and its members.
CREATE INDEX chain_transactions_made_group ON chain_transactions (made_group);

-- None of the three keys may be taken again.
CREATE TRIGGER chain_transactions_insert BEFORE INSERT ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction exists')
    WHERE EXISTS (SELECT 1 FROM chain_transactions
      WHERE transaction_id = NEW.transaction_id
        OR (chain = NEW.chain AND sender = NEW.sender AND nonce = NEW.nonce)
        OR (chain = NEW.chain AND to_address = NEW.to_address AND batch_no = NEW.batch_no
          AND status <> 'unused' AND kind <> 'cancel' AND NEW.status <> 'unused'));
END;

-- Signed bytes may be anywhere, so what they say never changes. Only an open transaction can end,
-- and one that has ended opens again only with a mark. One without effect then becomes a ’cancel’.
CREATE TRIGGER chain_transactions_update BEFORE UPDATE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction')
    WHERE (OLD.status <> 'open' AND NOT (NEW.status = 'open' AND NEW.ended_group IS NULL
        AND coalesce(NEW.reopened_group, 0) > coalesce(OLD.reopened_group, 0)))
      OR NEW.transaction_id <> OLD.transaction_id
      OR NEW.chain <> OLD.chain OR NEW.sender <> OLD.sender OR NEW.nonce <> OLD.nonce
      OR (NEW.kind <> OLD.kind AND NOT (NEW.kind = 'cancel' AND OLD.status = 'unused'))
      OR NEW.batch_no IS NOT OLD.batch_no OR NEW.data <> OLD.data
      OR NEW.to_address <> OLD.to_address OR NEW.gas_limit <> OLD.gas_limit;
END;

CREATE TRIGGER chain_transactions_delete BEFORE DELETE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction');
END;

-- Signed versions of a transaction, stored before they are sent. They differ in fees only, those of
-- a ’cancel’ also in what they do. Written by the payer. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, attempt 0, hash 0x2921…b756, signed 0x02f9…c001,
--   max_fee 1000010270, priority_fee 1000000000, signed_group 207, signed_at 1764551720000,
--   head_number 93
CREATE TABLE transaction_attempts (
  transaction_id BLOB NOT NULL,
  attempt INTEGER NOT NULL,       -- from 0, the highest is sent
  hash BLOB NOT NULL,
  signed BLOB NOT NULL,           -- the raw transaction
  max_fee INTEGER NOT NULL,       -- wei per gas
  priority_fee INTEGER NOT NULL,  -- wei per gas
  signed_group INTEGER NOT NULL,
  signed_at INTEGER NOT NULL,
  head_number INTEGER NOT NULL,   -- of the chain then: a replacement needs later blocks
  PRIMARY KEY (transaction_id, attempt)
) STRICT;

-- A transaction hash names one attempt.
CREATE UNIQUE INDEX transaction_attempts_hash_unique ON transaction_attempts (hash);

-- Neither key may be taken again.
CREATE TRIGGER transaction_attempts_insert BEFORE INSERT ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt exists')
    WHERE EXISTS (SELECT 1 FROM transaction_attempts
      WHERE hash = NEW.hash
        OR (transaction_id = NEW.transaction_id AND attempt = NEW.attempt));
END;

CREATE TRIGGER transaction_attempts_update BEFORE UPDATE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;

CREATE TRIGGER transaction_attempts_delete BEFORE DELETE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;

-- The withdrawals that a transaction pays or voids. Inserted by the payer with the transaction,
-- ended by the watcher with the vault’s event, or by the payer when the transaction came to
-- nothing. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, withdrawal_id 019a…d8ee, purpose ’pay’, ended_group 212,
--   outcome ’Paid’
CREATE TABLE batch_members (
  transaction_id BLOB NOT NULL,
  withdrawal_id BLOB NOT NULL,
  purpose TEXT NOT NULL,  -- the transaction’s kind
  ended_group INTEGER,    -- NULL: live
  outcome TEXT,           -- the vault’s event, or ’returned’ when there was none
  PRIMARY KEY (transaction_id, withdrawal_id),
  CONSTRAINT batch_members_purpose CHECK (purpose IN ('pay', 'void'))
) STRICT;

-- A withdrawal is in one live payment, and in one live void, at a time.
CREATE UNIQUE INDEX batch_members_live ON batch_members (withdrawal_id, purpose)
  WHERE ended_group IS NULL;

-- Whether a withdrawal is in a payment or void, and how often it was.
CREATE INDEX batch_members_withdrawal ON batch_members (withdrawal_id);

-- The members that a commit group ended, which return to the queue.
CREATE INDEX batch_members_ended_group ON batch_members (ended_group)
  WHERE ended_group IS NOT NULL;

-- REPLACE would remove a member that is still live. What a payment pays was ordered and not given
-- back.
CREATE TRIGGER batch_members_insert BEFORE INSERT ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: the withdrawal is not to be paid')
    WHERE NEW.purpose = 'pay' AND EXISTS (SELECT 1 FROM withdrawals w
      WHERE w.withdrawal_id = NEW.withdrawal_id
        AND w.status IN ('awaiting_approval', 'cancelled'));
  SELECT RAISE(ABORT, 'append-only: batch member exists')
    WHERE EXISTS (SELECT 1 FROM batch_members
      WHERE (transaction_id = NEW.transaction_id AND withdrawal_id = NEW.withdrawal_id)
        OR (withdrawal_id = NEW.withdrawal_id AND purpose = NEW.purpose
          AND ended_group IS NULL AND NEW.ended_group IS NULL));
END;

-- A member ends once.
CREATE TRIGGER batch_members_ended BEFORE UPDATE ON batch_members
WHEN OLD.ended_group IS NOT NULL OR NEW.transaction_id <> OLD.transaction_id
  OR NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.purpose <> OLD.purpose BEGIN
  SELECT RAISE(ABORT,
    'append-only: a batch member keeps its place, and never moves once it has ended');
END;

CREATE TRIGGER batch_members_delete BEFORE DELETE ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: batch member');
END;

-- The vault’s events about payments, read at the confirmed height. Written by the watcher
-- (src/custody/watcher/settle-withdrawal.ts), only they settle or fail a withdrawal. Kept for ever.
--
-- Example row:
--   chain ’polygon’, transaction_hash 0x2921…b756, ordinal 0, kind ’Paid’, payment_id 0x5ff8…4ad8,
--   vault 0xe7f1…0512, batch_no 1, skip_reason NULL, token 0x9fe4…6e0, token_id ’0’,
--   asset ’usdc’, amount ’1500000’, to_address 0x7099…79c8, block_number 94,
--   block_hash 0x33aa…0c1e, recorded_group 212
CREATE TABLE vault_events (
  chain TEXT NOT NULL,
  transaction_hash BLOB NOT NULL,
  ordinal INTEGER NOT NULL,  -- among the vault’s logs in the transaction
  kind TEXT NOT NULL,
  payment_id BLOB NOT NULL,
  vault BLOB NOT NULL,       -- that emitted it
  batch_no INTEGER,          -- NULL for ’Voided’ and ’AlreadyDone’
  skip_reason INTEGER,       -- of ’Skipped’: the reason’s number in Vault.sol
  token BLOB,                -- of ’Paid’
  token_id TEXT,             -- of ’Paid’, ’0’ for ERC-20
  asset TEXT,                -- of ’Paid’, compared with the withdrawal’s, NULL: a token that the
                             -- service does not credit
  amount TEXT,               -- of ’Paid’, compared with the withdrawal’s
  to_address BLOB,           -- of ’Paid’, compared with the withdrawal’s
  block_number INTEGER NOT NULL,
  block_hash BLOB NOT NULL,
  recorded_group INTEGER NOT NULL,
  PRIMARY KEY (chain, transaction_hash, ordinal),
  CONSTRAINT vault_events_kind CHECK (
    kind IN ('Paid', 'Failed', 'Skipped', 'Voided', 'AlreadyDone'))
) STRICT;

-- Payments that the vault has made and the journal has not settled yet, and those that a restore
-- lost.
CREATE INDEX vault_events_payment ON vault_events (payment_id);

-- The events that a commit group recorded, which it applies to withdrawals.
CREATE INDEX vault_events_recorded_group ON vault_events (recorded_group);

-- REPLACE would rewrite what the chain said.
CREATE TRIGGER vault_events_insert BEFORE INSERT ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event exists')
    WHERE EXISTS (SELECT 1 FROM vault_events
      WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash
        AND ordinal = NEW.ordinal);
END;

CREATE TRIGGER vault_events_update BEFORE UPDATE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;

CREATE TRIGGER vault_events_delete BEFORE DELETE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;

-- Payments of the vault that are no withdrawal’s. Those that the service did not order are accepted
-- by `restore --accept-payment` (src/custody/accept-payment.ts): a loss is posted to the journal,
-- from the house account ’losses’ to the chain’s, a rescue returns what was never credited. Of a
-- lost withdrawal whose ids another one has, `restore` writes the payment and debits its user
-- (src/custody/payer/restore-payments.ts). Kept for ever.
--
-- Example row:
--   acceptance_id 019a…77aa, chain ’polygon’, payment_id 0x5ff8…4ad8, kind ’loss’, user_id NULL,
--   asset ’usdc’, amount 1500000, reason ’stolen key, incident 7’, actor ’operator:ann’,
--   at 1764551750000, accepted_group 310
CREATE TABLE accepted_payments (
  acceptance_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  payment_id BLOB NOT NULL,
  kind TEXT NOT NULL,  -- ’withdrawal’: `restore` has debited the user whose lost withdrawal it was
  user_id BLOB,        -- of a withdrawal
  asset TEXT,          -- NULL: a rescue posts nothing
  amount INTEGER,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  accepted_group INTEGER NOT NULL,
  CONSTRAINT accepted_payments_kind CHECK (kind IN ('loss', 'rescue', 'withdrawal')),
  CONSTRAINT accepted_payments_posted CHECK (
    (kind <> 'rescue') = (asset IS NOT NULL AND amount IS NOT NULL)),
  CONSTRAINT accepted_payments_user CHECK ((kind = 'withdrawal') = (user_id IS NOT NULL))
) STRICT;

-- A payment is accepted once.
CREATE UNIQUE INDEX accepted_payments_payment ON accepted_payments (chain, payment_id);

-- The acceptances of a commit group, which the reconciliation compares with the journal.
CREATE INDEX accepted_payments_group ON accepted_payments (accepted_group);

CREATE TRIGGER accepted_payments_insert BEFORE INSERT ON accepted_payments BEGIN
  SELECT RAISE(ABORT, 'append-only: accepted payment exists')
    WHERE EXISTS (SELECT 1 FROM accepted_payments
      WHERE acceptance_id = NEW.acceptance_id
        OR (chain = NEW.chain AND payment_id = NEW.payment_id));
END;

CREATE TRIGGER accepted_payments_update BEFORE UPDATE ON accepted_payments BEGIN
  SELECT RAISE(ABORT, 'append-only: accepted payment');
END;

CREATE TRIGGER accepted_payments_delete BEFORE DELETE ON accepted_payments BEGIN
  SELECT RAISE(ABORT, 'append-only: accepted payment');
END;

-- What the operator wants done on a chain. Inserted by operator commands, carried out by payer and
-- watcher, so that nobody updates records of a chain by hand. Kept for ever.
--
-- Example row:
--   command_id 1, chain ’polygon’, kind ’retry’, withdrawal_id 019a…d8ee, from_block NULL,
--   to_block NULL, actor ’operator:ann’, at 1764551750000, done_group 209, result ’retried’
CREATE TABLE chain_commands (
  command_id INTEGER PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  kind TEXT NOT NULL,
  withdrawal_id BLOB,  -- of ’fail’ and ’retry’
  from_block INTEGER,  -- of ’rescan’: the next block to read
  to_block INTEGER,    -- of ’rescan’: the last block to read
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  done_group INTEGER,  -- NULL: still to be carried out
  result TEXT,
  CONSTRAINT chain_commands_kind
    CHECK (kind IN ('fail', 'retry', 'resume_chain', 'resume_payer', 'rescan'))
) STRICT;

-- What payer and watcher of a chain still have to carry out.
CREATE INDEX chain_commands_open ON chain_commands (chain, command_id) WHERE done_group IS NULL;

-- Whether a command stands against paying a withdrawal.
CREATE INDEX chain_commands_withdrawal ON chain_commands (withdrawal_id) WHERE done_group IS NULL;
