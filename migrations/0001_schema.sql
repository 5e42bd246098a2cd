-- The database.
--
-- D1 is the system of record: money, requests, events and the progress on each chain are rows here.
-- Tables are grouped by domain. Above each table stand its purpose, who writes it, how long rows
-- stay, and one example row. Its indexes, each with the query that needs it, and its guards follow
-- it. The examples follow one story, that of docs/walkthrough.md, and a test inserts them. They
-- show ids shortened (019a…94b0) and hashes and addresses as 0x…, although both are stored as
-- BLOBs.
--
-- Conventions
--   Ids         UUID v7 as 16-byte BLOBs. Hashes have 32 bytes, addresses 20.
--   Time        Unix milliseconds, by D1's clock as the commit group read it, unless noted.
--   Amounts     INTEGER native units (6 decimals) where they move money, never above 2^62.
--               Decimal TEXT where a caller or a chain may state any 256-bit number.
--   Assets      'usdc', or '<venue>:<asset_id>' such as 'venue_one:0x1'.
--   …_group     The number of a commit group (commit_groups.seq) that changed the row in this way.
--   ended_by    The id of the operation that ended the row. Statements of one batch find the rows
--               of their own operation by it, never by status.
--
-- Guards are triggers that keep history from being rewritten, by the service's own code too. An
-- append-only table has up to three. `_insert` rejects a row whose key exists, because INSERT OR
-- REPLACE removes the earlier row without firing BEFORE DELETE. `_update` and `_delete` reject the
-- statement itself. Errors that begin with 'append-only' roll back the whole batch.
--
-- src/*/tables.ts describes the same tables for TypeScript. A test compares the two.

-- ================================================================================================
-- Platform
-- ================================================================================================

-- One row per D1 batch that changes records: the batch's fence, its clock and its number. Written
-- by src/platform/commit.ts as the first statement of the batch. Cron deletes rows older than an
-- hour, but never the newest one, because it keeps the clock from going back.
--
-- Example row:
--   seq 91, group_id 019a…5c01, at 1764551353797, voided 0
CREATE TABLE commit_groups (
  seq INTEGER PRIMARY KEY NOT NULL,  -- stamped on rows as …_group
  group_id BLOB NOT NULL,            -- made by the writer before the batch
  at INTEGER NOT NULL,               -- the instant of everything in the batch; never below the
                                     -- previous row's
  voided INTEGER NOT NULL,           -- 1: claimed by a writer that lost D1's response, so the batch
                                     -- cannot commit
  CONSTRAINT commit_groups_voided CHECK (voided IN (0, 1))
) STRICT;

-- The fence: a late batch fails here if its id was voided. Also every look-up of a batch's own
-- group.
CREATE UNIQUE INDEX commit_groups_group_id_unique ON commit_groups (group_id);

-- Switches that stop something while their row exists. Operator commands and safety checks write
-- and delete them. Guards of withdrawals, requests and quotes read them.
--
-- Example row:
--   name 'withdrawals_paused', reason 'operator:ann', since 1764551100000
CREATE TABLE kill_switches (
  name TEXT PRIMARY KEY NOT NULL,  -- 'withdrawals_paused' or 'storage_full'
  reason TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- What a user has used today of a daily limit. Written in the batch of the command that is counted,
-- whose guard reads it (src/platform/daily-limit.ts). Deleted on the next day.
--
-- Example row:
--   day 20423, user_id 01a2…c585, kind 'requests', count 17
CREATE TABLE daily_counts (
  day INTEGER NOT NULL,    -- since 1970, UTC
  user_id BLOB NOT NULL,
  kind TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (day, user_id, kind),
  CONSTRAINT daily_counts_kind CHECK (
    kind IN ('requests', 'tickets', 'api_keys', 'deposit_addresses'))
) STRICT;

-- The size of the database, once a day, for its growth. Written by src/platform/storage.ts. Rows
-- stay.
--
-- Example row:
--   day 20423, at 1764547200000, bytes 1284505600
CREATE TABLE storage_samples (
  day INTEGER PRIMARY KEY NOT NULL,  -- since 1970, UTC
  at INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;

-- What an operator must look at. Written where the problem is seen, together with one log line at
-- error level. An alert of one kind and subject is raised again only after it was resolved. Rows
-- stay.
--
-- Example row:
--   alert_id 3, kind 'payer_halted', subject 'polygon', detail 'the vault expects batch 8, this
--   database would send 5', at 1764551200000, resolved_at NULL
CREATE TABLE alerts (
  alert_id INTEGER PRIMARY KEY NOT NULL,
  kind TEXT NOT NULL,     -- AlertKind in src/platform/alert.ts, or 'reconciliation'
  subject TEXT NOT NULL,  -- what it is about: a chain, a withdrawal, a difference
  detail TEXT NOT NULL,   -- for people; of a reconciliation, the difference as JSON
  at INTEGER NOT NULL,
  resolved_at INTEGER     -- NULL: open
) STRICT;

-- Raising an alert once, clearing it, and listing the open differences.
CREATE INDEX alerts_open ON alerts (kind, subject) WHERE resolved_at IS NULL;

-- ================================================================================================
-- Auth
-- ================================================================================================

-- People with an account. Written by src/auth/user.ts (registration and operator) and by a restore.
-- Never deleted.
--
-- Example row:
--   user_id 01a2…c585, email 'ann@example.com', password_hash 'scrypt$13$8$10$c2FsdA$aGFzaA',
--   session_epoch 0, frozen_at NULL, frozen_by NULL, hold_until NULL, created_at 1764547200000
CREATE TABLE users (
  user_id BLOB PRIMARY KEY NOT NULL,
  email TEXT NOT NULL,             -- trimmed, NFC, lower case
  password_hash TEXT NOT NULL,     -- with its scrypt parameters; '' after a restore, which no
                                   -- password matches
  session_epoch INTEGER NOT NULL,  -- a session token carries the epoch it was made in; raising it
                                   -- ends them all
  frozen_at INTEGER,               -- not NULL: no credential of the user works
  frozen_by TEXT,                  -- 'self' or 'operator'; NULL of a restored user: the operator
  hold_until INTEGER,              -- sessions carry only `read` until then, because the operator
                                   -- reset the password or TOTP
  created_at INTEGER NOT NULL
) STRICT;

-- Login, and one account per email.
CREATE UNIQUE INDEX users_email_unique ON users (email);

-- Credentials of programs. Users mint them, and a key with the scope withdraw needs the operator's
-- approval. The operator mints keys without it. Written by src/auth/mint-key.ts and
-- src/auth/approve-key.ts; src/auth/key-use.ts notes last_used_at, and key-networks.ts
-- the networks. Deleted 30 days after they were revoked or expired. Their audit events stay.
--
-- Example row:
--   api_key_id 019a…77aa, user_id 01a2…c585, label 'bot', scopes 'read,withdraw',
--   secret_sealed 'q83vEjRWeJASNFZ4', master_key_id 'k1', allowed_ips '["198.51.100.0/24"]',
--   limits '{"venues":null,"max_usdc_per_trade":5000000,"max_usdc_per_day":null}',
--   require_idempotency 1, minted_by 'operator', active_from 1764633600000, approved_at NULL,
--   created_at 1764547200000, expires_at NULL, last_used_at 1764635000000, revoked_at NULL,
--   networks '{"v4:c63364":[20423,20423]}'
CREATE TABLE api_keys (
  api_key_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  label TEXT NOT NULL,
  scopes TEXT NOT NULL,          -- comma-separated: read, trade, withdraw
  secret_sealed TEXT NOT NULL,   -- AES-256-GCM, base64url; bound to every column that decides
                                 -- what the key may do, so an edited row does not open
  master_key_id TEXT NOT NULL,   -- the key of MASTER_KEYS that sealed it
  allowed_ips TEXT,              -- JSON array of ranges; NULL: any address
  limits TEXT,                   -- JSON of src/auth/key-limits.ts, amounts in native units of USDC;
                                 -- NULL: none
  require_idempotency INTEGER NOT NULL,  -- 1: requests and quotes need idempotency_key in the body
  minted_by TEXT NOT NULL,       -- 'session' or 'operator'
  active_from INTEGER,           -- the key has no scopes before, so that the user can revoke it;
                                 -- NULL: it waits for the operator's approval
  approved_at INTEGER,           -- when the operator approved it; NULL: no approval, or not yet
  created_at INTEGER NOT NULL,
  expires_at INTEGER,            -- NULL: never
  last_used_at INTEGER,          -- at most one write a minute, by the isolate's clock
  revoked_at INTEGER,
  networks TEXT,                 -- JSON: the networks that used the key, at most eight, with the
                                 -- days of the first and of the last use; NULL: none yet
  CONSTRAINT api_keys_require_idempotency CHECK (require_idempotency IN (0, 1))
) STRICT;

-- Listing a user's keys newest first.
CREATE INDEX api_keys_user ON api_keys (user_id, created_at);

-- Counting a user's live keys, and revoking all of them.
CREATE INDEX api_keys_live ON api_keys (user_id) WHERE revoked_at IS NULL;

-- Deleting keys that nobody has approved in time.
CREATE INDEX api_keys_waiting ON api_keys (created_at) WHERE active_from IS NULL;

-- Deleting keys that ended long ago.
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX api_keys_expiry ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- A cancel-after timer outlives its key, but not the key's row, which is deleted much later.
CREATE TRIGGER api_keys_timer AFTER DELETE ON api_keys BEGIN
  DELETE FROM cancel_timers WHERE credential = OLD.api_key_id;
END;

-- The limits that a user has set on all of their credentials (src/auth/policy.ts): the policy that
-- applies and, if a looser one was requested, the whole policy that applies later. The one with the
-- latest active_from that has passed applies. No row: the defaults. Written by
-- src/auth/change-policy.ts. A freeze deletes what has not begun to apply.
--
-- Example row:
--   user_id 01a2…c585, active_from 1764547200000, version 1, sessions_trade 0,
--   max_trade_usdc_per_day 5000000000, withdraw_max_usdc_per_day NULL, withdraw_listed_only 1,
--   withdraw_approval_above 1000000000
CREATE TABLE account_policies (
  user_id BLOB NOT NULL,
  active_from INTEGER NOT NULL,
  version INTEGER NOT NULL,           -- counts the changes, of which one at a time applies
  sessions_trade INTEGER NOT NULL,    -- 0: sessions read only
  max_trade_usdc_per_day INTEGER,     -- native units, as below; NULL: no limit
  withdraw_max_usdc_per_day INTEGER,
  withdraw_listed_only INTEGER NOT NULL,
  withdraw_approval_above INTEGER,
  PRIMARY KEY (user_id, active_from),
  CONSTRAINT account_policies_sessions_trade CHECK (sessions_trade IN (0, 1)),
  CONSTRAINT account_policies_listed_only CHECK (withdraw_listed_only IN (0, 1))
) STRICT, WITHOUT ROWID;

-- One-time tickets that open a socket. Written by src/auth/ws-ticket.ts. Deleted soon after they
-- expire, used or not.
--
-- Example row:
--   ticket_hash 0x88d4…266f, user_id 01a2…c585, api_key_id 019a…77aa, session_epoch NULL,
--   session_expires_at NULL, scopes 'read,withdraw', expires_at 1764635030000,
--   used_at 1764635001000
CREATE TABLE ws_tickets (
  -- SHA-256; the ticket itself is not stored
  ticket_hash BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  api_key_id BLOB,              -- of the key that asked; NULL: a session asked
  session_epoch INTEGER,        -- of the session that asked
  session_expires_at INTEGER,   -- of the session that asked
  scopes TEXT NOT NULL,         -- as in api_keys
  expires_at INTEGER NOT NULL,  -- 30 seconds after it was issued
  used_at INTEGER               -- the update that sets it is the guard; NULL again if the stream
                                -- then refused the socket
) STRICT;

-- Deleting old tickets.
CREATE INDEX ws_tickets_expiry ON ws_tickets (expires_at);

-- The streams on which a credential may have open sockets, which are closed when it ends. Written
-- by src/auth/ws-ticket.ts when a ticket is used. The same statement deletes the user's rows of
-- streams without subscribers, so a user has about as many rows as open sockets. Cron deletes rows
-- older than a week, because every deployment closes all sockets.
--
-- Example row:
--   user_id 01a2…c585, opener 019a…77aa, stream 'account:01a2…c585', opened_at 1764635001000
CREATE TABLE opened_streams (
  user_id BLOB NOT NULL,
  opener BLOB NOT NULL,        -- an API key, or the user's own id for sessions
  stream TEXT NOT NULL,
  opened_at INTEGER NOT NULL,  -- when the last ticket was used
  PRIMARY KEY (user_id, opener, stream)
) STRICT;

-- Deleting old rows.
CREATE INDEX opened_streams_age ON opened_streams (opened_at);

-- One row per login attempt whose password is hashed, written as failed just before that, so that
-- parallel guesses count. Written and counted by src/auth/login-throttle.ts. Cron deletes rows
-- older than an hour.
--
-- Example row:
--   attempt_id 019a…0b31, email_hash 0x9b7e…11c2, network 'v4:c6336407', at 1764547200500,
--   succeeded 1
CREATE TABLE login_attempts (
  attempt_id BLOB PRIMARY KEY NOT NULL,
  email_hash BLOB NOT NULL,   -- SHA-256, because people type passwords into this field
  network TEXT NOT NULL,      -- an IPv4 address, or the first 64 bits of an IPv6 address
  at INTEGER NOT NULL,
  succeeded INTEGER NOT NULL  -- 1 also for earlier failures that the right password has cleared
) STRICT;

-- Failures on one email, from everywhere or from one network.
CREATE INDEX login_attempts_email ON login_attempts (email_hash, network, at);

-- Failures of one network on all emails.
CREATE INDEX login_attempts_network ON login_attempts (network, at);

-- Deleting old rows.
CREATE INDEX login_attempts_age ON login_attempts (at);

-- The networks that have logged a user in. Failures of strangers do not count against them. Written
-- by src/auth/login-throttle.ts at each login, at most 20 rows per user. A network is known for 30
-- days. Its row stays, because it shows that the user has logged in before.
--
-- Example row:
--   user_id 01a2…c585, network 'v4:c6336407', at 1764547200700
CREATE TABLE login_networks (
  user_id BLOB NOT NULL,
  network TEXT NOT NULL,  -- as in login_attempts
  at INTEGER NOT NULL,    -- of the latest login
  PRIMARY KEY (user_id, network)
) STRICT;

-- Counting the accounts that a network has registered.
CREATE INDEX login_networks_network ON login_networks (network, at);

-- TOTP secrets (RFC 6238): the confirmed one of a user, and one that awaits its confirmation.
-- Written by src/auth/enrol-totp.ts and remove-totp.ts; src/auth/second-factor.ts notes the last
-- step. Cron deletes rows an hour after they end.
--
-- Example row:
--   user_id 01a2…c585, status 'confirmed', secret_sealed 'q83vEjRWeJASNFZ4', master_key_id 'k1',
--   last_step 58818371, wrong_codes 0, created_at 1764551100000, ends_at NULL
CREATE TABLE totp_secrets (
  user_id BLOB NOT NULL,
  status TEXT NOT NULL,         -- 'pending' or 'confirmed'
  secret_sealed TEXT NOT NULL,  -- AES-256-GCM, base64url; bound to the user and the status
  master_key_id TEXT NOT NULL,  -- the key of MASTER_KEYS that sealed it
  last_step INTEGER NOT NULL,   -- the last 30 s since 1970 whose code was used; a code needs a
                                -- later one
  wrong_codes INTEGER NOT NULL, -- of a pending secret; too many end it
  created_at INTEGER NOT NULL,
  ends_at INTEGER,              -- not valid from then on: the end of the enrolment, or the removal
                                -- that the user requested; NULL: never
  PRIMARY KEY (user_id, status),
  CONSTRAINT totp_secrets_status CHECK (status IN ('pending', 'confirmed'))
) STRICT;

-- Deleting secrets that have ended.
CREATE INDEX totp_secrets_end ON totp_secrets (ends_at) WHERE ends_at IS NOT NULL;

-- Codes for users who lost their authenticator. Written by src/auth/enrol-totp.ts, ten at a time.
-- A used one is deleted (src/auth/second-factor.ts), and so are those of an earlier secret.
--
-- Example row:
--   user_id 01a2…c585, code_hash 0x51f0…9b1d
CREATE TABLE recovery_codes (
  user_id BLOB NOT NULL,
  code_hash BLOB NOT NULL,  -- SHA-256 of the user's id and the code, which has 80 random bits
  PRIMARY KEY (user_id, code_hash)
) STRICT;

-- One row per wrong one-time code or recovery code. Written as wrong before the code is verified,
-- so that parallel guesses count, and deleted if it was right (src/auth/second-factor.ts). Cron
-- deletes rows older than an hour.
--
-- Example row:
--   attempt_id 019a…0b32, user_id 01a2…c585, network 'v4:c6336407', at 1764551105000
CREATE TABLE totp_attempts (
  attempt_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  network TEXT NOT NULL,  -- as in login_attempts
  at INTEGER NOT NULL
) STRICT;

-- Wrong codes of a user.
CREATE INDEX totp_attempts_user ON totp_attempts (user_id, at);

-- Deleting old rows.
CREATE INDEX totp_attempts_age ON totp_attempts (at);

-- Security-relevant events. Each row is written in the batch of what it records
-- (src/auth/audit.ts). Users read their own rows, the operator reads all. Kept for ever.
--
-- Example row:
--   audit_seq 1, audit_event_id 019a…e001, kind 'withdrawal_queued', actor 'api_key',
--   user_id 01a2…c585, api_key_id 019a…77aa, ip '198.51.100.7', subject_id '019a…d8ee',
--   details NULL, mac NULL, at 1764551698000
CREATE TABLE audit_events (
  -- given by the database, without gaps: the order of commits. Only the event of an epoch, after a
  -- restore, chooses a higher one (src/auth/audit-epoch.ts)
  audit_seq INTEGER PRIMARY KEY NOT NULL,
  audit_event_id BLOB NOT NULL,  -- also the stamp that later statements of its batch select by
  kind TEXT NOT NULL,            -- AuditKind or OperatorAuditKind in src/auth/audit.ts
  actor TEXT NOT NULL,           -- 'session', 'api_key', 'password', 'unknown' or 'operator:<name>'
  user_id BLOB,                  -- the user it concerns; NULL: an operator command about no user
  api_key_id BLOB,               -- of the key that did it
  ip TEXT,
  subject_id TEXT,               -- what it was done to: an id, an address, a chain, a reason
  details TEXT,                  -- JSON: of a change of rights, what it changed, and of an
                                 -- operator's order, its id, time, hash and signature
  mac TEXT,                      -- of an event with details: the key of AUDIT_KEYS and the MAC
                                 -- (src/auth/event-mac.ts); NULL if the database composed it
  at INTEGER NOT NULL
) STRICT;

-- Statements that depend on an event's batch having written it.
CREATE UNIQUE INDEX audit_events_audit_event_id_unique ON audit_events (audit_event_id);

-- A user's own events, newest first.
CREATE INDEX audit_events_user ON audit_events (user_id, audit_seq);

-- The last event of a kind about a user, a key or an address, which the reconciliation compares
-- with its row (src/auth/rights.ts, compare-rights.ts).
CREATE INDEX audit_events_rights ON audit_events (subject_id, kind, audit_seq)
  WHERE details IS NOT NULL;

-- Cron closes the sockets of credentials that ended a moment ago.
CREATE INDEX audit_events_ended ON audit_events (at)
  WHERE kind IN ('account_frozen', 'api_key_revoked', 'sessions_ended');

-- The list of operators that was recorded last.
CREATE INDEX audit_events_operators ON audit_events (audit_seq)
  WHERE kind = 'operators_changed';

-- Neither key may be taken again: REPLACE would remove the earlier event.
CREATE TRIGGER audit_events_insert BEFORE INSERT ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event exists')
    WHERE EXISTS (SELECT 1 FROM audit_events
      WHERE audit_event_id = NEW.audit_event_id OR audit_seq = NEW.audit_seq);
END;

CREATE TRIGGER audit_events_update BEFORE UPDATE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;

CREATE TRIGGER audit_events_delete BEFORE DELETE ON audit_events BEGIN
  SELECT RAISE(ABORT, 'append-only: audit event');
END;

-- Only the database numbers events. A chosen number could leave a gap, which would look like a
-- removed row, or stand before sealed rows. SQLite shows a number that it has yet to give as -1.
-- An epoch of the log skips numbers that a restore has lost.
CREATE TRIGGER audit_events_number BEFORE INSERT ON audit_events
WHEN NEW.audit_seq IS NOT NULL AND NEW.audit_seq <> -1 BEGIN
  SELECT RAISE(ABORT, 'append-only: the database numbers audit events')
    WHERE NEW.kind <> 'audit_epoch_opened'
      OR NEW.audit_seq <= (SELECT coalesce(max(audit_seq), 0) FROM audit_events);
END;

-- The SHA-256 chain over audit_events, one link per event. Written by one sealer
-- (src/auth/audit-seal.ts, once a minute), because writers of events would race for the head.
--
-- Example row:
--   audit_seq 1, hash 0x41f0…7d9e, key_id 'a1', signature '9c1e…', sealed_at 1764551760000
CREATE TABLE audit_seals (
  audit_seq INTEGER PRIMARY KEY NOT NULL,
  hash BLOB NOT NULL,  -- over the previous link and the event
  key_id TEXT,         -- of AUDIT_KEYS; NULL but for the last link of a sealing
  signature TEXT,      -- of the link, base64url
  sealed_at INTEGER NOT NULL
) STRICT;

-- Links follow each other without a gap, but for that of an epoch, and each has its event.
CREATE TRIGGER audit_seals_insert BEFORE INSERT ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal')
    WHERE NOT EXISTS (SELECT 1 FROM audit_events e,
        (SELECT coalesce(max(audit_seq), 0) AS last FROM audit_seals)
      WHERE e.audit_seq = NEW.audit_seq AND (e.audit_seq = last + 1
        OR e.kind = 'audit_epoch_opened' AND e.audit_seq = (
          SELECT min(n.audit_seq) FROM audit_events n WHERE n.audit_seq > last)));
END;

CREATE TRIGGER audit_seals_update BEFORE UPDATE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;

CREATE TRIGGER audit_seals_delete BEFORE DELETE ON audit_seals BEGIN
  SELECT RAISE(ABORT, 'append-only: audit seal');
END;

-- The last audit event whose notices NOTICE_URL has accepted. One row, written by
-- src/auth/deliver-notices.ts.
--
-- Example row:
--   one 1, audit_seq 1
CREATE TABLE notice_cursor (
  one INTEGER PRIMARY KEY NOT NULL,
  audit_seq INTEGER NOT NULL,
  CONSTRAINT notice_cursor_one CHECK (one = 1)
) STRICT;

-- The newest head of the audit log that is known to be in R2 (src/auth/audit-anchor.ts). One row,
-- for the alert about a bucket that is away. Verification does not trust it.
--
-- Example row:
--   one 1, audit_seq 1
CREATE TABLE audit_anchor (
  one INTEGER PRIMARY KEY NOT NULL,
  audit_seq INTEGER NOT NULL,
  CONSTRAINT audit_anchor_one CHECK (one = 1)
) STRICT;

-- Orders of operators that were begun (src/operator/order.ts). A repeat within a minute finds its
-- row, so an order is carried out once. Cron deletes rows older than a day; the audit rows stay.
--
-- Example row:
--   order_id 019a…55d0, operator 'alice', sha256 0x9c1e…04ab, audit_event_id 019a…e0f3,
--   answer NULL, master_key_id NULL, at 1764551698000
CREATE TABLE operator_orders (
  order_id BLOB PRIMARY KEY NOT NULL,
  operator TEXT NOT NULL,      -- the name in OPERATORS whose key signed it
  sha256 BLOB NOT NULL,        -- of the order's JSON
  audit_event_id BLOB NOT NULL,
  answer TEXT,                 -- the response, sealed; NULL until it is known
  master_key_id TEXT,          -- of MASTER_KEYS, with which the answer is sealed
  at INTEGER NOT NULL
) STRICT;

-- Deleting old rows.
CREATE INDEX operator_orders_age ON operator_orders (at);

-- Orders that wait for a second operator (src/operator/approvals.ts). Cron deletes rows older than
-- 30 days.
--
-- Example row:
--   proposal_id 019a…66e1, operator 'alice', content '{"proposal_id":"019a…"}', status 'open',
--   decided_by NULL, seal 'q83vEjRWeJASNFZ4', master_key_id 'k1', at 1764551698000
CREATE TABLE operator_proposals (
  proposal_id BLOB PRIMARY KEY NOT NULL,
  operator TEXT NOT NULL,      -- who proposed it
  content TEXT NOT NULL,       -- JSON; the approver signs its SHA-256
  status TEXT NOT NULL,
  decided_by TEXT,             -- who approved or rejected it
  seal TEXT NOT NULL,          -- over content, so that a row written by SQL is not carried out
  master_key_id TEXT NOT NULL, -- of MASTER_KEYS, with which the seal is made
  at INTEGER NOT NULL,
  CONSTRAINT operator_proposals_status CHECK (status IN ('open', 'approved', 'rejected'))
) STRICT;

-- The newest ones, and deleting old rows.
CREATE INDEX operator_proposals_age ON operator_proposals (at);

-- ================================================================================================
-- Journal
-- ================================================================================================

-- One balance per owner, asset and kind. Rows are opened by src/ledger/post.ts. Their balance moves
-- only while a transfer is posted. Never deleted.
--
-- Example row:
--   account_id 1, owner 01a2…c585, asset 'usdc', kind 'available', balance 99999682081,
--   sub_account 2
CREATE TABLE accounts (
  account_id INTEGER PRIMARY KEY NOT NULL,
  owner BLOB NOT NULL,       -- a user id, or the name of a house account in bytes:
                             -- 'external:<chain>', 'fees'
  asset TEXT NOT NULL,
  kind TEXT NOT NULL,
  balance INTEGER NOT NULL,  -- of an external account: negative, what the service has issued on the
                             -- chain
  sub_account INTEGER,       -- numbers the user's available or pending accounts of all assets as
                             -- one: 2 × the first account_id of the owner, + 1 for pending. NULL:
                             -- a house account
  CONSTRAINT accounts_kind CHECK (kind IN ('available', 'pending', 'external', 'fees')),
  CONSTRAINT accounts_balance CHECK (
    balance BETWEEN iif(kind = 'external', -4611686018427387904, 0) AND 4611686018427387904
  )
) STRICT;

-- Guards and postings find accounts by it. A user's balances come in the order of their assets.
CREATE UNIQUE INDEX accounts_owner ON accounts (owner, asset, kind);

-- Neither key may be taken again, and money enters an account by transfers only.
CREATE TRIGGER accounts_insert BEFORE INSERT ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account exists')
    WHERE EXISTS (SELECT 1 FROM accounts WHERE account_id = NEW.account_id)
      OR EXISTS (SELECT 1 FROM accounts
        WHERE owner = NEW.owner AND asset = NEW.asset AND kind = NEW.kind);
  SELECT RAISE(ABORT, 'an account starts at zero') WHERE NEW.balance <> 0;
  SELECT RAISE(ABORT, 'append-only: the database numbers sub-accounts')
    WHERE NEW.sub_account IS NOT NULL;
END;

-- Numbers a user's account. The first account of an owner gives the owner's number.
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

-- accounts_number sets the sub-account once. After that only the balance changes, and only to what
-- the newest transfer left on the account, from what was there before it: no other statement can
-- move money.
CREATE TRIGGER accounts_update BEFORE UPDATE ON accounts
WHEN NOT (OLD.sub_account IS NULL AND NEW.sub_account IS NOT NULL
  AND OLD.kind IN ('available', 'pending') AND NEW.balance = OLD.balance) BEGIN
  SELECT RAISE(ABORT, 'append-only: account') WHERE NEW.sub_account IS NOT OLD.sub_account;
  SELECT RAISE(ABORT, 'a balance moves only by a transfer') WHERE NOT EXISTS (
    SELECT 1 FROM (SELECT * FROM transfers ORDER BY transfer_id DESC LIMIT 1) t
    WHERE (t.from_account = OLD.account_id AND NEW.balance = t.from_balance
        AND OLD.balance = t.from_balance + t.amount)
      OR (t.to_account = OLD.account_id AND NEW.balance = t.to_balance
        AND OLD.balance = t.to_balance - t.amount));
END;

CREATE TRIGGER accounts_identity BEFORE UPDATE ON accounts BEGIN
  SELECT RAISE(ABORT, 'append-only: account')
    WHERE NEW.account_id <> OLD.account_id OR NEW.owner <> OLD.owner
      OR NEW.asset <> OLD.asset OR NEW.kind <> OLD.kind;
END;

-- The journal: one row moves one amount from one account to another, so the whole always sums to
-- zero. An entry of the public ledger is one side of it: entry 2t is the debit of transfer t, entry
-- 2t + 1 the credit. Written by src/ledger/post.ts only. Kept for ever, here or in a seal.
--
-- Example row: accepting a quote sets the requester's USDC aside.
--   transfer_id 10, from_account 1, to_account 2, amount 317919, reason 4, ref 019a…94b0, step 1,
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
  step INTEGER NOT NULL,  -- of the record's life: 1 reserve, 2 end, 3 match, 4 credit, 5 queue
  line INTEGER NOT NULL,  -- 0, and 1 for the second fee of a match
  at INTEGER NOT NULL,
  from_balance INTEGER,   -- what the transfer left on each account; filled in by transfers_fill
  to_balance INTEGER,
  -- The accounts' sub-accounts, filled in by transfers_fill for the indexes below. NULL: a house
  -- account, or a credit whose debit the same owner gave.
  from_sub_account INTEGER,
  to_sub_account INTEGER,
  CONSTRAINT transfers_amount CHECK (amount > 0 AND amount <= 4611686018427387904),
  CONSTRAINT transfers_accounts CHECK (from_account <> to_account),
  CONSTRAINT transfers_reason CHECK (reason BETWEEN 1 AND 7),
  CONSTRAINT transfers_step CHECK (step BETWEEN 1 AND 5)
) STRICT;

-- Posting exactly once. A reserve ends once: a trade and a release of one quote share ref and step.
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

-- A complete row keeps the journal's rules: fresh keys, the database's own number, time that does
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
-- would leave the bounds matches no row and so aborts the batch. Its condition repeats the CHECK of
-- accounts, because OR IGNORE would skip a row that fails a CHECK without an error.
CREATE TRIGGER transfers_post AFTER INSERT ON transfers BEGIN
  -- Before the insert an id that the database will give reads as -1, and so would an explicit -1.
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers') WHERE NEW.transfer_id < 1;
  UPDATE accounts SET balance = NEW.from_balance
    WHERE account_id = NEW.from_account
      AND NEW.from_balance >= iif(kind = 'external', -4611686018427387904, 0);
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  UPDATE accounts SET balance = NEW.to_balance
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
      OR EXISTS (SELECT 1 FROM quotes WHERE quote_id = OLD.ref AND status = 'open')
      OR EXISTS (SELECT 1 FROM withdrawals
        WHERE withdrawal_id = OLD.ref
          AND status IN ('awaiting_approval', 'queued', 'submitted'));
END;

-- The CSV statements that are being written, one of a user (src/ledger/statement-lease.ts). Deleted
-- when the statement is complete. A row whose writer died expires.
--
-- Example row:
--   user_id 01a2…c585, token '0f8c2a9d41b7e650', expires_at 1764551413000
CREATE TABLE statement_leases (
  user_id BLOB PRIMARY KEY NOT NULL,
  token TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

-- ================================================================================================
-- RFQ
-- ================================================================================================

-- Requests for a price. Written by the verbs in src/rfq and committed by the asset's book. Ended
-- ones are sealed and then deleted (src/archive/release.ts).
--
-- Example row:
--   request_id 019a…9ef4, requester_id 01a2…c585, asset 'venue_one:0x1', amount '1000000',
--   usdc_amount NULL, side 'Bid', disclosed 0, status 'matched', opened_at 1764551300000,
--   expires_at 1764551900000,
--   opened_group 84, label NULL, ended_by 019a…94b0, ended_group 91, stuck_at NULL
CREATE TABLE requests (
  request_id BLOB PRIMARY KEY NOT NULL,
  requester_id BLOB NOT NULL,
  asset TEXT NOT NULL,
  amount TEXT,                  -- any 256-bit number: nothing is set aside for a request
  usdc_amount INTEGER,          -- the size in USDC, of a request without an amount
  side TEXT NOT NULL,           -- 'Bid': the requester buys the asset; 'Ask': the requester sells
                                -- it; 'TwoWay': either, as the accepted quote says
  disclosed INTEGER NOT NULL,   -- 1: others see requester_id
  status TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,  -- from then on it is expired, even while status is still 'open'
  opened_group INTEGER NOT NULL,
  label TEXT,                   -- the requester's own; only they see it
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

-- A user's own requests of one status, newest first, and the number of open ones for the limit.
-- Lists of all statuses merge the four.
CREATE INDEX requests_user_status ON requests (requester_id, status, opened_at, request_id);

-- A user's own requests with a label, newest first.
CREATE INDEX requests_label ON requests (requester_id, label, opened_at, request_id)
  WHERE label IS NOT NULL;

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
        NEW.disclosed, NEW.opened_at, NEW.expires_at, NEW.opened_group, NEW.label)
      IS NOT (OLD.request_id, OLD.requester_id, OLD.asset, OLD.amount, OLD.usdc_amount, OLD.side,
        OLD.disclosed, OLD.opened_at, OLD.expires_at, OLD.opened_group, OLD.label);
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

-- Firm prices on requests. Placing one sets the maker's side aside in the same commit. Written by
-- the verbs in src/rfq. Ended ones are sealed and then deleted (src/archive/release.ts); an
-- accepted one lives on as its match.
--
-- Example row:
--   quote_id 019a…fd49, request_id 019a…9ef4, maker_id 01a2…b1a6, credential 019a…77ab,
--   asset 'venue_one:0x1', amount '1000000', side 'Bid', price 317919, usdc_amount 317919,
--   taker_fee 0, maker_fee 0, reserve 1000000, status 'accepted', opened_at 1764551330000,
--   expires_at 1764551390000, opened_group 88, label 'bot-7', maker_open 3, cancel_reason NULL,
--   replaced_by NULL, ended_by 019a…94b0, ended_group 91, stuck_at NULL
CREATE TABLE quotes (
  quote_id BLOB PRIMARY KEY NOT NULL,
  request_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  credential BLOB NOT NULL,      -- the API key that placed it, or maker_id for a session
  asset TEXT NOT NULL,           -- copied from the request
  amount TEXT NOT NULL,          -- the request's, or what its usdc_amount buys, rounded down
  side TEXT NOT NULL,            -- the request's, or one of the two: as the requester sees it
  price INTEGER NOT NULL,        -- USDC per token, scaled by 1e6: 317919 is 0.317919
  usdc_amount INTEGER NOT NULL,  -- amount × price, rounded up
  taker_fee INTEGER NOT NULL,    -- USDC that the requester would pay
  maker_fee INTEGER NOT NULL,    -- USDC that the maker would pay
  -- what the maker has set aside, and how much of it
  reserve_asset TEXT NOT NULL GENERATED ALWAYS AS (iif(side = 'Bid', asset, 'usdc')) VIRTUAL,
  reserve INTEGER NOT NULL,
  status TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,   -- from then on it is expired, even while status is still 'open'
  opened_group INTEGER NOT NULL,
  label TEXT,                    -- the maker's own; only they see it
  maker_open INTEGER NOT NULL,   -- when it was placed, at most so many of the maker's quotes were
                                 -- open, with this one (src/rfq/place-quote.ts)
  cancel_reason TEXT,            -- why a quote was cancelled that its maker did not cancel; only
                                 -- they see it
  replaced_by BLOB,              -- the quote that replaced it
  ended_by BLOB,                 -- of an accepted quote: the match id
  ended_group INTEGER,
  stuck_at INTEGER,              -- set aside by src/rfq/set-aside.ts, because ending it failed
  CONSTRAINT quotes_status CHECK (
    status = 'open' OR status IN ('accepted', 'cancelled', 'expired', 'rejected')
  ),
  CONSTRAINT quotes_price CHECK (price BETWEEN 1 AND 1000000),
  CONSTRAINT quotes_reserve CHECK (reserve > 0),
  CONSTRAINT quotes_cancel_reason CHECK (
    cancel_reason IS NULL
    OR status = 'cancelled'
      AND cancel_reason IN ('replaced', 'timeout', 'protection', 'disconnect')
  ),
  CONSTRAINT quotes_replaced_by CHECK ((replaced_by IS NULL) = (cancel_reason IS NOT 'replaced'))
) STRICT, WITHOUT ROWID;

-- Quotes on a request of one status from the best price on. Lists of all statuses merge the five.
-- The limits count the open ones, of all makers and of one, which is why it ends in the maker.
CREATE INDEX quotes_request_status
  ON quotes (request_id, status, price, opened_at, quote_id, maker_id);

-- A maker's own quotes, newest first. The newest one bounds the number of those that are open.
CREATE INDEX quotes_maker ON quotes (maker_id, opened_at, quote_id, maker_open);

-- A maker's own quotes with a label, newest first.
CREATE INDEX quotes_label ON quotes (maker_id, label, opened_at, quote_id)
  WHERE label IS NOT NULL;

-- A maker's open quotes: all of them, their number for the limit, those that are due, and what they
-- reserve.
CREATE INDEX quotes_open_maker ON quotes (maker_id, expires_at) WHERE status = 'open';

-- What is due in a book, and its next expiry.
CREATE INDEX quotes_due ON quotes (asset, expires_at) WHERE status = 'open' AND stuck_at IS NULL;

-- What a commit group opened or ended: its events, its report, and the reconciliation. The quotes
-- that one operation of the group ended, whose reserves it releases.
CREATE INDEX quotes_opened_group ON quotes (opened_group);
CREATE INDEX quotes_ended_group ON quotes (ended_group, ended_by) WHERE ended_group IS NOT NULL;

-- An open quote only ends, by an operation of the newest group, or is set aside. Its reserve must
-- stay what the journal has set aside, or it could never be released.
CREATE TRIGGER quotes_open BEFORE UPDATE ON quotes WHEN OLD.status = 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a quote')
    WHERE (NEW.quote_id, NEW.request_id, NEW.maker_id, NEW.credential, NEW.asset, NEW.amount,
        NEW.side, NEW.price, NEW.usdc_amount, NEW.taker_fee, NEW.maker_fee, NEW.reserve,
        NEW.opened_at, NEW.expires_at, NEW.opened_group, NEW.label, NEW.maker_open)
      IS NOT (OLD.quote_id, OLD.request_id, OLD.maker_id, OLD.credential, OLD.asset, OLD.amount,
        OLD.side, OLD.price, OLD.usdc_amount, OLD.taker_fee, OLD.maker_fee, OLD.reserve,
        OLD.opened_at, OLD.expires_at, OLD.opened_group, OLD.label, OLD.maker_open);
  SELECT RAISE(ABORT, 'append-only: a quote ends by an operation of the newest group')
    WHERE iif(NEW.status = 'open', NEW.ended_by IS NOT NULL OR NEW.ended_group IS NOT NULL,
      NEW.ended_by IS NULL OR NEW.ended_group IS NOT (SELECT max(seq) FROM commit_groups));
END;

-- A quote is deleted only when its seal is released, before the transfers that name it.
CREATE TRIGGER quotes_delete BEFORE DELETE ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: an open quote') WHERE OLD.status = 'open';
  SELECT RAISE(ABORT, 'append-only: a quote that is not sealed')
    WHERE (SELECT released_at FROM journal_seals
      WHERE up_to_transfer >= (SELECT transfer_id FROM transfers
        WHERE ref = OLD.quote_id AND step = 2 AND line = 0)
      ORDER BY up_to_transfer, number LIMIT 1) IS NULL;
END;

-- An ended quote never changes again: its reserve has been released or traded.
CREATE TRIGGER quotes_closed BEFORE UPDATE ON quotes WHEN OLD.status <> 'open' BEGIN
  SELECT RAISE(ABORT, 'append-only: a closed quote never moves');
END;

-- Nor can it be replaced under its id.
CREATE TRIGGER quotes_insert BEFORE INSERT ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: quote exists')
    WHERE EXISTS (SELECT 1 FROM quotes WHERE quote_id = NEW.quote_id);
END;

-- Commands that place quotes, in the order of arrival. Those of a commit group are inserted by
-- one statement (src/rfq/place-quote.ts). Always empty: the trigger quote_commands_place
-- (migrations/0003_place_quote.sql) carries out each command and stores none.
--
-- Example row:
--   quote_id 019a…fd49, request_id 019a…9ef4, maker_id 01a2…b1a6, api_key_id 019a…77aa,
--   session_epoch NULL, session_expires_at NULL, price 317919, amount '1000000', side 'Bid',
--   usdc_amount 317919, taker_fee 0, maker_fee 0, reserve_asset 'venue_one:0x1',
--   reserve 1000000, received_at 1764551329990, life_ms 60000, commit_before 1764551360990,
--   not_after NULL, label NULL, replaces NULL, max_open_quotes 1000, socket_id NULL,
--   key_hash 0x77b0…9a1c,
--   terms_hash 0x0c5d…4e21, at 1764551330000, placed_group 88
CREATE TABLE quote_commands (
  quote_id BLOB NOT NULL,
  request_id BLOB NOT NULL,
  maker_id BLOB NOT NULL,
  api_key_id BLOB,                -- that sent it; NULL: a session did
  session_epoch INTEGER,          -- of the session that sent it
  session_expires_at INTEGER,     -- of the session that sent it
  price INTEGER NOT NULL,         -- up to `reserve`: the terms of the quote, as in quotes
  amount TEXT NOT NULL,
  side TEXT,                      -- NULL: not named on a two-way request
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,
  maker_fee INTEGER NOT NULL,
  reserve_asset TEXT NOT NULL,
  reserve INTEGER NOT NULL,       -- an amount above 2^63 is clamped; it is never available
  received_at INTEGER NOT NULL,   -- by the clock of the Worker
  life_ms INTEGER NOT NULL,       -- from received_at
  commit_before INTEGER NOT NULL,  -- a batch that hung until later places nothing
  not_after INTEGER,              -- the client's deadline
  label TEXT,
  replaces BLOB,                  -- the quote that ends when this one is placed
  max_open_quotes INTEGER NOT NULL,
  socket_id BLOB,                 -- the armed socket on which it arrived
  key_hash BLOB,                  -- as in idempotency_keys; NULL: without a key
  terms_hash BLOB,
  at INTEGER NOT NULL,            -- the instant and the number of the commit group
  placed_group INTEGER NOT NULL
) STRICT;

-- What a commit group ends before its operations, one row for each group (src/rfq/expire.ts).
-- Always empty: the trigger expiry_commands_expire (migrations/0004_expire.sql) ends what is due
-- and stores no command.
--
-- Example row:
--   asset 'venue_one:0x1', user_ids '["01a2…b1a6"]', operation 019a…77aa, at 1764551330000,
--   expired_group 88
CREATE TABLE expiry_commands (
  asset TEXT NOT NULL,     -- the book whose due quotes and requests end
  user_ids TEXT NOT NULL,  -- JSON array: the makers whose due quotes end in any book
  operation BLOB NOT NULL,  -- stamped on the records as ended_by
  at INTEGER NOT NULL,     -- the instant and the number of the commit group
  expired_group INTEGER NOT NULL
) STRICT;

-- Trades. Written by src/rfq/accept-quote.ts in the commit that settles them. Sealed with their
-- transfers, and deleted a day later (src/archive/release.ts).
--
-- Example row:
--   match_id 019a…94b0, request_id 019a…9ef4, quote_id 019a…fd49, requester_id 01a2…c585,
--   maker_id 01a2…b1a6, asset 'venue_one:0x1', side 'Bid', amount 1000000, price 317919,
--   usdc_amount 317919, taker_fee 0, maker_fee 0, at 1764551353797, matched_group 91,
--   requester_label NULL, maker_label 'bot-7'
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
  requester_label TEXT,        -- each party's own, copied from the request and the quote
  maker_label TEXT
) STRICT, WITHOUT ROWID;

-- A request and a quote match at most once. A repeated accept finds its match by them.
CREATE UNIQUE INDEX matches_request_id_unique ON matches (request_id);
CREATE UNIQUE INDEX matches_quote_id_unique ON matches (quote_id);

-- A user's matches on either side, newest first.
CREATE INDEX matches_requester ON matches (requester_id, at, match_id);
CREATE INDEX matches_maker ON matches (maker_id, at, match_id);

-- Those with a label of the user's own, newest first.
CREATE INDEX matches_requester_label ON matches (requester_id, requester_label, at, match_id)
  WHERE requester_label IS NOT NULL;
CREATE INDEX matches_maker_label ON matches (maker_id, maker_label, at, match_id)
  WHERE maker_label IS NOT NULL;

-- The tape of the last 24 hours: of everything, of a book and of a venue. The end of an asset's id
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

-- Counts the match for its maker's protection, if the maker has set limits, and trips it when the
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
  cancel_at INTEGER NOT NULL,            -- from then on the credential's quotes cannot be accepted
  closed INTEGER NOT NULL                -- 1: it has run out, and its quotes are closed
) STRICT;

-- The timers that still run, of one user or of all. A call that moves one writes no index row.
CREATE INDEX cancel_timers_running ON cancel_timers (user_id) WHERE closed = 0;

-- Sockets whose end cancels the open quotes of their key. Written before the socket is accepted and
-- deleted when it ends (src/rfq/armed-sockets.ts), so a quote of a socket without a row comes too
-- late.
--
-- Example row:
--   armed_id 7, socket_id 5b0e…9f10, user_id 01a2…b1a6, api_key_id 01a2…0c11,
--   stream 'account:01a2…b1a6', asked_at 1764551290000, taken_over_at NULL
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

-- A maker's protection: how many matches, and of how much USDC, trip it within a sliding window.
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
  max_matches INTEGER,             -- NULL: no limit; both limits NULL: off
  max_usdc INTEGER,
  cooldown_secs INTEGER,           -- NULL: it stays tripped until it is reset
  period INTEGER NOT NULL,         -- counting starts again with each: when it is saved, reset or
                                   -- tripped
  matches INTEGER NOT NULL,        -- as maker, in this period
  usdc INTEGER NOT NULL,           -- the sum of their usdc_amount, at most 2^62
  tripped_at INTEGER,              -- of the last trip; NULL once it is reset
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
-- are. Deleted once no window reaches back to them (src/rfq/trim.ts).
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
  usdc INTEGER NOT NULL,  -- native units, tokens at 1 USDC each; at most 2^62
  PRIMARY KEY (subject, hour)
) STRICT, WITHOUT ROWID;

-- Deleting old rows.
CREATE INDEX traded_hours_age ON traded_hours (hour);

-- A client's own key for one command, written in the commit of the effect (src/rfq/idempotency.ts).
-- A repeat within 24 hours returns the record as it was when it was made. Deleted after 24 to 26
-- hours, without an index by age: cron reads a part of all keys each minute.
--
-- Example row:
--   key_hash 0x5b1e…07c2, terms_hash 0x91f4…d35a, record_id 019a…9ef4
CREATE TABLE idempotency_keys (
  key_hash BLOB PRIMARY KEY NOT NULL,  -- of user, route and the header Idempotency-Key: 12 bytes
  terms_hash BLOB NOT NULL,            -- 4 bytes; a repeat with other terms is rejected
  record_id BLOB NOT NULL              -- the request or quote; the key's age is that of the id
) STRICT, WITHOUT ROWID;

-- Venues that take no new business while their row exists. Written by the operator commands `venue
-- pause` and `venue resume`.
--
-- Example row:
--   venue 'venue_two', since 1764551500000
CREATE TABLE paused_venues (
  venue TEXT PRIMARY KEY NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- What an asset is: its title and outcome for people, and when it stops trading. Written by the
-- operator commands `market set`, `market import` and `market close`. Never deleted, because an
-- asset whose row was gone could be traded again.
--
-- Example row:
--   asset 'venue_one:0x1', title 'Will it rain in Paris on 1 June?', outcome 'Yes',
--   url 'https://venue-one.example/rain', closes_at 1780272000000, closed_at NULL,
--   changed_group 40
CREATE TABLE markets (
  asset TEXT PRIMARY KEY NOT NULL,
  title TEXT NOT NULL,
  outcome TEXT NOT NULL,
  url TEXT,                        -- where the venue describes it
  closes_at INTEGER,               -- from then on it is closed; NULL: never by itself
  closed_at INTEGER,               -- when an operator closed it
  changed_group INTEGER NOT NULL   -- of the newest change
) STRICT;

-- What changed since a reader last looked.
CREATE INDEX markets_changed_group ON markets (changed_group, asset);

-- ================================================================================================
-- Streams
-- ================================================================================================

-- Numbered sequences of events. Opened by the first event or subscriber (src/streams/event-log.ts).
-- Removed when nothing has happened for three hours and nobody subscribes (src/streams/trim.ts).
--
-- Example row:
--   stream_id 5, name 'book:venue_one:0x1', last_seq 2, pushed_seq 2, first_seq 1,
--   active_at 1764551300000
CREATE TABLE streams (
  stream_id INTEGER PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,           -- 'book:<venue>:<asset_id>', 'venue:<venue>' or 'account:<user_id>'
  last_seq INTEGER NOT NULL,    -- the newest event's number
  pushed_seq INTEGER NOT NULL,  -- up to here the stream's object has pushed; cron notifies it again
                                -- when it is behind
  first_seq INTEGER NOT NULL,   -- the oldest event's number that is still kept; the next one's if
                                -- none is
  active_at INTEGER NOT NULL    -- when it was opened or had an event, at most an hour behind, so
                                -- that most events write no index row; also the last time that cron
                                -- asked its object whether it has sockets
) STRICT;

-- Events, subscriptions and replays find the stream by it.
CREATE UNIQUE INDEX streams_name_unique ON streams (name);

-- Cron finds the streams that may be dormant.
CREATE INDEX streams_idle ON streams (active_at);

-- The highest number of any stream that was removed. New streams start above it, so a number never
-- repeats although nothing else is remembered of a removed stream. One row, written by
-- src/streams/trim.ts; a restore raises it.
--
-- Example row:
--   only 1, last_seq 40
CREATE TABLE removed_streams (
  only INTEGER PRIMARY KEY NOT NULL,
  last_seq INTEGER NOT NULL,
  CONSTRAINT removed_streams_only CHECK (only = 1)
) STRICT;

-- Events, written in the batch of the change that they report, so an event exists exactly when its
-- change does. A row is a run: the events that a commit group wrote to a stream, at most 256
-- (src/platform/announce.ts). The view stream_events shows each of them. Kept for two hours.
--
-- Rows are appended: `run_id` is the commit group's number times 2^20, plus the run's place in the
-- group. So pages are full, a group's runs are a range, and trimming frees whole pages. A key that
-- begins with the stream would split a page at each of many places and leave it half full. A table
-- without rowid keeps only 1 kB of a row on its page; a long run would take a page of its own.
--
-- Example row:
--   run_id 95420416, stream_id 5, last_seq 2, first_seq 2, at 1764551353797,
--   ids x'019a…9ef4', events '[[0,2,"matched"]]'
CREATE TABLE event_runs (
  run_id INTEGER PRIMARY KEY NOT NULL,
  stream_id INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,   -- of the last event of the run
  first_seq INTEGER NOT NULL,  -- of the first; without gaps, only a restore skips numbers
  at INTEGER NOT NULL,
  ids BLOB NOT NULL,           -- of the events, one after the other
  events TEXT NOT NULL         -- JSON array of the code and the values of each, in order
                               -- (src/platform/event-forms.ts). What the audience may not see is
                               -- left out
) STRICT;

-- Replays and the checks of a stream read its runs in order.
CREATE UNIQUE INDEX event_runs_stream ON event_runs (stream_id, last_seq);

-- A run has the next numbers of its stream, so two writers cannot leave a gap or share a number.
-- The stream follows, its `active_at` only once an hour (ACTIVE_WITHIN_MS), because that changes an
-- index.
CREATE TRIGGER event_runs_number BEFORE INSERT ON event_runs BEGIN
  SELECT RAISE(ABORT, 'append-only: event number')
    WHERE NEW.first_seq IS NOT (SELECT last_seq + 1 FROM streams WHERE stream_id = NEW.stream_id)
      OR NEW.last_seq < NEW.first_seq
      OR NEW.last_seq - NEW.first_seq + 1 IS NOT json_array_length(NEW.events);
END;

CREATE TRIGGER event_runs_advance AFTER INSERT ON event_runs BEGIN
  UPDATE streams SET last_seq = NEW.last_seq WHERE stream_id = NEW.stream_id;
  UPDATE streams SET active_at = NEW.at
    WHERE stream_id = NEW.stream_id AND active_at < NEW.at - 3600000;
END;

-- A client may already have received the events.
CREATE TRIGGER event_runs_update BEFORE UPDATE ON event_runs BEGIN
  SELECT RAISE(ABORT, 'append-only: event');
END;

-- Runs of events that are about to be written. Those of a commit group are inserted by one
-- statement (src/platform/announce.ts), of each stream in order. Always empty: the trigger below
-- writes the runs and stores no command.
--
-- Example row:
--   stream 'book:venue_one:0x1', n 1, written_group 91, at 1764551353797, ids x'019a…9ef4',
--   events '[[0,2,"matched"]]'
CREATE TABLE event_commands (
  stream TEXT NOT NULL,
  n INTEGER NOT NULL,  -- how many events
  written_group INTEGER NOT NULL,
  at INTEGER NOT NULL,
  ids BLOB NOT NULL,
  events TEXT NOT NULL
) STRICT;

-- Opens the stream, and writes the run with its next numbers.
CREATE TRIGGER event_commands_write BEFORE INSERT ON event_commands BEGIN
  INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
    VALUES (NEW.stream,
      coalesce((SELECT max(last_seq) FROM removed_streams), 0),
      coalesce((SELECT max(last_seq) FROM removed_streams), 0),
      coalesce((SELECT max(last_seq) FROM removed_streams), 0) + 1,
      NEW.at)
    ON CONFLICT (name) DO NOTHING;
  INSERT INTO event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)
    VALUES (
      coalesce(
        (SELECT max(r.run_id) + 1 FROM event_runs r
          WHERE r.run_id >= NEW.written_group << 20 AND r.run_id < (NEW.written_group + 1) << 20),
        NEW.written_group << 20),
      (SELECT stream_id FROM streams WHERE name = NEW.stream),
      (SELECT last_seq FROM streams WHERE name = NEW.stream) + NEW.n,
      (SELECT last_seq FROM streams WHERE name = NEW.stream) + 1,
      NEW.at, NEW.ids, NEW.events);
  SELECT RAISE(IGNORE);
END;

-- Streams that an object has sockets for; only they are notified. An object writes its row before
-- it reads the snapshot for its first socket, and deletes it after the last
-- (src/streams/replay.ts). Each registration has a token of its own, above the earlier ones of its
-- stream, so a deletion or a registration that arrives late does not remove the next one.
--
-- Example row:
--   name 'book:venue_one:0x1', token '019ad70e-5c10-7…', since 1764551290000
CREATE TABLE stream_subscribers (
  name TEXT PRIMARY KEY NOT NULL,
  token TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- ================================================================================================
-- Chain and custody
-- ================================================================================================

-- How far each chain has been read. Moved by the chain's watcher (src/chain/cursor.ts) in the
-- commit of what the blocks contained, so a range that is read twice changes nothing.
--
-- Example row:
--   chain 'polygon', confirmed_number 85, confirmed_hash 0x7c11…a0e4, scanned_number 88,
--   scanned_hash 0x15de…90ba, head_number 88, moved_group 188, moved_at 1764551580000,
--   halted_at NULL, halt_reason NULL, rechecked_number 40, finalized_number 80,
--   finalized_at 1764551579000, floors '[{"venue":null,"floor":1000000}]', floors_after NULL
CREATE TABLE chain_cursors (
  chain TEXT PRIMARY KEY NOT NULL,
  confirmed_number INTEGER NOT NULL,  -- up to here deposits are credited and payments settled
  confirmed_hash BLOB NOT NULL,
  scanned_number INTEGER NOT NULL,    -- up to here deposits are detected; never below
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
  finalized_number INTEGER,           -- the chain's own finalized block, or else its head
  finalized_at INTEGER,               -- when finalized_number last rose
  floors TEXT,                        -- the min_deposit settings, as JSON, for which
                                      -- small_deposits is checked or being checked
  floors_after INTEGER                -- rows of small_deposits up to here are checked; NULL: all
) STRICT;

-- Blocks between the confirmed height and the head, as they were when they were read. A reorg shows
-- as a hash that differs. Written and deleted with the cursor.
--
-- Example row:
--   chain 'polygon', number 86, hash 0x90c3…41fd
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
--   chain 'polygon', factory 0x5fbd…0aa3, verified_at 1764547300000
CREATE TABLE chain_factories (
  chain TEXT NOT NULL,
  factory BLOB NOT NULL,
  verified_at INTEGER NOT NULL,
  PRIMARY KEY (chain, factory)
) STRICT;

-- Addresses that were issued to users and are watched for ever. Written by
-- src/custody/deposit-address.ts; a restore writes lost ones again.
--
-- Example row:
--   chain 'polygon', address 0x6cda…43f6, user_id 01a2…c585, nonce 0, salt 0x2f18…c07b,
--   created_at 1764547310000
CREATE TABLE deposit_addresses (
  chain TEXT NOT NULL,
  address BLOB NOT NULL,
  user_id BLOB NOT NULL,
  nonce INTEGER NOT NULL,  -- counts the user's addresses on the chain from 0; the highest is
                           -- current
  salt BLOB NOT NULL,      -- of CREATE2: an HMAC, so that a user id reveals no address; sweeps need
                           -- it
  created_at INTEGER NOT NULL,
  PRIMARY KEY (chain, address)
) STRICT;

-- A user's addresses. Two calls at once cannot take the same number.
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
-- 'confirming', 'credited' once confirmed. An orphaned one that is mined again is the same row.
-- Kept for ever.
--
-- Example row:
--   deposit_id 019a…032d, chain 'polygon', transaction_hash 0xfb1b…c3f4, token 0x3c49…3359,
--   ordinal 0, position 0, block_number 85, block_hash 0x7c11…a0e4, address 0x6cda…43f6,
--   user_id 01a2…c585, asset 'usdc', amount '5000000', required_confirmations 3,
--   status 'credited', seen_group 188, confirmed_group 188, detected_at 1764551560000,
--   detected_group 185, credited_at 1764551580000, ended_group 188
CREATE TABLE deposits (
  deposit_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  transaction_hash BLOB NOT NULL,
  token BLOB NOT NULL,            -- the contract that logged it
  ordinal INTEGER NOT NULL,       -- among the contract's transfers in the transaction; a log index
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
  status TEXT NOT NULL,           -- 'quarantined': confirmed, but too large for the ledger
  seen_group INTEGER NOT NULL,    -- that last found it in the chain; others of its block range are
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

-- A user's deposits, newest first, in all statuses or in one.
CREATE INDEX deposits_user ON deposits (user_id, detected_at, deposit_id);
CREATE INDEX deposits_user_status ON deposits (user_id, status, detected_at, deposit_id);

-- Deposits to confirm, credit or orphan in a range of blocks.
CREATE INDEX deposits_open ON deposits (chain, block_number) WHERE status = 'confirming';

-- The ledger filtered by a transaction hash.
CREATE INDEX deposits_hash ON deposits (user_id, transaction_hash);

-- What a commit group detected or ended: its events, its postings, and the reconciliation.
CREATE INDEX deposits_detected_group ON deposits (detected_group);
CREATE INDEX deposits_ended_group ON deposits (ended_group) WHERE ended_group IS NOT NULL;

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

CREATE TRIGGER deposits_delete BEFORE DELETE ON deposits BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit');
END;

-- A credited deposit is in the journal.
CREATE TRIGGER deposits_credited BEFORE UPDATE ON deposits WHEN OLD.status = 'credited' BEGIN
  SELECT RAISE(ABORT, 'append-only: a credited deposit never moves');
END;

-- Confirmed transfers to deposit addresses that are below the asset's min_deposit. Written by
-- src/custody/watcher/small-deposits.ts. Rows move to deposits once they are due. A transfer is
-- either here or there, never in both. Rows are short, because anyone can cause any number of them.
--
-- Example row:
--   small_id 7, key 0x91ab…2c10, deposit_id 019a…0d11, user_id 01a2…c585, chain 'polygon', nonce 0,
--   transaction_hash 0x3ad0…71fe, token 0x3c49…3359, ordinal 0, position 0, block_number 85,
--   venue NULL, asset_id NULL, amount 250000, required_confirmations 3, detected_at 1764551580000,
--   due 0
CREATE TABLE small_deposits (
  small_id INTEGER PRIMARY KEY NOT NULL,
  -- 8 bytes of a hash of chain, address and token; 1 byte that is lower for larger amounts; 8 bytes
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

-- A user's deposits, newest first.
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
--   chain 'polygon', asset 'usdc', address 0x6cda…43f6, amount 5000000, block_number 85,
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
--   withdrawal_id 019a…d8ee, job_id 019a…1f0c, user_id 01a2…c585, client_withdrawal_id 'first',
--   payment_id 0x5ff8…4ad8, chain 'polygon', asset 'usdc', amount 1500000,
--   to_address 0x7099…79c8, status 'settled', approval_expires_at NULL, approved_at NULL,
--   transaction_hash 0x2921…b756, failure_code NULL, failure_message NULL,
--   created_at 1764551698000, updated_at 1764551760000, not_before NULL, queued_group 198,
--   changed_group 212, ended_by 019a…5c7a
CREATE TABLE withdrawals (
  withdrawal_id BLOB PRIMARY KEY NOT NULL,
  job_id BLOB NOT NULL,                -- the id of the work to pay it, as the public interface
                                       -- names it
  user_id BLOB NOT NULL,
  client_withdrawal_id TEXT NOT NULL,  -- the client's own id: a repeat with it returns this row
  payment_id BLOB NOT NULL,            -- keccak256(user id, client_withdrawal_id), which the vault
                                       -- pays at most once
  chain TEXT NOT NULL,
  asset TEXT NOT NULL,
  amount INTEGER NOT NULL,
  to_address BLOB NOT NULL,
  status TEXT NOT NULL,                -- 'submitted': a payment is signed; back to 'queued' if the
                                       -- vault skipped it
  approval_expires_at INTEGER,         -- of one that waits, or waited, for its owner's approval
  approved_at INTEGER,                 -- when its owner approved it
  transaction_hash BLOB,               -- of the latest attempt, and in the end of the transaction
                                       -- that brought the outcome
  failure_code TEXT,                   -- 'payment_reverted', 'operator_failed' or
                                       -- 'approval_expired'
  failure_message TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  not_before INTEGER,                  -- the payer leaves it until then, after the vault skipped it
  queued_group INTEGER NOT NULL,
  changed_group INTEGER NOT NULL,      -- the latest change, the insertion included; each is
                                       -- announced
  ended_by BLOB,                       -- the id of the commit group that settled, failed or
                                       -- cancelled it
  CONSTRAINT withdrawals_status CHECK (status IN (
    'awaiting_approval', 'queued', 'submitted', 'settled', 'failed', 'cancelled')),
  CONSTRAINT withdrawals_amount CHECK (amount > 0)
) STRICT;

-- Ids of the public interface and of the vault exist once.
CREATE UNIQUE INDEX withdrawals_job_id_unique ON withdrawals (job_id);
CREATE UNIQUE INDEX withdrawals_payment_id_unique ON withdrawals (payment_id);

-- A repeated POST finds its withdrawal.
CREATE UNIQUE INDEX withdrawals_client_id ON withdrawals (user_id, client_withdrawal_id);

-- A user's withdrawals, newest first, in all statuses or in one, and their number of the last day.
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

-- A signed payment may be anywhere, so what it pays is never given back without the chain's word.
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
  OR NEW.amount <> OLD.amount OR NEW.to_address <> OLD.to_address BEGIN
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
--   address_id 019a…ad01, user_id 01a2…c585, chain 'polygon', address 0x7099…79c8,
--   label 'cold wallet', created_at 1764547400000, active_from 1764633800000
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

-- Listing a user's addresses newest first.
CREATE INDEX withdrawal_addresses_user ON withdrawal_addresses (user_id, created_at, address_id);

-- Which payer may allocate nonces on a chain. A new payer overwrites the token, and the guards of
-- the earlier one stop applying (src/custody/payer/payer-lease.ts).
--
-- Example row:
--   chain 'polygon', token 019a…aa10, taken_at 1764551000000, halted_at NULL, halt_reason NULL,
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
  sequences_advanced_at INTEGER  -- when a restore last skipped ids; once a halt
) STRICT;

-- One row per nonce of an operator account, whatever fees its attempts offer. Written by the payer
-- before anything is sent. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, chain 'polygon', sender 0xf39f…2266, nonce 1, kind 'pay', batch_no 1,
--   to_address 0xe7f1…0512, data 0x4a2f…0000, gas_limit 460000, status 'done', made_group 207,
--   made_at 1764551720000, ended_group 213, reopened_group NULL
CREATE TABLE chain_transactions (
  transaction_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  sender BLOB NOT NULL,        -- the operator account
  nonce INTEGER NOT NULL,
  kind TEXT NOT NULL,          -- what the call does; 'cancel': a payment without effect that a deep
                               -- reorg removed, so that its nonce is used by a transfer of nothing
  batch_no INTEGER,            -- of a payment: the vault accepts only the next number
  to_address BLOB NOT NULL,
  data BLOB NOT NULL,          -- call data
  gas_limit INTEGER NOT NULL,  -- computed by the contract, never estimated
  status TEXT NOT NULL,        -- 'open' until the confirmed chain has used the nonce; 'unused': its
                               -- batch number is free again
  made_group INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  ended_group INTEGER,
  reopened_group INTEGER,      -- a deep reorg had removed it; the operator resumed the chain
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
-- and one that has ended opens again only with a mark. One without effect then becomes a 'cancel'.
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

-- Signed versions of a transaction, stored before they are sent. They differ in fees only; those of
-- a 'cancel' also in what they do. Written by the payer. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, attempt 0, hash 0x2921…b756, signed 0x02f9…c001,
--   max_fee 1000010270, priority_fee 1000000000, signed_group 207, signed_at 1764551720000,
--   head_number 93
CREATE TABLE transaction_attempts (
  transaction_id BLOB NOT NULL,
  attempt INTEGER NOT NULL,       -- from 0; the highest is sent
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

-- The withdrawals that a transaction pays or voids. Inserted by the payer with the transaction;
-- ended by the watcher with the vault's event, or by the payer when the transaction came to
-- nothing. Kept for ever.
--
-- Example row:
--   transaction_id 019a…faf1, withdrawal_id 019a…d8ee, purpose 'pay', ended_group 212,
--   outcome 'Paid'
CREATE TABLE batch_members (
  transaction_id BLOB NOT NULL,
  withdrawal_id BLOB NOT NULL,
  purpose TEXT NOT NULL,  -- the transaction's kind
  ended_group INTEGER,    -- NULL: live
  outcome TEXT,           -- the vault's event, or 'returned' when there was none
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

-- The vault's events about payments, read at the confirmed height. Written by the watcher
-- (src/custody/watcher/settle-withdrawal.ts); only they settle or fail a withdrawal. Kept for ever.
--
-- Example row:
--   chain 'polygon', transaction_hash 0x2921…b756, ordinal 0, kind 'Paid', payment_id 0x5ff8…4ad8,
--   vault 0xe7f1…0512, batch_no 1, skip_reason NULL, token 0x9fe4…6e0, token_id '0',
--   asset 'usdc', amount '1500000', to_address 0x7099…79c8, block_number 94,
--   block_hash 0x33aa…0c1e, recorded_group 212
CREATE TABLE vault_events (
  chain TEXT NOT NULL,
  transaction_hash BLOB NOT NULL,
  ordinal INTEGER NOT NULL,  -- among the vault's logs in the transaction
  kind TEXT NOT NULL,
  payment_id BLOB NOT NULL,
  vault BLOB NOT NULL,       -- that emitted it
  batch_no INTEGER,          -- NULL for 'Voided' and 'AlreadyDone'
  skip_reason INTEGER,       -- of 'Skipped': the reason's number in Vault.sol
  token BLOB,                -- of 'Paid'
  token_id TEXT,             -- of 'Paid'; '0' for ERC-20
  asset TEXT,                -- of 'Paid'; compared with the withdrawal's; NULL: a token that the
                             -- service does not credit
  amount TEXT,               -- of 'Paid'; compared with the withdrawal's
  to_address BLOB,           -- of 'Paid'; compared with the withdrawal's
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

-- Payments of the vault that are no withdrawal's. Those that the service did not order are accepted
-- by `restore --accept-payment` (src/custody/accept-payment.ts): a loss is posted to the journal,
-- from the house account 'losses' to the chain's; a rescue returns what was never credited. Of a
-- lost withdrawal whose ids another one has, `restore` writes the payment and debits its user
-- (src/custody/payer/restore-payments.ts). Kept for ever.
--
-- Example row:
--   acceptance_id 019a…77aa, chain 'polygon', payment_id 0x5ff8…4ad8, kind 'loss', user_id NULL,
--   asset 'usdc', amount 1500000, reason 'stolen key, incident 7', actor 'operator:ann',
--   at 1764551750000, accepted_group 310
CREATE TABLE accepted_payments (
  acceptance_id BLOB PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  payment_id BLOB NOT NULL,
  kind TEXT NOT NULL,  -- 'withdrawal': `restore` has debited the user whose lost withdrawal it was
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
--   command_id 1, chain 'polygon', kind 'retry', withdrawal_id 019a…d8ee, from_block NULL,
--   to_block NULL, actor 'operator:ann', at 1764551750000, done_group 209, result 'retried'
CREATE TABLE chain_commands (
  command_id INTEGER PRIMARY KEY NOT NULL,
  chain TEXT NOT NULL,
  kind TEXT NOT NULL,
  withdrawal_id BLOB,  -- of 'fail' and 'retry'
  from_block INTEGER,  -- of 'rescan': the next block to read
  to_block INTEGER,    -- of 'rescan': the last block to read
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

-- ================================================================================================
-- Reconciliation
-- ================================================================================================

-- How far each scan of the reconciliation has come (src/ledger/reconcile.ts). One row per scan.
--
-- Example row:
--   scan 'transfers', position 15, mark '', finished_at 1764551750000
CREATE TABLE ledger_checkpoints (
  scan TEXT PRIMARY KEY NOT NULL,  -- 'transfers', 'groups', 'accounts', 'streams', 'rights', each
                                   -- also with 'full_' before it, or 'assets:<chain>'
  position INTEGER NOT NULL,       -- the last transfer, commit group, account, stream or user
                                   -- checked
  mark TEXT NOT NULL,              -- of 'assets:<chain>': the last asset; of a full scan until it
                                   -- ends: 'running', or the last transfer that it checks
  finished_at INTEGER              -- when the scan last reached the end
) STRICT;

-- Each account's balance at the checkpoint of a scan over transfers, from which the next transfers
-- are checked.
--
-- Example row:
--   scan 'transfers', account_id 1, balance 99999682081
CREATE TABLE checked_balances (
  scan TEXT NOT NULL,  -- 'transfers' or 'full_transfers'
  account_id INTEGER NOT NULL,
  balance INTEGER NOT NULL,
  PRIMARY KEY (scan, account_id)
) STRICT, WITHOUT ROWID;

-- Assets of which a chain held less than the journal has issued. A second block that shows it too
-- pauses withdrawals. Deleted when the holdings suffice again.
--
-- Example row:
--   chain 'polygon', asset 'usdc', block 94, missing '250000'
CREATE TABLE shortfalls (
  chain TEXT NOT NULL,
  asset TEXT NOT NULL,
  block INTEGER NOT NULL,  -- the first confirmed block that showed it
  missing TEXT NOT NULL,   -- native units, at the latest look
  PRIMARY KEY (chain, asset)
) STRICT;

-- ================================================================================================
-- Archive
-- ================================================================================================

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
  epoch INTEGER NOT NULL,             -- rises with a restore; part of the object's key
  after_transfer INTEGER NOT NULL,    -- contains the transfers after this one
  up_to_transfer INTEGER NOT NULL,    -- up to this one
  after_group INTEGER NOT NULL,       -- and the requests that ended after this commit group
  up_to_group INTEGER NOT NULL,       -- up to this one
  transfers INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  quotes INTEGER NOT NULL,
  matches INTEGER NOT NULL,
  last_at INTEGER NOT NULL,           -- the last transfer's instant; of a seal without any, that of
                                      -- the seal before
  bytes INTEGER NOT NULL,             -- of the object
  previous BLOB NOT NULL,             -- hash of the seal before; zeros: there is none
  sha256 BLOB NOT NULL,
  sealed_at INTEGER NOT NULL,
  delivered_at INTEGER,               -- from then on nobody reads its transfers in this database
  released_at INTEGER,                -- its transfers, requests and quotes were deleted here,
                                      -- except those held
  held INTEGER,                       -- transfers that stayed when it was released
  matches_released_at INTEGER         -- its matches were deleted here
) STRICT;

-- The last delivered seal, above which entries are read.
CREATE INDEX journal_seals_delivered ON journal_seals (number) WHERE delivered_at IS NOT NULL;

-- The next seal to release.
CREATE INDEX journal_seals_unreleased ON journal_seals (number) WHERE released_at IS NULL;

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
-- are all there; when they have been deleted, exactly those held are left.
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

-- Each account's balance at the end of the last seal, as the seal states it. Written in the batch
-- that stores the seal.
--
-- Example row:
--   account_id 1, balance 99999682081
CREATE TABLE sealed_balances (
  account_id INTEGER PRIMARY KEY NOT NULL,
  balance INTEGER NOT NULL
) STRICT;

-- The owners with a block in a seal. Written in the batch that stores the seal. Each block names
-- the owner's block before it, so the last one leads to all of them.
--
-- Example row:
--   owner 01a2…c585, first_seal 1, last_seal 1, last_request_at NULL,
--   last_quote_at 1764551330000, last_match_at 1764551353797
CREATE TABLE sealed_owners (
  owner BLOB PRIMARY KEY NOT NULL,
  first_seal INTEGER NOT NULL,
  last_seal INTEGER NOT NULL,
  last_request_at INTEGER,  -- when the newest sealed request of the owner was opened; NULL: none is
  last_quote_at INTEGER,    -- the same of quotes
  last_match_at INTEGER     -- when the newest sealed match was made
) STRICT, WITHOUT ROWID;

-- What the matches that have left the database were worth, by UTC day. Written in the batch that
-- deletes them, and read by the operator's `fees`. Sums stop at 2^62.
--
-- Example row:
--   day 20422, venue 'venue_one', trades 1, usdc_amount 317919, taker_fee 0, maker_fee 0
CREATE TABLE venue_days (
  day INTEGER NOT NULL,  -- days since 1970-01-01
  venue TEXT NOT NULL,
  trades INTEGER NOT NULL,
  usdc_amount INTEGER NOT NULL,
  taker_fee INTEGER NOT NULL,
  maker_fee INTEGER NOT NULL,
  PRIMARY KEY (day, venue)
) STRICT, WITHOUT ROWID;
