-- What was ordered is what is paid, also if somebody drops the triggers of withdrawals: the Worker
-- makes MACs with a key that is not in the database (src/ledger/withdrawal-mac.ts), and the payer
-- signs nothing without them.
--
-- Take the service off the network before, and return it with the new Worker. Do not roll back past
-- this file: an order that the old Worker accepts or approves has no MAC, and the payer sets it
-- aside (withdrawal_altered).

-- Over the terms. NULL: ended before this migration.
-- Example: terms_mac NULL
ALTER TABLE withdrawals ADD COLUMN terms_mac TEXT;

-- Over the id. NULL: not approved.
-- Example: approval_mac NULL
ALTER TABLE withdrawals ADD COLUMN approval_mac TEXT;

DROP TRIGGER withdrawals_terms;

CREATE TRIGGER withdrawals_terms BEFORE UPDATE ON withdrawals
WHEN NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.job_id <> OLD.job_id
  OR NEW.user_id <> OLD.user_id OR NEW.client_withdrawal_id <> OLD.client_withdrawal_id
  OR NEW.payment_id <> OLD.payment_id OR NEW.chain <> OLD.chain OR NEW.asset <> OLD.asset
  OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address
  OR (OLD.terms_mac IS NOT NULL AND NEW.terms_mac IS NOT OLD.terms_mac)
  OR (OLD.approval_mac IS NOT NULL AND NEW.approval_mac IS NOT OLD.approval_mac) BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a withdrawal never change');
END;
