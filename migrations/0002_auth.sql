-- Auth

-- People with an account. Written by src/auth/user.ts (registration and operator) and by a restore.
-- Never deleted.
--
-- Example row:
--   user_id 01a2…c585, email ’ann@example.com’, password_hash ’scrypt$13$8$10$c2FsdA$aGFzaA’,
--   session_epoch 0, frozen_at NULL, frozen_by NULL, hold_until NULL, created_at 1764547200000
CREATE TABLE users (
  user_id BLOB PRIMARY KEY NOT NULL,
  email TEXT NOT NULL,             -- trimmed, NFC, lower case
  password_hash TEXT NOT NULL,     -- with its scrypt parameters, ’’ after a restore, which no
                                   -- password matches
  session_epoch INTEGER NOT NULL,  -- a session token carries the epoch it was made in, raising it
                                   -- ends them all
  frozen_at INTEGER,               -- not NULL: no credential of the user works
  frozen_by TEXT,                  -- ’self’ or ’operator’, NULL of a restored user: the operator
  hold_until INTEGER,              -- sessions carry only `read` until then, because the operator
                                   -- reset the password or TOTP
  created_at INTEGER NOT NULL
) STRICT;

-- Login, and one account per email.
CREATE UNIQUE INDEX users_email_unique ON users (email);

-- Credentials of programs. Users mint them, and a key with the scope withdraw needs the operator’s
-- approval. The operator mints keys without it. Written by src/auth/mint-key.ts and
-- src/auth/approve-key.ts, src/auth/key-use.ts notes last_used_at, and key-networks.ts
-- the networks. Deleted 30 days after they were revoked or expired. Their audit events stay.
--
-- Example row:
--   api_key_id 019a…77aa, user_id 01a2…c585, label ’bot’, scopes ’read,withdraw’,
--   secret_sealed ’q83vEjRWeJASNFZ4’, master_key_id ’k1’, allowed_ips ’[”198.51.100.0/24”]’,
--   limits ’{”venues”:null,”max_usdc_per_trade”:5000000,”max_usdc_per_day”:null}’,
--   require_idempotency 1, minted_by ’operator’, active_from 1764633600000, approved_at NULL,
--   created_at 1764547200000, expires_at NULL, last_used_at 1764635000000, revoked_at NULL,
--   networks ’{”v4:c63364”:[20423,20423]}’
CREATE TABLE api_keys (
  api_key_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  label TEXT NOT NULL,
  scopes TEXT NOT NULL,          -- comma-separated: read, trade, withdraw
  secret_sealed TEXT NOT NULL,   -- AES-256-GCM, base64url, bound to every column that decides
                                 -- what the key may do, so an edited row does not open
  master_key_id TEXT NOT NULL,   -- the key of MASTER_KEYS that sealed it
  allowed_ips TEXT,              -- JSON array of ranges, NULL: any address
  limits TEXT,                   -- JSON of src/auth/key-limits.ts, amounts in native units of USDC,
                                 -- NULL: none
  require_idempotency INTEGER NOT NULL,  -- 1: requests and quotes need idempotency_key in the body
  minted_by TEXT NOT NULL,       -- ’session’ or ’operator’
  active_from INTEGER,           -- the key has no scopes before, so that the user can revoke it,
                                 -- NULL: it waits for the operator’s approval
  approved_at INTEGER,           -- when the operator approved it, NULL: no approval, or not yet
  created_at INTEGER NOT NULL,
  expires_at INTEGER,            -- NULL: never
  last_used_at INTEGER,          -- at most one write a minute, by the isolate’s clock
  revoked_at INTEGER,
  networks TEXT,                 -- JSON: the networks that used the key, at most eight, with the
                                 -- days of the first and of the last use, NULL: none yet
  CONSTRAINT api_keys_require_idempotency CHECK (require_idempotency IN (0, 1))
) STRICT;

-- Listing a user’s keys newest first.
CREATE INDEX api_keys_user ON api_keys (user_id, created_at);

-- Counting a user’s live keys, and revoking all of them.
CREATE INDEX api_keys_live ON api_keys (user_id) WHERE revoked_at IS NULL;

-- Deleting keys that nobody has approved in time.
CREATE INDEX api_keys_waiting ON api_keys (created_at) WHERE active_from IS NULL;

-- Deleting keys that ended long ago.
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX api_keys_expiry ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- A cancel-after timer outlives its key, but not the key’s row, which is deleted much later.
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
  max_trade_usdc_per_day INTEGER,     -- native units, as below, NULL: no limit
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
--   session_expires_at NULL, scopes ’read,withdraw’, expires_at 1764635030000,
--   used_at 1764635001000
CREATE TABLE ws_tickets (
  -- SHA-256, the ticket itself is not stored
  ticket_hash BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  api_key_id BLOB,              -- of the key that asked, NULL: a session asked
  session_epoch INTEGER,        -- of the session that asked
  session_expires_at INTEGER,   -- of the session that asked
  scopes TEXT NOT NULL,         -- as in api_keys
  expires_at INTEGER NOT NULL,  -- 30 seconds after it was issued
  used_at INTEGER               -- the update that sets it is the guard, NULL again if the stream
                                -- then refused the socket
) STRICT;

-- Deleting old tickets.
CREATE INDEX ws_tickets_expiry ON ws_tickets (expires_at);

-- The streams on which a credential may have open sockets, which are closed when it ends. Written
-- by src/auth/ws-ticket.ts when a ticket is used. The same statement deletes the user’s rows of
-- streams without subscribers, so a user has about as many rows as open sockets. Cron deletes rows
-- older than a week, because every deployment closes all sockets.
--
-- Example row:
--   user_id 01a2…c585, opener 019a…77aa, stream ’account:01a2…c585’, opened_at 1764635001000
CREATE TABLE opened_streams (
  user_id BLOB NOT NULL,
  opener BLOB NOT NULL,        -- an API key, or the user’s own id for sessions
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
--   attempt_id 019a…0b31, email_hash 0x9b7e…11c2, network ’v4:c6336407’, at 1764547200500,
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
--   user_id 01a2…c585, network ’v4:c6336407’, at 1764547200700
CREATE TABLE login_networks (
  user_id BLOB NOT NULL,
  network TEXT NOT NULL,  -- as in login_attempts
  at INTEGER NOT NULL,    -- of the latest login
  PRIMARY KEY (user_id, network)
) STRICT;

-- Counting the accounts that a network has registered.
CREATE INDEX login_networks_network ON login_networks (network, at);

-- TOTP secrets (RFC 6238): the confirmed one of a user, and one that awaits its confirmation.
-- Written by src/auth/enrol-totp.ts and remove-totp.ts, src/auth/second-factor.ts notes the last
-- step. Cron deletes rows an hour after they end.
--
-- Example row:
--   user_id 01a2…c585, status ’confirmed’, secret_sealed ’q83vEjRWeJASNFZ4’, master_key_id ’k1’,
--   last_step 58818371, wrong_codes 0, created_at 1764551100000, ends_at NULL, next_sealed NULL,
--   next_master_key_id NULL, next_from NULL, recovered NULL
CREATE TABLE totp_secrets (
  user_id BLOB NOT NULL,
  status TEXT NOT NULL,         -- ’pending’ or ’confirmed’
  secret_sealed TEXT NOT NULL,  -- AES-256-GCM, base64url, bound to the user and the status
  master_key_id TEXT NOT NULL,  -- the key of MASTER_KEYS that sealed it
  last_step INTEGER NOT NULL,   -- the last 30 s since 1970 whose code was used, a code needs a
                                -- later one
  wrong_codes INTEGER NOT NULL, -- of a pending secret, too many end it
  created_at INTEGER NOT NULL,
  ends_at INTEGER,              -- not valid from then on: the end of the enrolment, or the removal
                                -- that the user requested, NULL: never
  next_sealed TEXT,             -- of a confirmed secret: its replacement, sealed as secret_sealed,
                                -- which counts from next_from on, by the clock, NULL: there is none
  next_master_key_id TEXT,      -- the key of MASTER_KEYS that sealed it
  next_from INTEGER,
  recovered INTEGER,            -- of a pending secret: 1 if a recovery code was used, so that it
                                -- replaces an earlier one at once
  PRIMARY KEY (user_id, status),
  CONSTRAINT totp_secrets_status CHECK (status IN ('pending', 'confirmed'))
) STRICT;

-- Deleting secrets that have ended.
CREATE INDEX totp_secrets_end ON totp_secrets (ends_at) WHERE ends_at IS NOT NULL;

-- Codes for users who lost their authenticator. Written by src/auth/enrol-totp.ts, ten at a time.
-- A used one is deleted (src/auth/second-factor.ts), and so are those of an earlier secret.
--
-- Example row:
--   user_id 01a2…c585, code_hash 0x51f0…9b1d, active_from NULL, ends_at NULL
CREATE TABLE recovery_codes (
  user_id BLOB NOT NULL,
  code_hash BLOB NOT NULL,  -- SHA-256 of the user’s id and the code, which has 80 random bits
  active_from INTEGER,      -- of a replacement that waits, NULL: valid since the code was made
  ends_at INTEGER,          -- when a replacement ends the code, NULL: none does
  PRIMARY KEY (user_id, code_hash)
) STRICT;

-- One row per wrong one-time code or recovery code. Written as wrong before the code is verified,
-- so that parallel guesses count, and deleted if it was right (src/auth/second-factor.ts). Cron
-- deletes rows older than an hour.
--
-- Example row:
--   attempt_id 019a…0b32, user_id 01a2…c585, network ’v4:c6336407’, at 1764551105000
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

-- A new email address and password that operators have ordered and that wait to take effect, so
-- that the owner can cancel them. Written by src/auth/change-email.ts. Applied by cron, which
-- compares the row with its audit event, so an edited row does nothing. Deleted when it is applied
-- or cancelled.
--
-- Example row:
--   user_id 01a2…c585, audit_event_id 019a…e002, email ’ann@example.org’,
--   password_hash ’scrypt$13$8$10$c2FsdA$aGFzaA’, active_from 1764637600000
CREATE TABLE email_changes (
  user_id BLOB PRIMARY KEY NOT NULL,
  audit_event_id BLOB NOT NULL,  -- of email_change_requested
  email TEXT NOT NULL,
  password_hash TEXT NOT NULL,
  active_from INTEGER NOT NULL   -- the change is applied after it
) STRICT, WITHOUT ROWID;

-- Nobody else takes the address meanwhile.
CREATE UNIQUE INDEX email_changes_email ON email_changes (email);

-- Security-relevant events. Each row is written in the batch of what it records
-- (src/audit/audit.ts). Users read their own rows, the operator reads all. Kept for ever.
--
-- Example row:
--   audit_seq 1, audit_event_id 019a…e001, kind ’withdrawal_queued’, actor ’api_key’,
--   user_id 01a2…c585, api_key_id 019a…77aa, ip ’198.51.100.7’, subject_id ’019a…d8ee’,
--   details NULL, mac NULL, at 1764551698000
CREATE TABLE audit_events (
  -- given by the database, without gaps: the order of commits. Only the event of an epoch, after a
  -- restore, chooses a higher one (src/audit/epoch.ts)
  audit_seq INTEGER PRIMARY KEY NOT NULL,
  audit_event_id BLOB NOT NULL,  -- also the stamp that later statements of its batch select by
  kind TEXT NOT NULL,            -- AuditKind or OperatorAuditKind in src/audit/audit.ts
  actor TEXT NOT NULL,           -- ’session’, ’api_key’, ’password’, ’unknown’ or ’operator:<name>’
  user_id BLOB,                  -- the user it concerns, NULL: an operator command about no user
  api_key_id BLOB,               -- of the key that did it
  ip TEXT,
  subject_id TEXT,               -- what it was done to: an id, an address, a chain, a reason
  details TEXT,                  -- JSON: of a change of rights, what it changed, and of an
                                 -- operator’s order, its id, time, hash and signature
  mac TEXT,                      -- of an event with details: the key of AUDIT_KEYS and the MAC
                                 -- (src/audit/event-mac.ts), NULL if the database composed it
  at INTEGER NOT NULL
) STRICT;

-- Statements that depend on an event’s batch having written it.
CREATE UNIQUE INDEX audit_events_audit_event_id_unique ON audit_events (audit_event_id);

-- A user’s own events, newest first.
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
-- (src/audit/seal.ts, once a minute), because writers of events would race for the head.
--
-- Example row:
--   audit_seq 1, hash 0x41f0…7d9e, key_id ’a1’, signature ’9c1e…’, sealed_at 1764551760000
CREATE TABLE audit_seals (
  audit_seq INTEGER PRIMARY KEY NOT NULL,
  hash BLOB NOT NULL,  -- over the previous link and the event
  key_id TEXT,         -- of AUDIT_KEYS, NULL but for the last link of a sealing
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

-- The newest head of the audit log that is known to be in R2 (src/audit/anchor.ts). One row,
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
-- row, so an order is carried out once. Cron deletes rows older than a day, the audit rows stay.
--
-- Example row:
--   order_id 019a…55d0, operator ’alice’, sha256 0x9c1e…04ab, audit_event_id 019a…e0f3,
--   answer NULL, master_key_id NULL, at 1764551698000
CREATE TABLE operator_orders (
  order_id BLOB PRIMARY KEY NOT NULL,
  operator TEXT NOT NULL,      -- the name in OPERATORS whose key signed it
  sha256 BLOB NOT NULL,        -- of the order’s JSON
  audit_event_id BLOB NOT NULL,
  answer TEXT,                 -- the response, sealed, NULL until it is known
  master_key_id TEXT,          -- of MASTER_KEYS, with which the answer is sealed
  at INTEGER NOT NULL
) STRICT;

-- Deleting old rows.
CREATE INDEX operator_orders_age ON operator_orders (at);

-- Orders that wait for a second operator (src/operator/approvals.ts). Cron deletes rows older than
-- 30 days.
--
-- Example row:
--   proposal_id 019a…66e1, operator ’alice’, content ’{”proposal_id”:”019a…”}’, status ’open’,
--   decided_by NULL, seal ’q83vEjRWeJASNFZ4’, master_key_id ’k1’, at 1764551698000
CREATE TABLE operator_proposals (
  proposal_id BLOB PRIMARY KEY NOT NULL,
  operator TEXT NOT NULL,      -- who proposed it
  content TEXT NOT NULL,       -- JSON, the approver signs its SHA-256
  status TEXT NOT NULL,
  decided_by TEXT,             -- who approved or rejected it
  seal TEXT NOT NULL,          -- over content, so that a row written by SQL is not carried out
  master_key_id TEXT NOT NULL, -- of MASTER_KEYS, with which the seal is made
  at INTEGER NOT NULL,
  CONSTRAINT operator_proposals_status CHECK (status IN ('open', 'approved', 'rejected'))
) STRICT;

-- The newest ones, and deleting old rows.
CREATE INDEX operator_proposals_age ON operator_proposals (at);

-- Where users receive events of their account (src/feeds/webhooks/). What waits for an endpoint is
-- in the storage of its object. At most two rows of a user, deleted by their owner.
--
-- Example row:
--   endpoint_id 019a…eb01, user_id 01a2…c585, url ’https://hooks.example/rfq’,
--   types ’match.created,account.notice’, secrets_sealed ’q83vEjRWeJASNFZ4’, master_key_id ’k1’,
--   after_seq 41, created_at 1764551698000, disabled_at NULL, disabled_reason NULL,
--   disabled_seq NULL
CREATE TABLE webhook_endpoints (
  endpoint_id BLOB PRIMARY KEY NOT NULL,
  user_id BLOB NOT NULL,
  url TEXT NOT NULL,
  types TEXT NOT NULL,          -- of the events, separated by commas
  secrets_sealed TEXT NOT NULL, -- those that sign, bound to the columns above
  master_key_id TEXT NOT NULL,  -- of MASTER_KEYS, with which they are sealed
  after_seq INTEGER NOT NULL,   -- the last event of the account before the endpoint
  created_at INTEGER NOT NULL,
  disabled_at INTEGER,
  disabled_reason TEXT,
  disabled_seq INTEGER,         -- the first event that was not delivered, if one is known
  CONSTRAINT webhook_endpoints_reason
    CHECK (disabled_reason IN ('gone', 'late', 'full', 'events_gone', 'revoked'))
) STRICT;

-- A user’s endpoints.
CREATE INDEX webhook_endpoints_user ON webhook_endpoints (user_id);
