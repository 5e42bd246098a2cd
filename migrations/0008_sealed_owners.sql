-- Rows of sealed_owners decide what of the archive their owner sees. They only grow.
--
-- The Worker before this migration writes them by an upsert, which the guard refuses: until the new
-- one runs, no seal is stored, and nothing is lost.

-- Has a row only inside the batch of the operator command that writes rows of sealed_owners anew
-- from the archive. Lets that batch past their guards.
--
-- Example row:
--   one 1
CREATE TABLE owner_mends (
  one INTEGER PRIMARY KEY NOT NULL,
  CONSTRAINT owner_mends_one CHECK (one = 1)
) STRICT;

-- Also refuses INSERT OR REPLACE, which deletes without the guard of deletions.
CREATE TRIGGER sealed_owners_insert BEFORE INSERT ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: sealed owner exists')
    WHERE EXISTS (SELECT 1 FROM sealed_owners WHERE owner = NEW.owner);
  SELECT RAISE(ABORT, 'append-only: an owner begins with the newest seal')
    WHERE NOT EXISTS (SELECT 1 FROM journal_seals
      WHERE number = NEW.first_seal AND number = NEW.last_seal
        AND number = (SELECT max(number) FROM journal_seals));
END;

CREATE TRIGGER sealed_owners_update BEFORE UPDATE ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: a sealed owner only grows')
    WHERE NEW.owner <> OLD.owner OR NEW.first_seal <> OLD.first_seal
      OR NEW.last_seal < OLD.last_seal
      OR NEW.last_seal > (SELECT max(number) FROM journal_seals)
      OR (OLD.last_request_at IS NOT NULL
        AND coalesce(NEW.last_request_at < OLD.last_request_at, 1))
      OR (OLD.last_quote_at IS NOT NULL AND coalesce(NEW.last_quote_at < OLD.last_quote_at, 1))
      OR (OLD.last_match_at IS NOT NULL AND coalesce(NEW.last_match_at < OLD.last_match_at, 1));
END;

CREATE TRIGGER sealed_owners_delete BEFORE DELETE ON sealed_owners
WHEN NOT EXISTS (SELECT 1 FROM owner_mends) BEGIN
  SELECT RAISE(ABORT, 'append-only: sealed owner');
END;
