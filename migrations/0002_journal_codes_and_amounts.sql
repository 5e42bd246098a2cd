-- Reasons and steps of the journal become the numbers of src/ledger/codes.ts, and amounts get indexes.
--
-- SQLite cannot change a column's type, so the journal is copied and takes its guards along: a rename reads every
-- trigger, and those of a dropped table go with it.
--
-- A Worker of before cannot post to the new tables and reads an empty ledger from them, and a Worker of after neither
-- from the old ones: stop the service for this one, and do not roll the code back past it. The copy takes some 5 s a
-- million transfers, and D1 ends a batch after 30 s: a longer journal is copied in parts.

DROP TRIGGER accounts_update;
--> statement-breakpoint
CREATE TABLE `__new_transfers` (
	`transfer_id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`from_account` integer NOT NULL,
	`to_account` integer NOT NULL,
	`amount` integer NOT NULL,
	`reason` integer NOT NULL,
	`ref` blob NOT NULL,
	`step` integer NOT NULL,
	`line` integer NOT NULL,
	`at` integer NOT NULL,
	`from_balance` integer,
	`to_balance` integer,
	CONSTRAINT "transfers_amount" CHECK(amount > 0 AND amount <= 4611686018427387904),
	CONSTRAINT "transfers_accounts" CHECK(from_account <> to_account),
	CONSTRAINT "transfers_reason" CHECK(reason BETWEEN 1 AND 7),
	CONSTRAINT "transfers_step" CHECK(step BETWEEN 1 AND 5)
) STRICT;
--> statement-breakpoint
-- An unknown name would become NULL, which the new table refuses.
INSERT INTO `__new_transfers` SELECT transfer_id, from_account, to_account, amount,
  CASE reason WHEN 'deposit' THEN 1 WHEN 'withdrawal' THEN 2 WHEN 'reserve_rfq' THEN 3 WHEN 'reserve_trade' THEN 4
    WHEN 'release' THEN 5 WHEN 'trade' THEN 6 WHEN 'fee' THEN 7 END,
  ref, CASE step WHEN 'reserve' THEN 1 WHEN 'end' THEN 2 WHEN 'match' THEN 3 WHEN 'credit' THEN 4 WHEN 'queue' THEN 5 END,
  line, at, from_balance, to_balance FROM `transfers` ORDER BY transfer_id;
--> statement-breakpoint
-- A restore may have moved the sequence past the last row: no number is given out twice.
UPDATE sqlite_sequence SET seq = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'transfers'), 0) WHERE name = '__new_transfers';
--> statement-breakpoint
DROP TABLE `transfers`;
--> statement-breakpoint
ALTER TABLE `__new_transfers` RENAME TO `transfers`;
--> statement-breakpoint
CREATE UNIQUE INDEX `transfers_once` ON `transfers` (`ref`,`step`,`line`);
--> statement-breakpoint
CREATE INDEX `transfers_from` ON `transfers` (`from_account`,`reason`);
--> statement-breakpoint
CREATE INDEX `transfers_to` ON `transfers` (`to_account`,`reason`);
--> statement-breakpoint
CREATE INDEX `transfers_from_amount` ON `transfers` (`from_account`,`reason`,`amount`);
--> statement-breakpoint
CREATE INDEX `transfers_to_amount` ON `transfers` (`to_account`,`reason`,`amount`) WHERE reason IN (1, 6);
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
