-- The whole schema: each table with its indexes and the guards that no statement can get round.

CREATE TABLE commit_groups (
  seq integer PRIMARY KEY NOT NULL,
  group_id blob NOT NULL,
  at integer NOT NULL,
  voided integer NOT NULL,
  CONSTRAINT "commit_groups_voided" CHECK(voided IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX commit_groups_group_id_unique ON commit_groups (group_id);

CREATE TABLE kill_switches (
  name text PRIMARY KEY NOT NULL,
  reason text NOT NULL,
  since integer NOT NULL
) STRICT;

CREATE TABLE alerts (
  alert_id integer PRIMARY KEY NOT NULL,
  kind text NOT NULL,
  subject text NOT NULL,
  detail text NOT NULL,
  at integer NOT NULL,
  resolved_at integer
) STRICT;
CREATE INDEX alerts_open ON alerts (kind,subject) WHERE resolved_at IS NULL;

CREATE TABLE users (
  user_id blob PRIMARY KEY NOT NULL,
  email text NOT NULL,
  password_hash text NOT NULL,
  session_epoch integer NOT NULL,
  frozen_at integer,
  created_at integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_email_unique ON users (email);

CREATE TABLE api_keys (
  api_key_id blob PRIMARY KEY NOT NULL,
  user_id blob NOT NULL,
  label text NOT NULL,
  scopes text NOT NULL,
  secret_sealed text NOT NULL,
  master_key_id text NOT NULL,
  allowed_ips text,
  minted_by text NOT NULL,
  active_from integer NOT NULL,
  created_at integer NOT NULL,
  expires_at integer,
  last_used_at integer,
  revoked_at integer
) STRICT;
CREATE INDEX api_keys_user ON api_keys (user_id,created_at);

CREATE TABLE ws_tickets (
  ticket_hash blob PRIMARY KEY NOT NULL,
  user_id blob NOT NULL,
  api_key_id blob,
  session_epoch integer,
  session_expires_at integer,
  scopes text NOT NULL,
  expires_at integer NOT NULL,
  used_at integer,
  stream text
) STRICT;
CREATE INDEX ws_tickets_used ON ws_tickets (user_id) WHERE used_at IS NOT NULL;
CREATE INDEX ws_tickets_expiry ON ws_tickets (expires_at);
CREATE INDEX ws_tickets_unused ON ws_tickets (expires_at) WHERE used_at IS NULL;

CREATE TABLE login_attempts (
  attempt_id blob PRIMARY KEY NOT NULL,
  email_hash blob NOT NULL,
  network text NOT NULL,
  at integer NOT NULL,
  succeeded integer NOT NULL
) STRICT;
CREATE INDEX login_attempts_email ON login_attempts (email_hash,network,at);
CREATE INDEX login_attempts_network ON login_attempts (network,at);
CREATE INDEX login_attempts_age ON login_attempts (at);

CREATE TABLE audit_events (
  audit_seq integer PRIMARY KEY NOT NULL,
  audit_event_id blob NOT NULL,
  kind text NOT NULL,
  actor text NOT NULL,
  user_id blob,
  api_key_id blob,
  ip text,
  subject_id text,
  at integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX audit_events_audit_event_id_unique ON audit_events (audit_event_id);
CREATE INDEX audit_events_user ON audit_events (user_id,audit_seq);
CREATE INDEX audit_events_ended ON audit_events (at) WHERE kind IN ('account_frozen', 'api_key_revoked', 'sessions_ended');

CREATE TRIGGER audit_events_insert BEFORE INSERT ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event exists') WHERE EXISTS (SELECT 1 FROM audit_events
    WHERE audit_event_id = NEW.audit_event_id OR audit_seq = NEW.audit_seq);
END;

CREATE TRIGGER audit_events_update BEFORE UPDATE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;

CREATE TRIGGER audit_events_delete BEFORE DELETE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;

CREATE TRIGGER audit_events_number BEFORE INSERT ON audit_events WHEN NEW.audit_seq IS NOT NULL AND NEW.audit_seq <> -1 BEGIN
  SELECT RAISE(ABORT, 'append-only: the database numbers audit events');
END;

CREATE TABLE audit_seals (
  audit_seq integer PRIMARY KEY NOT NULL,
  hash blob NOT NULL,
  sealed_at integer NOT NULL
) STRICT;

CREATE TRIGGER audit_seals_insert BEFORE INSERT ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal') WHERE NEW.audit_seq IS NOT coalesce((SELECT max(audit_seq) FROM audit_seals), 0) + 1
    OR NOT EXISTS (SELECT 1 FROM audit_events WHERE audit_seq = NEW.audit_seq);
END;

CREATE TRIGGER audit_seals_update BEFORE UPDATE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;

CREATE TRIGGER audit_seals_delete BEFORE DELETE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;

CREATE TABLE accounts (
  account_id integer PRIMARY KEY NOT NULL,
  owner blob NOT NULL,
  asset text NOT NULL,
  kind text NOT NULL,
  balance integer NOT NULL,
  CONSTRAINT "accounts_kind" CHECK(kind IN ('available', 'pending', 'external', 'fees')),
  CONSTRAINT "accounts_balance" CHECK(balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904)
) STRICT;
CREATE UNIQUE INDEX accounts_owner ON accounts (owner,asset,kind);

CREATE TRIGGER accounts_insert BEFORE INSERT ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account exists') WHERE EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.account_id)
    OR EXISTS (SELECT 1 FROM accounts WHERE owner = NEW.owner AND asset = NEW.asset AND kind = NEW.kind);
  SELECT RAISE(ABORT, 'an account starts at zero') WHERE NEW.balance <> 0;
END;

CREATE TRIGGER accounts_delete BEFORE DELETE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account');
END;

CREATE TRIGGER accounts_update BEFORE UPDATE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account') WHERE NEW.account_id <> OLD.account_id OR NEW.owner <> OLD.owner
    OR NEW.asset <> OLD.asset OR NEW.kind <> OLD.kind;
  SELECT RAISE(ABORT, 'a balance moves only by a transfer') WHERE NOT EXISTS (
    SELECT 1 FROM (SELECT * FROM transfers ORDER BY transfer_id DESC LIMIT 1) t WHERE t.from_balance IS NULL
      AND ((t.from_account = OLD.account_id AND NEW.balance = OLD.balance - t.amount)
        OR (t.to_account = OLD.account_id AND NEW.balance = OLD.balance + t.amount)));
END;

CREATE TABLE "transfers" (
  transfer_id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
  from_account integer NOT NULL,
  to_account integer NOT NULL,
  amount integer NOT NULL,
  reason integer NOT NULL,
  ref blob NOT NULL,
  step integer NOT NULL,
  line integer NOT NULL,
  at integer NOT NULL,
  from_balance integer,
  to_balance integer,
  CONSTRAINT "transfers_amount" CHECK(amount > 0 AND amount <= 4611686018427387904),
  CONSTRAINT "transfers_accounts" CHECK(from_account <> to_account),
  CONSTRAINT "transfers_reason" CHECK(reason BETWEEN 1 AND 7),
  CONSTRAINT "transfers_step" CHECK(step BETWEEN 1 AND 5)
) STRICT;
CREATE UNIQUE INDEX transfers_once ON transfers (ref,step,line);
CREATE INDEX transfers_from ON transfers (from_account,reason);
CREATE INDEX transfers_to ON transfers (to_account,reason);
CREATE INDEX transfers_from_amount ON transfers (from_account,reason,amount);
CREATE INDEX transfers_to_amount ON transfers (to_account,reason,amount) WHERE reason IN (1, 6);

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

CREATE TRIGGER transfers_update BEFORE UPDATE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer') WHERE OLD.from_balance IS NOT NULL OR OLD.to_balance IS NOT NULL
    OR NEW.transfer_id <> OLD.transfer_id OR NEW.from_account <> OLD.from_account OR NEW.to_account <> OLD.to_account
    OR NEW.amount <> OLD.amount OR NEW.reason <> OLD.reason OR NEW.ref <> OLD.ref OR NEW.step <> OLD.step
    OR NEW.line <> OLD.line OR NEW.at <> OLD.at;
END;

CREATE TRIGGER transfers_delete BEFORE DELETE ON transfers BEGIN
  SELECT RAISE(ABORT, 'append-only: transfer');
END;

CREATE TABLE requests (
  request_id blob PRIMARY KEY NOT NULL,
  requester_id blob NOT NULL,
  asset text NOT NULL,
  amount text NOT NULL,
  side text NOT NULL,
  disclosed integer NOT NULL,
  status text NOT NULL,
  opened_at integer NOT NULL,
  expires_at integer NOT NULL,
  opened_group integer NOT NULL,
  ended_by blob,
  ended_group integer,
  CONSTRAINT "requests_status" CHECK(status IN ('open', 'matched', 'cancelled', 'expired')),
  CONSTRAINT "requests_side" CHECK(side IN ('Bid', 'Ask'))
) STRICT;
CREATE INDEX requests_open_asset ON requests (asset,opened_at,request_id) WHERE status = 'open';
CREATE INDEX requests_open_at ON requests (opened_at,request_id) WHERE status = 'open';
CREATE INDEX requests_open_user ON requests (requester_id,opened_at,request_id) WHERE status = 'open';
CREATE INDEX requests_due ON requests (asset,expires_at) WHERE status = 'open';
CREATE INDEX requests_opened_group ON requests (opened_group);
CREATE INDEX requests_ended_group ON requests (ended_group) WHERE ended_group IS NOT NULL;
CREATE INDEX requests_ended_by ON requests (ended_by) WHERE ended_by IS NOT NULL;

CREATE TRIGGER requests_closed BEFORE UPDATE ON requests WHEN OLD.status <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed request never moves');
END;

CREATE TRIGGER requests_insert BEFORE INSERT ON requests BEGIN
  SELECT RAISE(ABORT, 'append-only: request exists') WHERE EXISTS (SELECT 1 FROM requests WHERE request_id = NEW.request_id);
END;

CREATE TABLE quotes (
  quote_id blob PRIMARY KEY NOT NULL,
  request_id blob NOT NULL,
  maker_id blob NOT NULL,
  asset text NOT NULL,
  amount text NOT NULL,
  side text NOT NULL,
  price integer NOT NULL,
  usdc_amount integer NOT NULL,
  taker_fee integer NOT NULL,
  maker_fee integer NOT NULL,
  reserve_asset text NOT NULL,
  reserve integer NOT NULL,
  status text NOT NULL,
  opened_at integer NOT NULL,
  expires_at integer NOT NULL,
  opened_group integer NOT NULL,
  ended_by blob,
  ended_group integer,
  CONSTRAINT "quotes_status" CHECK(status IN ('open', 'accepted', 'cancelled', 'expired', 'rejected')),
  CONSTRAINT "quotes_price" CHECK(price BETWEEN 1 AND 1000000),
  CONSTRAINT "quotes_reserve" CHECK(reserve > 0)
) STRICT;
CREATE INDEX quotes_request ON quotes (request_id,price,opened_at,quote_id);
CREATE INDEX quotes_maker ON quotes (maker_id,opened_at,quote_id);
CREATE INDEX quotes_maker_status ON quotes (maker_id,status,opened_at,quote_id);
CREATE INDEX quotes_request_status ON quotes (request_id,status,price,opened_at,quote_id);
CREATE INDEX quotes_open_maker ON quotes (maker_id,expires_at) WHERE status = 'open';
CREATE INDEX quotes_open_request ON quotes (request_id,maker_id) WHERE status = 'open';
CREATE INDEX quotes_due ON quotes (asset,expires_at) WHERE status = 'open';
CREATE INDEX quotes_opened_group ON quotes (opened_group);
CREATE INDEX quotes_ended_group ON quotes (ended_group) WHERE ended_group IS NOT NULL;
CREATE INDEX quotes_ended_by ON quotes (ended_by) WHERE ended_by IS NOT NULL;

CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN OLD.status <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed quote never moves');
END;

CREATE TRIGGER quotes_insert BEFORE INSERT ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: quote exists') WHERE EXISTS (SELECT 1 FROM quotes WHERE quote_id = NEW.quote_id);
END;

CREATE TABLE matches (
  match_id blob PRIMARY KEY NOT NULL,
  request_id blob NOT NULL,
  quote_id blob NOT NULL,
  requester_id blob NOT NULL,
  maker_id blob NOT NULL,
  asset text NOT NULL,
  side text NOT NULL,
  amount integer NOT NULL,
  price integer NOT NULL,
  usdc_amount integer NOT NULL,
  taker_fee integer NOT NULL,
  maker_fee integer NOT NULL,
  at integer NOT NULL,
  matched_group integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX matches_request_id_unique ON matches (request_id);
CREATE UNIQUE INDEX matches_quote_id_unique ON matches (quote_id);
CREATE INDEX matches_requester ON matches (requester_id,at,match_id);
CREATE INDEX matches_maker ON matches (maker_id,at,match_id);
CREATE INDEX matches_in ON matches (matched_group);

CREATE TRIGGER matches_insert BEFORE INSERT ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match exists') WHERE EXISTS (SELECT 1 FROM matches
    WHERE match_id = NEW.match_id OR request_id = NEW.request_id OR quote_id = NEW.quote_id);
END;

CREATE TRIGGER matches_update BEFORE UPDATE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match');
END;

CREATE TRIGGER matches_delete BEFORE DELETE ON matches BEGIN
  SELECT RAISE(ABORT, 'append-only: match');
END;

CREATE TABLE idempotency_keys (
  user_id blob NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  terms text NOT NULL,
  result text NOT NULL,
  at integer NOT NULL,
  PRIMARY KEY(user_id, route, key)
) STRICT;
CREATE INDEX idempotency_keys_age ON idempotency_keys (at);

CREATE TABLE streams (
  stream_id integer PRIMARY KEY NOT NULL,
  name text NOT NULL,
  last_seq integer NOT NULL,
  pushed_seq integer NOT NULL,
  first_seq integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX streams_name_unique ON streams (name);
CREATE INDEX streams_long ON streams (stream_id) WHERE last_seq - first_seq >= 1000;

CREATE TABLE stream_events (
  stream_id integer NOT NULL,
  seq integer NOT NULL,
  written_group integer NOT NULL,
  at integer NOT NULL,
  type text NOT NULL,
  body text NOT NULL,
  PRIMARY KEY(stream_id, seq)
) STRICT;
CREATE INDEX stream_events_written_group ON stream_events (written_group);
CREATE INDEX stream_events_age ON stream_events (at);

CREATE TRIGGER stream_events_number AFTER INSERT ON stream_events BEGIN
  UPDATE streams SET last_seq = NEW.seq WHERE stream_id = NEW.stream_id AND last_seq = NEW.seq - 1;
  SELECT RAISE(ABORT, 'append-only: event number') WHERE changes() <> 1;
END;

CREATE TRIGGER stream_events_update BEFORE UPDATE ON stream_events BEGIN
  SELECT RAISE(ABORT, 'append-only: event');
END;

CREATE TABLE stream_subscribers (
  name text PRIMARY KEY NOT NULL,
  since integer NOT NULL
) STRICT;

CREATE TABLE deposit_addresses (
  chain text NOT NULL,
  address blob NOT NULL,
  user_id blob NOT NULL,
  nonce integer NOT NULL,
  salt blob NOT NULL,
  created_at integer NOT NULL,
  PRIMARY KEY(chain, address)
) STRICT;
CREATE UNIQUE INDEX deposit_addresses_nonce ON deposit_addresses (user_id,chain,nonce);

CREATE TABLE deposits (
  deposit_id blob PRIMARY KEY NOT NULL,
  chain text NOT NULL,
  transaction_hash blob NOT NULL,
  token blob NOT NULL,
  ordinal integer NOT NULL,
  position integer NOT NULL,
  block_number integer NOT NULL,
  block_hash blob NOT NULL,
  address blob NOT NULL,
  user_id blob NOT NULL,
  asset text NOT NULL,
  amount text NOT NULL,
  required_confirmations integer NOT NULL,
  status text NOT NULL,
  seen_group integer NOT NULL,
  confirmed_group integer,
  detected_at integer NOT NULL,
  detected_group integer NOT NULL,
  credited_at integer,
  ended_group integer,
  CONSTRAINT "deposits_status" CHECK(status IN ('confirming', 'credited', 'orphaned', 'quarantined'))
) STRICT;
CREATE UNIQUE INDEX deposits_identity ON deposits (chain,transaction_hash,token,ordinal,position,address);
CREATE INDEX deposits_user ON deposits (user_id,detected_at,deposit_id);
CREATE INDEX deposits_user_status ON deposits (user_id,status,detected_at,deposit_id);
CREATE INDEX deposits_open ON deposits (chain,block_number) WHERE status = 'confirming';
CREATE INDEX deposits_hash ON deposits (user_id,transaction_hash);
CREATE INDEX deposits_detected_group ON deposits (detected_group);
CREATE INDEX deposits_ended_group ON deposits (ended_group) WHERE ended_group IS NOT NULL;

CREATE TRIGGER deposits_insert BEFORE INSERT ON deposits BEGIN
  -- By its identity a deposit may be seen again until it is money; then nothing takes its place.
  SELECT RAISE(ABORT, 'append-only: deposit exists') WHERE EXISTS (SELECT 1 FROM deposits WHERE deposit_id = NEW.deposit_id)
    OR EXISTS (SELECT 1 FROM deposits WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash AND token = NEW.token
      AND ordinal = NEW.ordinal AND position = NEW.position AND address = NEW.address AND status IN ('credited', 'quarantined'));
END;

CREATE TRIGGER deposits_delete BEFORE DELETE ON deposits BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit');
END;

CREATE TRIGGER deposits_credited BEFORE UPDATE ON deposits WHEN OLD.status = 'credited' BEGIN
  SELECT RAISE(ABORT, 'append-only: a credited deposit never moves');
END;

CREATE TABLE withdrawals (
  withdrawal_id blob PRIMARY KEY NOT NULL,
  job_id blob NOT NULL,
  user_id blob NOT NULL,
  client_withdrawal_id text NOT NULL,
  payment_id blob NOT NULL,
  chain text NOT NULL,
  asset text NOT NULL,
  amount integer NOT NULL,
  to_address blob NOT NULL,
  status text NOT NULL,
  transaction_hash blob,
  failure_code text,
  failure_message text,
  created_at integer NOT NULL,
  updated_at integer NOT NULL,
  not_before integer,
  queued_group integer NOT NULL,
  changed_group integer NOT NULL,
  ended_by blob,
  CONSTRAINT "withdrawals_status" CHECK(status IN ('queued', 'submitted', 'settled', 'failed')),
  CONSTRAINT "withdrawals_amount" CHECK(amount > 0)
) STRICT;
CREATE UNIQUE INDEX withdrawals_job_id_unique ON withdrawals (job_id);
CREATE UNIQUE INDEX withdrawals_payment_id_unique ON withdrawals (payment_id);
CREATE UNIQUE INDEX withdrawals_client_id ON withdrawals (user_id,client_withdrawal_id);
CREATE INDEX withdrawals_user ON withdrawals (user_id,created_at,withdrawal_id);
CREATE INDEX withdrawals_user_status ON withdrawals (user_id,status,created_at,withdrawal_id);
CREATE INDEX withdrawals_open ON withdrawals (chain,created_at,withdrawal_id) WHERE status IN ('queued', 'submitted');
CREATE INDEX withdrawals_reverted ON withdrawals (user_id,to_address) WHERE failure_code = 'payment_reverted';
CREATE INDEX withdrawals_changed_group ON withdrawals (changed_group);
CREATE INDEX withdrawals_ended_by ON withdrawals (ended_by) WHERE ended_by IS NOT NULL;

CREATE TRIGGER withdrawals_insert BEFORE INSERT ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal exists') WHERE EXISTS (SELECT 1 FROM withdrawals
    WHERE withdrawal_id = NEW.withdrawal_id OR job_id = NEW.job_id OR payment_id = NEW.payment_id
      OR (user_id = NEW.user_id AND client_withdrawal_id = NEW.client_withdrawal_id));
END;

CREATE TRIGGER withdrawals_closed BEFORE UPDATE ON withdrawals WHEN OLD.status IN ('settled', 'failed') BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed withdrawal never moves');
END;

CREATE TRIGGER withdrawals_terms BEFORE UPDATE ON withdrawals WHEN NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.job_id <> OLD.job_id
  OR NEW.user_id <> OLD.user_id OR NEW.client_withdrawal_id <> OLD.client_withdrawal_id OR NEW.payment_id <> OLD.payment_id OR NEW.chain <> OLD.chain
  OR NEW.asset <> OLD.asset OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a withdrawal never change');
END;

CREATE TRIGGER withdrawals_delete BEFORE DELETE ON withdrawals BEGIN
  SELECT RAISE(ABORT, 'append-only: withdrawal');
END;

CREATE TABLE batch_members (
  transaction_id blob NOT NULL,
  withdrawal_id blob NOT NULL,
  purpose text NOT NULL,
  ended_group integer,
  outcome text,
  PRIMARY KEY(transaction_id, withdrawal_id),
  CONSTRAINT "batch_members_purpose" CHECK(purpose IN ('pay', 'void'))
) STRICT;
CREATE UNIQUE INDEX batch_members_live ON batch_members (withdrawal_id,purpose) WHERE ended_group IS NULL;

CREATE TRIGGER batch_members_insert BEFORE INSERT ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: batch member exists') WHERE EXISTS (SELECT 1 FROM batch_members
    WHERE (transaction_id = NEW.transaction_id AND withdrawal_id = NEW.withdrawal_id)
      OR (withdrawal_id = NEW.withdrawal_id AND purpose = NEW.purpose AND ended_group IS NULL AND NEW.ended_group IS NULL));
END;

CREATE TRIGGER batch_members_ended BEFORE UPDATE ON batch_members WHEN OLD.ended_group IS NOT NULL OR NEW.transaction_id <> OLD.transaction_id
  OR NEW.withdrawal_id <> OLD.withdrawal_id OR NEW.purpose <> OLD.purpose BEGIN
  SELECT RAISE(ABORT, 'append-only: a batch member keeps its place, and never moves once it has ended');
END;

CREATE TRIGGER batch_members_delete BEFORE DELETE ON batch_members BEGIN
  SELECT RAISE(ABORT, 'append-only: batch member');
END;

CREATE TABLE chain_blocks (
  chain text NOT NULL,
  number integer NOT NULL,
  hash blob NOT NULL,
  PRIMARY KEY(chain, number)
) STRICT;

CREATE TABLE chain_commands (
  command_id integer PRIMARY KEY NOT NULL,
  chain text NOT NULL,
  kind text NOT NULL,
  withdrawal_id blob,
  actor text NOT NULL,
  at integer NOT NULL,
  done_group integer,
  result text,
  CONSTRAINT "chain_commands_kind" CHECK(kind IN ('fail', 'retry', 'resume_chain', 'resume_payer'))
) STRICT;
CREATE INDEX chain_commands_open ON chain_commands (chain,command_id) WHERE done_group IS NULL;
CREATE INDEX chain_commands_withdrawal ON chain_commands (withdrawal_id) WHERE done_group IS NULL;

CREATE TABLE chain_cursors (
  chain text PRIMARY KEY NOT NULL,
  confirmed_number integer NOT NULL,
  confirmed_hash blob NOT NULL,
  scanned_number integer NOT NULL,
  scanned_hash blob NOT NULL,
  head_number integer NOT NULL,
  moved_group integer NOT NULL,
  moved_at integer NOT NULL,
  halted_at integer,
  halt_reason text
) STRICT;

CREATE TABLE chain_factories (
  chain text NOT NULL,
  factory blob NOT NULL,
  verified_at integer NOT NULL,
  PRIMARY KEY(chain, factory)
) STRICT;

CREATE TABLE chain_transactions (
  transaction_id blob PRIMARY KEY NOT NULL,
  chain text NOT NULL,
  sender blob NOT NULL,
  nonce integer NOT NULL,
  kind text NOT NULL,
  batch_no integer,
  to_address blob NOT NULL,
  data blob NOT NULL,
  gas_limit integer NOT NULL,
  status text NOT NULL,
  made_group integer NOT NULL,
  made_at integer NOT NULL,
  ended_group integer,
  CONSTRAINT "chain_transactions_status" CHECK(status IN ('open', 'done', 'unused')),
  CONSTRAINT "chain_transactions_kind" CHECK(kind IN ('pay', 'sweep', 'void', 'cancel'))
) STRICT;
CREATE UNIQUE INDEX chain_transactions_nonce ON chain_transactions (chain,sender,nonce);
CREATE UNIQUE INDEX chain_transactions_batch ON chain_transactions (chain,batch_no) WHERE batch_no IS NOT NULL AND status <> 'unused';
CREATE INDEX chain_transactions_open ON chain_transactions (chain,nonce) WHERE status = 'open';
CREATE INDEX chain_transactions_made_group ON chain_transactions (made_group);
CREATE INDEX chain_transactions_ended_group ON chain_transactions (ended_group) WHERE ended_group IS NOT NULL;

CREATE TRIGGER chain_transactions_insert BEFORE INSERT ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction exists') WHERE EXISTS (SELECT 1 FROM chain_transactions WHERE transaction_id = NEW.transaction_id
    OR (chain = NEW.chain AND sender = NEW.sender AND nonce = NEW.nonce)
    OR (chain = NEW.chain AND batch_no = NEW.batch_no AND status <> 'unused' AND NEW.status <> 'unused'));
END;

CREATE TRIGGER chain_transactions_update BEFORE UPDATE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction') WHERE OLD.status <> 'open' OR NEW.transaction_id <> OLD.transaction_id OR NEW.chain <> OLD.chain
    OR NEW.sender <> OLD.sender OR NEW.nonce <> OLD.nonce OR NEW.kind <> OLD.kind OR NEW.batch_no IS NOT OLD.batch_no OR NEW.data <> OLD.data
    OR NEW.to_address <> OLD.to_address OR NEW.gas_limit <> OLD.gas_limit;
END;

CREATE TRIGGER chain_transactions_delete BEFORE DELETE ON chain_transactions BEGIN
  SELECT RAISE(ABORT, 'append-only: transaction');
END;

CREATE TABLE payer_leases (
  chain text PRIMARY KEY NOT NULL,
  token blob NOT NULL,
  taken_at integer NOT NULL,
  halted_at integer,
  halt_reason text,
  batch_floor integer
) STRICT;

CREATE TABLE transaction_attempts (
  transaction_id blob NOT NULL,
  attempt integer NOT NULL,
  hash blob NOT NULL,
  signed blob NOT NULL,
  max_fee integer NOT NULL,
  priority_fee integer NOT NULL,
  signed_group integer NOT NULL,
  signed_at integer NOT NULL,
  PRIMARY KEY(transaction_id, attempt)
) STRICT;
CREATE UNIQUE INDEX transaction_attempts_hash_unique ON transaction_attempts (hash);

CREATE TRIGGER transaction_attempts_insert BEFORE INSERT ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt exists') WHERE EXISTS (SELECT 1 FROM transaction_attempts
    WHERE hash = NEW.hash OR (transaction_id = NEW.transaction_id AND attempt = NEW.attempt));
END;

CREATE TRIGGER transaction_attempts_update BEFORE UPDATE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;

CREATE TRIGGER transaction_attempts_delete BEFORE DELETE ON transaction_attempts BEGIN
  SELECT RAISE(ABORT, 'append-only: attempt');
END;

CREATE TABLE sweepable (
  chain text NOT NULL,
  asset text NOT NULL,
  address blob NOT NULL,
  amount integer NOT NULL,
  block_number integer NOT NULL,
  not_before integer,
  PRIMARY KEY(chain, asset, address)
) STRICT;
CREATE INDEX sweepable_largest ON sweepable (chain,asset,amount);

CREATE TABLE vault_events (
  chain text NOT NULL,
  transaction_hash blob NOT NULL,
  ordinal integer NOT NULL,
  kind text NOT NULL,
  payment_id blob NOT NULL,
  batch_no integer,
  skip_reason integer,
  amount text,
  to_address blob,
  block_number integer NOT NULL,
  block_hash blob NOT NULL,
  recorded_group integer NOT NULL,
  PRIMARY KEY(chain, transaction_hash, ordinal),
  CONSTRAINT "vault_events_kind" CHECK(kind IN ('Paid', 'Failed', 'Skipped', 'Voided'))
) STRICT;
CREATE INDEX vault_events_payment ON vault_events (payment_id);
CREATE INDEX vault_events_recorded_group ON vault_events (recorded_group);

CREATE TRIGGER vault_events_insert BEFORE INSERT ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event exists') WHERE EXISTS (SELECT 1 FROM vault_events
    WHERE chain = NEW.chain AND transaction_hash = NEW.transaction_hash AND ordinal = NEW.ordinal);
END;

CREATE TRIGGER vault_events_update BEFORE UPDATE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;

CREATE TRIGGER vault_events_delete BEFORE DELETE ON vault_events BEGIN
  SELECT RAISE(ABORT, 'append-only: vault event');
END;

CREATE TABLE checked_balances (
  account_id integer PRIMARY KEY NOT NULL,
  balance integer NOT NULL
) STRICT;

CREATE TABLE ledger_checkpoints (
  scan text PRIMARY KEY NOT NULL,
  position integer NOT NULL,
  mark text NOT NULL
) STRICT;

CREATE TABLE shortfalls (
  chain text NOT NULL,
  asset text NOT NULL,
  block integer NOT NULL,
  missing text NOT NULL,
  PRIMARY KEY(chain, asset)
) STRICT;

CREATE TABLE paused_venues (
  venue text PRIMARY KEY NOT NULL,
  since integer NOT NULL
) STRICT;

