-- Address book entries that SQL cannot write.

-- The MAC over user, chain, address and active_from (src/ledger/withdrawal-mac.ts). NULL: an entry
-- of version 0.1, which no longer counts. Example: mac ’a1.q83vEjRWeJASNFZ4’
ALTER TABLE withdrawal_addresses ADD COLUMN mac TEXT;
