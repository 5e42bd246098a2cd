-- A replacement of the authenticator waits like its removal: the old secret counts until next_from,
-- the new one from then on, by the clock. Written by src/auth/enrol-totp.ts.

-- Of a confirmed secret: its replacement, sealed as secret_sealed. NULL: there was none.
-- Example: next_sealed NULL
ALTER TABLE totp_secrets ADD COLUMN next_sealed TEXT;

-- The key of MASTER_KEYS that sealed it.
-- Example: next_master_key_id NULL
ALTER TABLE totp_secrets ADD COLUMN next_master_key_id TEXT;

-- Example: next_from NULL
ALTER TABLE totp_secrets ADD COLUMN next_from INTEGER;

-- Of a pending secret: 1 if a recovery code was used, so that it replaces an earlier one at once.
-- Example: recovered NULL
ALTER TABLE totp_secrets ADD COLUMN recovered INTEGER;

-- The codes of a replacement, too. NULL: valid since the code was made.
-- Example: active_from NULL
ALTER TABLE recovery_codes ADD COLUMN active_from INTEGER;

-- NULL: no replacement ends the code.
-- Example: ends_at NULL
ALTER TABLE recovery_codes ADD COLUMN ends_at INTEGER;
