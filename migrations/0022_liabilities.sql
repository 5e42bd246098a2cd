-- The proofs of liabilities, one a UTC day. Written by src/reconcile/liabilities/. Until it is
-- published, a row says how far its trees are built. Rows stay.
--
-- Example row:
--   day 20423, up_to_transfer 15, accounts 12, slice_accounts 100000, key_id ’a1’, slices 1,
--   published_at 1764547260000
CREATE TABLE liability_proofs (
  day INTEGER PRIMARY KEY NOT NULL,  -- since 1970, UTC
  up_to_transfer INTEGER NOT NULL,   -- proves the balances that this transfer left
  accounts INTEGER NOT NULL,         -- the highest account_id then
  slice_accounts INTEGER NOT NULL,   -- account ids of one slice
  key_id TEXT NOT NULL,              -- of AUDIT_KEYS, from which the salts are derived
  slices INTEGER NOT NULL,           -- that are stored
  published_at INTEGER               -- NULL: not yet
) STRICT;
