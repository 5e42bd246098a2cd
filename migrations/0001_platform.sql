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
--   Time        Unix milliseconds, by D1’s clock as the commit group read it, unless noted.
--   Amounts     INTEGER native units (6 decimals) where they move money, never above 2^62.
--               Decimal TEXT where a caller or a chain may state any 256-bit number.
--   Assets      ’usdc’, or ’<venue>:<asset_id>’ such as ’venue_one:0x1’.
--   …_group     The number of a commit group (commit_groups.seq) that changed the row in this way.
--   ended_by    The id of the operation that ended the row. Statements of one batch find the rows
--               of their own operation by it, never by status.
--
-- Guards are triggers that keep history from being rewritten, by the service’s own code too. An
-- append-only table has up to three. `_insert` rejects a row whose key exists, because INSERT OR
-- REPLACE removes the earlier row without firing BEFORE DELETE. `_update` and `_delete` reject the
-- statement itself. Errors that begin with ’append-only’ roll back the whole batch.
--
-- src/*/tables.ts describes the same tables for TypeScript. A test compares the two.

-- One row per D1 batch that changes records: the batch’s fence, its clock and its number. Written
-- by src/platform/commit.ts as the first statement of the batch. Cron deletes rows older than an
-- hour, but never the newest one, because it keeps the clock from going back.
--
-- Example row:
--   seq 91, group_id 019a…5c01, at 1764551353797, voided 0
CREATE TABLE commit_groups (
  seq INTEGER PRIMARY KEY NOT NULL,  -- stamped on rows as …_group
  group_id BLOB NOT NULL,            -- made by the writer before the batch
  at INTEGER NOT NULL,               -- the instant of everything in the batch, never below the
                                     -- previous row’s
  voided INTEGER NOT NULL,           -- 1: claimed by a writer that lost D1’s response, so the batch
                                     -- cannot commit
  CONSTRAINT commit_groups_voided CHECK (voided IN (0, 1))
) STRICT;

-- The fence: a late batch fails here if its id was voided. Also every look-up of a batch’s own
-- group.
CREATE UNIQUE INDEX commit_groups_group_id_unique ON commit_groups (group_id);

-- Switches that stop something while their row exists. Operator commands and safety checks write
-- and delete them. Guards of withdrawals, requests and quotes read them.
--
-- Example row:
--   name ’withdrawals_paused’, reason ’operator:ann’, since 1764551100000
CREATE TABLE kill_switches (
  name TEXT PRIMARY KEY NOT NULL,  -- ’withdrawals_paused’ or ’storage_full’
  reason TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- What a user has used today of a daily limit. Written in the batch of the command that is counted,
-- whose guard reads it (src/platform/daily-limit.ts). Deleted on the next day.
--
-- Example row:
--   day 20423, user_id 01a2…c585, kind ’requests’, count 17
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

-- What GET /status and GET /metrics show of levels and ages, in one row, so that neither counts
-- anything. Cron writes it once a minute (src/operator/measure.ts).
--
-- Example row:
--   id 1, at 1764551200000, body ’{…}’
CREATE TABLE service_levels (
  id INTEGER PRIMARY KEY NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  CONSTRAINT service_levels_id CHECK (id = 1)
) STRICT;

-- What an operator must look at. Written where the problem is seen, together with one log line at
-- error level. An alert of one kind and subject is raised again only after it was resolved. Rows
-- stay.
--
-- Example row:
--   alert_id 3, kind ’payer_halted’, subject ’polygon’, detail ’the vault expects batch 8, this
--   database would send 5’, at 1764551200000, resolved_at NULL
CREATE TABLE alerts (
  alert_id INTEGER PRIMARY KEY NOT NULL,
  kind TEXT NOT NULL,     -- of src/platform/alert-kinds.ts
  subject TEXT NOT NULL,  -- what it is about: a chain, a withdrawal, a difference
  detail TEXT NOT NULL,   -- for people, of a reconciliation, the difference as JSON
  at INTEGER NOT NULL,
  resolved_at INTEGER     -- NULL: open
) STRICT;

-- Raising an alert once, clearing it, and listing the open differences.
CREATE INDEX alerts_open ON alerts (kind, subject) WHERE resolved_at IS NULL;

-- Whichever statement raises an alert.
CREATE TRIGGER alerts_raised AFTER INSERT ON alerts BEGIN
  INSERT INTO alert_events (alert_id, resolved) VALUES (NEW.alert_id, 0);
END;

-- Whichever statement resolves it.
CREATE TRIGGER alerts_resolved AFTER UPDATE OF resolved_at ON alerts
WHEN OLD.resolved_at IS NULL AND NEW.resolved_at IS NOT NULL BEGIN
  INSERT INTO alert_events (alert_id, resolved) VALUES (NEW.alert_id, 1);
END;

-- The order in which alerts were raised and resolved, for ALERT_URL. Written by the triggers of
-- alerts. Rows stay.
--
-- Example row:
--   event_id 5, alert_id 3, resolved 0
CREATE TABLE alert_events (
  event_id INTEGER PRIMARY KEY NOT NULL,
  alert_id INTEGER NOT NULL,
  resolved INTEGER NOT NULL,
  CONSTRAINT alert_events_resolved CHECK (resolved IN (0, 1))
) STRICT;

-- How far a receiver has accepted a log of the database. Written by src/outbound/deliver-log.ts.
--
-- Example row:
--   name ’notices’, position 8123, failing_since NULL
CREATE TABLE delivery_cursors (
  name TEXT PRIMARY KEY NOT NULL,
  position INTEGER NOT NULL,  -- of the last one accepted: an audit_seq, an event_id
  failing_since INTEGER,      -- the first attempt that failed since then
  CONSTRAINT delivery_cursors_name CHECK (name IN ('alerts', 'notices'))
) STRICT;
