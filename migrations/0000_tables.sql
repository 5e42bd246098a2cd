CREATE TABLE `api_keys` (
	`api_key_id` blob PRIMARY KEY NOT NULL,
	`user_id` blob NOT NULL,
	`label` text NOT NULL,
	`scopes` text NOT NULL,
	`secret_sealed` text NOT NULL,
	`master_key_id` text NOT NULL,
	`allowed_ips` text,
	`minted_by` text NOT NULL,
	`active_from` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`last_used_at` integer,
	`revoked_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `api_keys_user` ON `api_keys` (`user_id`,`created_at`);--> statement-breakpoint
CREATE TABLE `audit_events` (
	`audit_seq` integer PRIMARY KEY NOT NULL,
	`audit_event_id` blob NOT NULL,
	`kind` text NOT NULL,
	`actor` text NOT NULL,
	`user_id` blob,
	`api_key_id` blob,
	`ip` text,
	`subject_id` text,
	`at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `audit_events_audit_event_id_unique` ON `audit_events` (`audit_event_id`);--> statement-breakpoint
CREATE INDEX `audit_events_user` ON `audit_events` (`user_id`,`audit_seq`);--> statement-breakpoint
CREATE INDEX `audit_events_ended` ON `audit_events` (`at`) WHERE kind IN ('account_frozen', 'api_key_revoked', 'sessions_ended');--> statement-breakpoint
CREATE TABLE `audit_seals` (
	`audit_seq` integer PRIMARY KEY NOT NULL,
	`hash` blob NOT NULL,
	`sealed_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `login_attempts` (
	`attempt_id` blob PRIMARY KEY NOT NULL,
	`email_hash` blob NOT NULL,
	`network` text NOT NULL,
	`at` integer NOT NULL,
	`succeeded` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `login_attempts_email` ON `login_attempts` (`email_hash`,`network`,`at`);--> statement-breakpoint
CREATE INDEX `login_attempts_network` ON `login_attempts` (`network`,`at`);--> statement-breakpoint
CREATE INDEX `login_attempts_age` ON `login_attempts` (`at`);--> statement-breakpoint
CREATE TABLE `users` (
	`user_id` blob PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`password_hash` text NOT NULL,
	`session_epoch` integer NOT NULL,
	`frozen_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `users_email_unique` ON `users` (`email`);--> statement-breakpoint
CREATE TABLE `ws_tickets` (
	`ticket_hash` blob PRIMARY KEY NOT NULL,
	`user_id` blob NOT NULL,
	`api_key_id` blob,
	`session_epoch` integer,
	`session_expires_at` integer,
	`scopes` text NOT NULL,
	`expires_at` integer NOT NULL,
	`used_at` integer,
	`stream` text
) STRICT;
--> statement-breakpoint
CREATE INDEX `ws_tickets_used` ON `ws_tickets` (`user_id`) WHERE used_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `ws_tickets_expiry` ON `ws_tickets` (`expires_at`);--> statement-breakpoint
CREATE INDEX `ws_tickets_unused` ON `ws_tickets` (`expires_at`) WHERE used_at IS NULL;--> statement-breakpoint
CREATE TABLE `batch_members` (
	`transaction_id` blob NOT NULL,
	`withdrawal_id` blob NOT NULL,
	`purpose` text NOT NULL,
	`ended_in` integer,
	`outcome` text,
	PRIMARY KEY(`transaction_id`, `withdrawal_id`),
	CONSTRAINT "batch_members_purpose" CHECK(purpose IN ('pay', 'void'))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `batch_members_live` ON `batch_members` (`withdrawal_id`,`purpose`) WHERE ended_in IS NULL;--> statement-breakpoint
CREATE TABLE `chain_blocks` (
	`chain` text NOT NULL,
	`number` integer NOT NULL,
	`hash` blob NOT NULL,
	PRIMARY KEY(`chain`, `number`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `chain_commands` (
	`command_id` integer PRIMARY KEY NOT NULL,
	`chain` text NOT NULL,
	`kind` text NOT NULL,
	`withdrawal_id` blob,
	`actor` text NOT NULL,
	`at` integer NOT NULL,
	`done_in` integer,
	`result` text,
	CONSTRAINT "chain_commands_kind" CHECK(kind IN ('fail', 'retry', 'resume_chain', 'resume_payer'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `chain_commands_open` ON `chain_commands` (`chain`,`command_id`) WHERE done_in IS NULL;--> statement-breakpoint
CREATE INDEX `chain_commands_withdrawal` ON `chain_commands` (`withdrawal_id`) WHERE done_in IS NULL;--> statement-breakpoint
CREATE TABLE `chain_cursors` (
	`chain` text PRIMARY KEY NOT NULL,
	`final_number` integer NOT NULL,
	`final_hash` blob NOT NULL,
	`scanned_number` integer NOT NULL,
	`scanned_hash` blob NOT NULL,
	`head_number` integer NOT NULL,
	`moved_in` integer NOT NULL,
	`moved_at` integer NOT NULL,
	`halted_at` integer,
	`halt_reason` text
) STRICT;
--> statement-breakpoint
CREATE TABLE `chain_factories` (
	`chain` text NOT NULL,
	`factory` blob NOT NULL,
	`verified_at` integer NOT NULL,
	PRIMARY KEY(`chain`, `factory`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `chain_transactions` (
	`transaction_id` blob PRIMARY KEY NOT NULL,
	`chain` text NOT NULL,
	`sender` blob NOT NULL,
	`nonce` integer NOT NULL,
	`kind` text NOT NULL,
	`batch_no` integer,
	`to_address` blob NOT NULL,
	`data` blob NOT NULL,
	`gas_limit` integer NOT NULL,
	`state` text NOT NULL,
	`made_in` integer NOT NULL,
	`made_at` integer NOT NULL,
	`ended_in` integer,
	CONSTRAINT "chain_transactions_state" CHECK(state IN ('open', 'done', 'unused')),
	CONSTRAINT "chain_transactions_kind" CHECK(kind IN ('pay', 'sweep', 'void', 'cancel'))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `chain_transactions_nonce` ON `chain_transactions` (`chain`,`sender`,`nonce`);--> statement-breakpoint
CREATE UNIQUE INDEX `chain_transactions_batch` ON `chain_transactions` (`chain`,`batch_no`) WHERE batch_no IS NOT NULL AND state <> 'unused';--> statement-breakpoint
CREATE INDEX `chain_transactions_open` ON `chain_transactions` (`chain`,`nonce`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `chain_transactions_made_in` ON `chain_transactions` (`made_in`);--> statement-breakpoint
CREATE INDEX `chain_transactions_ended_in` ON `chain_transactions` (`ended_in`) WHERE ended_in IS NOT NULL;--> statement-breakpoint
CREATE TABLE `payer_leases` (
	`chain` text PRIMARY KEY NOT NULL,
	`token` blob NOT NULL,
	`taken_at` integer NOT NULL,
	`halted_at` integer,
	`halt_reason` text,
	`batch_floor` integer
) STRICT;
--> statement-breakpoint
CREATE TABLE `transaction_attempts` (
	`transaction_id` blob NOT NULL,
	`attempt` integer NOT NULL,
	`hash` blob NOT NULL,
	`signed` blob NOT NULL,
	`max_fee` integer NOT NULL,
	`priority_fee` integer NOT NULL,
	`signed_in` integer NOT NULL,
	`signed_at` integer NOT NULL,
	PRIMARY KEY(`transaction_id`, `attempt`)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `transaction_attempts_hash_unique` ON `transaction_attempts` (`hash`);--> statement-breakpoint
CREATE TABLE `unswept` (
	`chain` text NOT NULL,
	`asset` text NOT NULL,
	`address` blob NOT NULL,
	`amount` integer NOT NULL,
	`block_number` integer NOT NULL,
	`not_before` integer,
	PRIMARY KEY(`chain`, `asset`, `address`)
) STRICT;
--> statement-breakpoint
CREATE INDEX `unswept_largest` ON `unswept` (`chain`,`asset`,`amount`);--> statement-breakpoint
CREATE TABLE `vault_events` (
	`chain` text NOT NULL,
	`transaction_hash` blob NOT NULL,
	`ordinal` integer NOT NULL,
	`kind` text NOT NULL,
	`payment_id` blob NOT NULL,
	`batch_no` integer,
	`skip_reason` integer,
	`amount` text,
	`to_address` blob,
	`block_number` integer NOT NULL,
	`block_hash` blob NOT NULL,
	`recorded_in` integer NOT NULL,
	PRIMARY KEY(`chain`, `transaction_hash`, `ordinal`),
	CONSTRAINT "vault_events_kind" CHECK(kind IN ('Paid', 'Failed', 'Skipped', 'Voided'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `vault_events_payment` ON `vault_events` (`payment_id`);--> statement-breakpoint
CREATE INDEX `vault_events_recorded_in` ON `vault_events` (`recorded_in`);--> statement-breakpoint
CREATE TABLE `deposit_addresses` (
	`chain` text NOT NULL,
	`address` blob NOT NULL,
	`user_id` blob NOT NULL,
	`nonce` integer NOT NULL,
	`salt` blob NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`chain`, `address`)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `deposit_addresses_nonce` ON `deposit_addresses` (`user_id`,`chain`,`nonce`);--> statement-breakpoint
CREATE TABLE `deposits` (
	`deposit_id` blob PRIMARY KEY NOT NULL,
	`chain` text NOT NULL,
	`transaction_hash` blob NOT NULL,
	`token` blob NOT NULL,
	`ordinal` integer NOT NULL,
	`position` integer NOT NULL,
	`block_number` integer NOT NULL,
	`block_hash` blob NOT NULL,
	`address` blob NOT NULL,
	`user_id` blob NOT NULL,
	`asset` text NOT NULL,
	`amount` text NOT NULL,
	`required_confirmations` integer NOT NULL,
	`state` text NOT NULL,
	`seen_in` integer NOT NULL,
	`confirmed_in` integer,
	`detected_at` integer NOT NULL,
	`detected_in` integer NOT NULL,
	`credited_at` integer,
	`ended_in` integer,
	CONSTRAINT "deposits_state" CHECK(state IN ('confirming', 'credited', 'orphaned', 'quarantined'))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `deposits_identity` ON `deposits` (`chain`,`transaction_hash`,`token`,`ordinal`,`position`,`address`);--> statement-breakpoint
CREATE INDEX `deposits_user` ON `deposits` (`user_id`,`detected_at`,`deposit_id`);--> statement-breakpoint
CREATE INDEX `deposits_user_state` ON `deposits` (`user_id`,`state`,`detected_at`,`deposit_id`);--> statement-breakpoint
CREATE INDEX `deposits_open` ON `deposits` (`chain`,`block_number`) WHERE state = 'confirming';--> statement-breakpoint
CREATE INDEX `deposits_hash` ON `deposits` (`user_id`,`transaction_hash`);--> statement-breakpoint
CREATE INDEX `deposits_detected_in` ON `deposits` (`detected_in`);--> statement-breakpoint
CREATE INDEX `deposits_ended_in` ON `deposits` (`ended_in`) WHERE ended_in IS NOT NULL;--> statement-breakpoint
CREATE TABLE `withdrawals` (
	`withdrawal_id` blob PRIMARY KEY NOT NULL,
	`job_id` blob NOT NULL,
	`user_id` blob NOT NULL,
	`client_withdrawal_id` text NOT NULL,
	`payment_id` blob NOT NULL,
	`chain` text NOT NULL,
	`asset` text NOT NULL,
	`amount` integer NOT NULL,
	`to_address` blob NOT NULL,
	`state` text NOT NULL,
	`transaction_hash` blob,
	`failure_code` text,
	`failure_message` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`not_before` integer,
	`queued_in` integer NOT NULL,
	`changed_in` integer NOT NULL,
	`ended_by` blob,
	CONSTRAINT "withdrawals_state" CHECK(state IN ('queued', 'submitted', 'settled', 'failed')),
	CONSTRAINT "withdrawals_amount" CHECK(amount > 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `withdrawals_job_id_unique` ON `withdrawals` (`job_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `withdrawals_payment_id_unique` ON `withdrawals` (`payment_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `withdrawals_client_id` ON `withdrawals` (`user_id`,`client_withdrawal_id`);--> statement-breakpoint
CREATE INDEX `withdrawals_user` ON `withdrawals` (`user_id`,`created_at`,`withdrawal_id`);--> statement-breakpoint
CREATE INDEX `withdrawals_user_state` ON `withdrawals` (`user_id`,`state`,`created_at`,`withdrawal_id`);--> statement-breakpoint
CREATE INDEX `withdrawals_open` ON `withdrawals` (`chain`,`created_at`,`withdrawal_id`) WHERE state IN ('queued', 'submitted');--> statement-breakpoint
CREATE INDEX `withdrawals_reverted` ON `withdrawals` (`user_id`,`to_address`) WHERE failure_code = 'payment_reverted';--> statement-breakpoint
CREATE INDEX `withdrawals_changed_in` ON `withdrawals` (`changed_in`);--> statement-breakpoint
CREATE INDEX `withdrawals_ended_by` ON `withdrawals` (`ended_by`) WHERE ended_by IS NOT NULL;--> statement-breakpoint
CREATE TABLE `accounts` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`owner` blob NOT NULL,
	`asset` text NOT NULL,
	`kind` text NOT NULL,
	`balance` integer NOT NULL,
	CONSTRAINT "accounts_kind" CHECK(kind IN ('available', 'pending', 'external', 'fees')),
	CONSTRAINT "accounts_balance" CHECK(balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_owner` ON `accounts` (`owner`,`asset`,`kind`);--> statement-breakpoint
CREATE TABLE `checked_balances` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`balance` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `ledger_checkpoints` (
	`walk` text PRIMARY KEY NOT NULL,
	`position` integer NOT NULL,
	`mark` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `shortfalls` (
	`chain` text NOT NULL,
	`asset` text NOT NULL,
	`block` integer NOT NULL,
	`missing` text NOT NULL,
	PRIMARY KEY(`chain`, `asset`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `transfers` (
	`transfer_id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`from_account` integer NOT NULL,
	`to_account` integer NOT NULL,
	`amount` integer NOT NULL,
	`reason` text NOT NULL,
	`ref` blob NOT NULL,
	`step` text NOT NULL,
	`line` integer NOT NULL,
	`at` integer NOT NULL,
	`from_balance` integer,
	`to_balance` integer,
	CONSTRAINT "transfers_amount" CHECK(amount > 0 AND amount <= 4611686018427387904),
	CONSTRAINT "transfers_accounts" CHECK(from_account <> to_account),
	CONSTRAINT "transfers_reason" CHECK(reason IN ('deposit', 'withdrawal', 'reserve_rfq', 'reserve_trade', 'release', 'trade', 'fee')),
	CONSTRAINT "transfers_step" CHECK(step IN ('reserve', 'end', 'match', 'credit', 'queue', 'settle'))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `transfers_once` ON `transfers` (`ref`,`step`,`line`);--> statement-breakpoint
CREATE INDEX `transfers_from` ON `transfers` (`from_account`,`reason`);--> statement-breakpoint
CREATE INDEX `transfers_to` ON `transfers` (`to_account`,`reason`);--> statement-breakpoint
CREATE TABLE `alerts` (
	`alert_id` integer PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`subject` text NOT NULL,
	`detail` text NOT NULL,
	`at` integer NOT NULL,
	`resolved_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `alerts_open` ON `alerts` (`kind`,`subject`) WHERE resolved_at IS NULL;--> statement-breakpoint
CREATE TABLE `commit_groups` (
	`seq` integer PRIMARY KEY NOT NULL,
	`group_id` blob NOT NULL,
	`at` integer NOT NULL,
	`voided` integer NOT NULL,
	CONSTRAINT "commit_groups_voided" CHECK("commit_groups"."voided" IN (0, 1))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `commit_groups_group_id_unique` ON `commit_groups` (`group_id`);--> statement-breakpoint
CREATE TABLE `switches` (
	`name` text PRIMARY KEY NOT NULL,
	`reason` text NOT NULL,
	`since` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`user_id` blob NOT NULL,
	`route` text NOT NULL,
	`key` text NOT NULL,
	`terms` text NOT NULL,
	`answer` text NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`user_id`, `route`, `key`)
) STRICT;
--> statement-breakpoint
CREATE INDEX `idempotency_keys_age` ON `idempotency_keys` (`at`);--> statement-breakpoint
CREATE TABLE `matches` (
	`match_id` blob PRIMARY KEY NOT NULL,
	`request_id` blob NOT NULL,
	`quote_id` blob NOT NULL,
	`requester_id` blob NOT NULL,
	`maker_id` blob NOT NULL,
	`asset` text NOT NULL,
	`side` text NOT NULL,
	`amount` integer NOT NULL,
	`price` integer NOT NULL,
	`usdc_amount` integer NOT NULL,
	`taker_fee` integer NOT NULL,
	`maker_fee` integer NOT NULL,
	`at` integer NOT NULL,
	`matched_in` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `matches_request_id_unique` ON `matches` (`request_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `matches_quote_id_unique` ON `matches` (`quote_id`);--> statement-breakpoint
CREATE INDEX `matches_requester` ON `matches` (`requester_id`,`at`,`match_id`);--> statement-breakpoint
CREATE INDEX `matches_maker` ON `matches` (`maker_id`,`at`,`match_id`);--> statement-breakpoint
CREATE INDEX `matches_in` ON `matches` (`matched_in`);--> statement-breakpoint
CREATE TABLE `paused_venues` (
	`venue` text PRIMARY KEY NOT NULL,
	`since` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `quotes` (
	`quote_id` blob PRIMARY KEY NOT NULL,
	`request_id` blob NOT NULL,
	`maker_id` blob NOT NULL,
	`asset` text NOT NULL,
	`amount` text NOT NULL,
	`side` text NOT NULL,
	`price` integer NOT NULL,
	`usdc_amount` integer NOT NULL,
	`taker_fee` integer NOT NULL,
	`maker_fee` integer NOT NULL,
	`reserve_asset` text NOT NULL,
	`reserve` integer NOT NULL,
	`state` text NOT NULL,
	`opened_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`opened_in` integer NOT NULL,
	`ended_by` blob,
	`ended_in` integer,
	CONSTRAINT "quotes_state" CHECK(state IN ('open', 'accepted', 'cancelled', 'expired', 'rejected')),
	CONSTRAINT "quotes_price" CHECK(price BETWEEN 1 AND 1000000),
	CONSTRAINT "quotes_reserve" CHECK(reserve > 0)
) STRICT;
--> statement-breakpoint
CREATE INDEX `quotes_request` ON `quotes` (`request_id`,`price`,`opened_at`,`quote_id`);--> statement-breakpoint
CREATE INDEX `quotes_maker` ON `quotes` (`maker_id`,`opened_at`,`quote_id`);--> statement-breakpoint
CREATE INDEX `quotes_maker_state` ON `quotes` (`maker_id`,`state`,`opened_at`,`quote_id`);--> statement-breakpoint
CREATE INDEX `quotes_request_state` ON `quotes` (`request_id`,`state`,`price`,`opened_at`,`quote_id`);--> statement-breakpoint
CREATE INDEX `quotes_open_maker` ON `quotes` (`maker_id`,`expires_at`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `quotes_open_request` ON `quotes` (`request_id`,`maker_id`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `quotes_due` ON `quotes` (`asset`,`expires_at`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `quotes_opened_in` ON `quotes` (`opened_in`);--> statement-breakpoint
CREATE INDEX `quotes_ended_in` ON `quotes` (`ended_in`) WHERE ended_in IS NOT NULL;--> statement-breakpoint
CREATE INDEX `quotes_ended_by` ON `quotes` (`ended_by`) WHERE ended_by IS NOT NULL;--> statement-breakpoint
CREATE TABLE `requests` (
	`request_id` blob PRIMARY KEY NOT NULL,
	`requester_id` blob NOT NULL,
	`asset` text NOT NULL,
	`amount` text NOT NULL,
	`side` text NOT NULL,
	`disclosed` integer NOT NULL,
	`state` text NOT NULL,
	`opened_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`opened_in` integer NOT NULL,
	`ended_by` blob,
	`ended_in` integer,
	CONSTRAINT "requests_state" CHECK(state IN ('open', 'matched', 'cancelled', 'expired')),
	CONSTRAINT "requests_side" CHECK(side IN ('Bid', 'Ask'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `requests_open_asset` ON `requests` (`asset`,`opened_at`,`request_id`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `requests_open_at` ON `requests` (`opened_at`,`request_id`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `requests_open_user` ON `requests` (`requester_id`,`opened_at`,`request_id`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `requests_due` ON `requests` (`asset`,`expires_at`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `requests_opened_in` ON `requests` (`opened_in`);--> statement-breakpoint
CREATE INDEX `requests_ended_in` ON `requests` (`ended_in`) WHERE ended_in IS NOT NULL;--> statement-breakpoint
CREATE INDEX `requests_ended_by` ON `requests` (`ended_by`) WHERE ended_by IS NOT NULL;--> statement-breakpoint
CREATE TABLE `stream_events` (
	`stream_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`written_in` integer NOT NULL,
	`at` integer NOT NULL,
	`type` text NOT NULL,
	`body` text NOT NULL,
	PRIMARY KEY(`stream_id`, `seq`)
) STRICT;
--> statement-breakpoint
CREATE INDEX `stream_events_written_in` ON `stream_events` (`written_in`);--> statement-breakpoint
CREATE INDEX `stream_events_age` ON `stream_events` (`at`);--> statement-breakpoint
CREATE TABLE `stream_readers` (
	`name` text PRIMARY KEY NOT NULL,
	`since` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `streams` (
	`stream_id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`last_seq` integer NOT NULL,
	`pushed_seq` integer NOT NULL,
	`first_seq` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `streams_name_unique` ON `streams` (`name`);--> statement-breakpoint
CREATE INDEX `streams_long` ON `streams` (`stream_id`) WHERE last_seq - first_seq >= 1000;