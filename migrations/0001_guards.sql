-- Rules that no statement can get round, whatever its conflict clause.
--
-- The outer statement's OR-clause overrides those of statements inside a trigger, but never RAISE(). So each guard is a
-- SELECT RAISE(ABORT, …), and the balance updates are followed by a count of what they changed.

CREATE TRIGGER accounts_insert BEFORE INSERT ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account exists') WHERE EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.account_id)
    OR EXISTS (SELECT 1 FROM accounts WHERE owner = NEW.owner AND asset = NEW.asset AND kind = NEW.kind);
  SELECT RAISE(ABORT, 'an account starts at zero') WHERE NEW.balance <> 0;
END;
--> statement-breakpoint
-- A balance moves only while a transfer is being posted: the last row, its balance columns not yet filled.
CREATE TRIGGER accounts_update BEFORE UPDATE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account') WHERE NEW.account_id <> OLD.account_id OR NEW.owner <> OLD.owner
    OR NEW.asset <> OLD.asset OR NEW.kind <> OLD.kind;
  SELECT RAISE(ABORT, 'a balance moves only by a transfer') WHERE NOT EXISTS (
    SELECT 1 FROM (SELECT * FROM transfers ORDER BY transfer_id DESC LIMIT 1) t WHERE t.from_balance IS NULL
      AND ((t.from_account = OLD.account_id AND NEW.balance = OLD.balance - t.amount)
        OR (t.to_account = OLD.account_id AND NEW.balance = OLD.balance + t.amount)));
END;
--> statement-breakpoint
CREATE TRIGGER accounts_delete BEFORE DELETE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account');
END;
--> statement-breakpoint
CREATE TRIGGER transfers_insert BEFORE INSERT ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer exists') WHERE EXISTS (SELECT 1 FROM transfers WHERE transfer_id = NEW.transfer_id)
    OR EXISTS (SELECT 1 FROM transfers WHERE ref = NEW.ref AND step = NEW.step AND line = NEW.line);
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers') WHERE NEW.transfer_id IS NOT NULL AND NEW.transfer_id <> -1;
  SELECT RAISE(ABORT, 'append-only: time went back') WHERE NEW.at < (SELECT at FROM transfers ORDER BY transfer_id DESC LIMIT 1);
  SELECT RAISE(ABORT, 'append-only: balances are filled by the journal') WHERE NEW.from_balance IS NOT NULL OR NEW.to_balance IS NOT NULL;
  SELECT RAISE(ABORT, 'constraint failed: a transfer joins two accounts of one asset')
    WHERE (SELECT asset FROM accounts WHERE account_id = NEW.from_account) IS NOT (SELECT asset FROM accounts WHERE account_id = NEW.to_account)
      OR NOT EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.from_account);
END;
--> statement-breakpoint
CREATE TRIGGER transfers_post AFTER INSERT ON transfers BEGIN
  -- Before the insert an id that the database will give reads as -1, and so would an explicit -1.
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers') WHERE NEW.transfer_id < 1;
  UPDATE accounts SET balance = balance - NEW.amount
    WHERE account_id = NEW.from_account
      AND balance - NEW.amount >= iif(kind = 'external', -4611686018427387904, 0);
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  UPDATE accounts SET balance = balance + NEW.amount
    WHERE account_id = NEW.to_account AND balance + NEW.amount <= 4611686018427387904;
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  UPDATE transfers SET from_balance = (SELECT balance FROM accounts WHERE account_id = NEW.from_account),
      to_balance = (SELECT balance FROM accounts WHERE account_id = NEW.to_account)
    WHERE transfer_id = NEW.transfer_id;
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
END;
--> statement-breakpoint
CREATE TRIGGER transfers_update BEFORE UPDATE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer') WHERE OLD.from_balance IS NOT NULL OR OLD.to_balance IS NOT NULL
    OR NEW.transfer_id <> OLD.transfer_id OR NEW.from_account <> OLD.from_account OR NEW.to_account <> OLD.to_account
    OR NEW.amount <> OLD.amount OR NEW.reason <> OLD.reason OR NEW.ref <> OLD.ref OR NEW.step <> OLD.step
    OR NEW.line <> OLD.line OR NEW.at <> OLD.at;
END;
--> statement-breakpoint
CREATE TRIGGER transfers_delete BEFORE DELETE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer');
END;
--> statement-breakpoint
-- An event's number must be the stream's next; the row and the counter move together or not at all.
CREATE TRIGGER stream_events_number AFTER INSERT ON stream_events BEGIN
  UPDATE streams SET last_seq = NEW.seq WHERE stream_id = NEW.stream_id AND last_seq = NEW.seq - 1;
  SELECT RAISE(ABORT, 'append-only: event number') WHERE changes() <> 1;
END;
--> statement-breakpoint
CREATE TRIGGER stream_events_update BEFORE UPDATE ON stream_events BEGIN
  SELECT RAISE(ABORT, 'append-only: event');
END;
--> statement-breakpoint
CREATE TRIGGER requests_closed BEFORE UPDATE ON requests WHEN OLD.state <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed request never moves');
END;
--> statement-breakpoint
CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN OLD.state <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed quote never moves');
END;
--> statement-breakpoint
CREATE TRIGGER matches_insert BEFORE INSERT ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match exists') WHERE EXISTS (SELECT 1 FROM matches
    WHERE match_id = NEW.match_id OR request_id = NEW.request_id OR quote_id = NEW.quote_id);
END;
--> statement-breakpoint
CREATE TRIGGER matches_update BEFORE UPDATE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match');
END;
--> statement-breakpoint
CREATE TRIGGER matches_delete BEFORE DELETE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match');
END;
--> statement-breakpoint
CREATE TRIGGER deposits_insert BEFORE INSERT ON deposits BEGIN
  -- By its identity a deposit may be seen again until it is money; then nothing takes its place.
  SELECT RAISE(ABORT, 'append-only: deposit exists') WHERE EXISTS (SELECT 1 FROM deposits WHERE deposit_id = NEW.deposit_id)
    OR EXISTS (SELECT 1 FROM deposits WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash AND token = NEW.token
      AND ordinal = NEW.ordinal AND position = NEW.position AND address = NEW.address AND state IN ('credited', 'quarantined'));
END;
--> statement-breakpoint
CREATE TRIGGER requests_insert BEFORE INSERT ON requests BEGIN
  SELECT RAISE(ABORT, 'append-only: request exists') WHERE EXISTS (SELECT 1 FROM requests WHERE request_id = NEW.request_id);
END;
--> statement-breakpoint
CREATE TRIGGER quotes_insert BEFORE INSERT ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: quote exists') WHERE EXISTS (SELECT 1 FROM quotes WHERE quote_id = NEW.quote_id);
END;
--> statement-breakpoint
CREATE TRIGGER deposits_delete BEFORE DELETE ON deposits BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit');
END;
--> statement-breakpoint
CREATE TRIGGER deposits_credited BEFORE UPDATE ON deposits WHEN OLD.state = 'credited' BEGIN
  SELECT RAISE(ABORT, 'append-only: a credited deposit never moves');
END;
--> statement-breakpoint
CREATE TRIGGER withdrawals_insert BEFORE INSERT ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal exists') WHERE EXISTS (SELECT 1 FROM withdrawals
    WHERE withdrawal_id = NEW.withdrawal_id OR job_id = NEW.job_id OR payment_id = NEW.payment_id
      OR (user_id = NEW.user_id AND client_withdrawal_id = NEW.client_withdrawal_id));
END;
--> statement-breakpoint
CREATE TRIGGER withdrawals_closed BEFORE UPDATE ON withdrawals WHEN OLD.state IN ('settled', 'failed') BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed withdrawal never moves');
END;
--> statement-breakpoint
-- Its terms were signed, or will be: they are what its funds were set aside for.
CREATE TRIGGER withdrawals_terms BEFORE UPDATE ON withdrawals WHEN NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.job_id <> OLD.job_id
  OR NEW.user_id <> OLD.user_id OR NEW.client_withdrawal_id <> OLD.client_withdrawal_id OR NEW.payment_id <> OLD.payment_id OR NEW.chain <> OLD.chain
  OR NEW.asset <> OLD.asset OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a withdrawal never change');
END;
--> statement-breakpoint
CREATE TRIGGER withdrawals_delete BEFORE DELETE ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal');
END;
--> statement-breakpoint
CREATE TRIGGER audit_events_insert BEFORE INSERT ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event exists') WHERE EXISTS (SELECT 1 FROM audit_events
    WHERE audit_event_id = NEW.audit_event_id OR audit_seq = NEW.audit_seq);
END;
--> statement-breakpoint
CREATE TRIGGER audit_events_update BEFORE UPDATE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;
--> statement-breakpoint
CREATE TRIGGER audit_events_delete BEFORE DELETE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;
--> statement-breakpoint
-- The database numbers audit rows, so that their order is the order of commits and a missing one is a gap.
CREATE TRIGGER audit_events_number BEFORE INSERT ON audit_events WHEN NEW.audit_seq IS NOT NULL AND NEW.audit_seq <> -1 BEGIN
  SELECT RAISE(ABORT, 'append-only: the database numbers audit events');
END;
--> statement-breakpoint
CREATE TRIGGER audit_seals_insert BEFORE INSERT ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal') WHERE NEW.audit_seq IS NOT coalesce((SELECT max(audit_seq) FROM audit_seals), 0) + 1
    OR NOT EXISTS (SELECT 1 FROM audit_events WHERE audit_seq = NEW.audit_seq);
END;
--> statement-breakpoint
CREATE TRIGGER audit_seals_update BEFORE UPDATE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;
--> statement-breakpoint
CREATE TRIGGER audit_seals_delete BEFORE DELETE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;
--> statement-breakpoint
-- Signed bytes are stored once, before they are sent, and for ever. REPLACE would take them away by either unique key.
CREATE TRIGGER transaction_attempts_insert BEFORE INSERT ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt exists') WHERE EXISTS (SELECT 1 FROM transaction_attempts
    WHERE hash = NEW.hash OR (transaction_id = NEW.transaction_id AND attempt = NEW.attempt));
END;
--> statement-breakpoint
CREATE TRIGGER transaction_attempts_update BEFORE UPDATE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;
--> statement-breakpoint
CREATE TRIGGER transaction_attempts_delete BEFORE DELETE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;
--> statement-breakpoint
CREATE TRIGGER chain_transactions_insert BEFORE INSERT ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction exists') WHERE EXISTS (SELECT 1 FROM chain_transactions WHERE transaction_id = NEW.transaction_id
    OR (chain = NEW.chain AND sender = NEW.sender AND nonce = NEW.nonce)
    OR (chain = NEW.chain AND batch_no = NEW.batch_no AND state <> 'unused' AND NEW.state <> 'unused'));
END;
--> statement-breakpoint
-- Replacement changes fees only: nonce, destination and data of a transaction stay what its first attempt said.
CREATE TRIGGER chain_transactions_update BEFORE UPDATE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction') WHERE OLD.state <> 'open' OR NEW.transaction_id <> OLD.transaction_id OR NEW.chain <> OLD.chain
    OR NEW.sender <> OLD.sender OR NEW.nonce <> OLD.nonce OR NEW.kind <> OLD.kind OR NEW.batch_no IS NOT OLD.batch_no OR NEW.data <> OLD.data
    OR NEW.to_address <> OLD.to_address OR NEW.gas_limit <> OLD.gas_limit;
END;
--> statement-breakpoint
CREATE TRIGGER chain_transactions_delete BEFORE DELETE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction');
END;
--> statement-breakpoint
CREATE TRIGGER vault_events_insert BEFORE INSERT ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event exists') WHERE EXISTS (SELECT 1 FROM vault_events
    WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash AND ordinal = NEW.ordinal);
END;
--> statement-breakpoint
CREATE TRIGGER vault_events_update BEFORE UPDATE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;
--> statement-breakpoint
CREATE TRIGGER vault_events_delete BEFORE DELETE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;
--> statement-breakpoint
CREATE TRIGGER batch_members_insert BEFORE INSERT ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: batch member exists') WHERE EXISTS (SELECT 1 FROM batch_members
    WHERE (transaction_id = NEW.transaction_id AND withdrawal_id = NEW.withdrawal_id)
      OR (withdrawal_id = NEW.withdrawal_id AND purpose = NEW.purpose AND ended_in IS NULL AND NEW.ended_in IS NULL));
END;
--> statement-breakpoint
-- Nor does a live one become another: UPDATE OR REPLACE would take away the row that it collides with.
CREATE TRIGGER batch_members_ended BEFORE UPDATE ON batch_members WHEN OLD.ended_in IS NOT NULL OR NEW.transaction_id <> OLD.transaction_id
  OR NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.purpose <> OLD.purpose BEGIN
  SELECT RAISE(ABORT, 'append-only: a batch member keeps its place, and never moves once it has ended');
END;
--> statement-breakpoint
CREATE TRIGGER batch_members_delete BEFORE DELETE ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: batch member');
END;
