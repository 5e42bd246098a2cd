-- Telling owners that a key which needed no operator gets its scopes (src/auth/notice-keys.ts).
CREATE INDEX api_keys_delayed ON api_keys (active_from)
WHERE active_from > created_at AND approved_at IS NULL AND minted_by = 'session'
  AND revoked_at IS NULL;
