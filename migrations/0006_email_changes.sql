-- A new email address and password that operators have ordered and that wait to take effect, so
-- that the owner can cancel them. Written by src/auth/change-email.ts. Applied by cron, which
-- compares the row with its audit event, so an edited row does nothing. Deleted when it is applied
-- or cancelled.
--
-- Example row:
--   user_id 01a2…c585, audit_event_id 019a…e002, email ann@example.org,
--   password_hash scrypt$13$8$10$c2FsdA$aGFzaA, active_from 1764637600000
CREATE TABLE email_changes (
  user_id BLOB PRIMARY KEY NOT NULL,
  audit_event_id BLOB NOT NULL,  -- of email_change_requested
  email TEXT NOT NULL,
  password_hash TEXT NOT NULL,
  active_from INTEGER NOT NULL   -- the change is applied after it
) STRICT, WITHOUT ROWID;

-- Nobody else takes the address meanwhile.
CREATE UNIQUE INDEX email_changes_email ON email_changes (email);
