-- Orphaned deposits are deleted after a week, because an endpoint can invent any number of them. No
-- other deposit is ever deleted.

-- Orphaned deposits of a chain, the oldest first.
CREATE INDEX deposits_orphaned ON deposits (chain, detected_at) WHERE status = 'orphaned';

DROP TRIGGER deposits_delete;

CREATE TRIGGER deposits_delete BEFORE DELETE ON deposits WHEN OLD.status <> 'orphaned' BEGIN
  SELECT RAISE(ABORT, 'append-only: deposit');
END;
