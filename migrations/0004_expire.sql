-- Ends what is due before the operations of a commit group, as src/rfq/expire.ts explains.
--
-- Generated from that file. Do not edit: change the file, and write this one again with
--   npm run test -- --project node test/rfq/expire.node.test.ts -u
CREATE TRIGGER expiry_commands_expire BEFORE INSERT ON expiry_commands BEGIN
  SELECT RAISE(IGNORE)
  WHERE NOT EXISTS (
    SELECT quote_id
    FROM quotes
    WHERE status = 'open' AND stuck_at IS NULL AND asset = NEW.asset AND expires_at <= NEW.at
    LIMIT 200
  )
    AND NOT EXISTS (
      SELECT q.quote_id
      FROM json_each(NEW.user_ids) u
      JOIN quotes q ON q.maker_id = unhex(u.value, '-')
        AND q.status = 'open'
        AND q.stuck_at IS NULL
        AND q.expires_at <= NEW.at
      LIMIT 200
    )
    AND NOT EXISTS (
      SELECT r.request_id
      FROM requests r
      WHERE r.status = 'open'
        AND r.stuck_at IS NULL
        AND r.asset = NEW.asset
        AND r.expires_at <= NEW.at
    );
  UPDATE quotes
  SET status = 'expired', ended_by = NEW.operation, ended_group = NEW.expired_group
  WHERE quote_id IN (
    SELECT quote_id
    FROM (
      SELECT quote_id
      FROM quotes
      WHERE status = 'open' AND stuck_at IS NULL AND asset = NEW.asset AND expires_at <= NEW.at
      LIMIT 200
    )
    UNION
    SELECT quote_id
    FROM (
      SELECT q.quote_id
      FROM json_each(NEW.user_ids) u
      JOIN quotes q ON q.maker_id = unhex(u.value, '-')
        AND q.status = 'open'
        AND q.stuck_at IS NULL
        AND q.expires_at <= NEW.at
      LIMIT 200
    )
  )
    AND status = 'open'
    AND expires_at <= NEW.at;
  UPDATE requests
  SET status = 'expired', ended_by = NEW.operation, ended_group = NEW.expired_group
  WHERE request_id IN (
    SELECT r.request_id
    FROM requests r
    WHERE r.status = 'open'
      AND r.stuck_at IS NULL
      AND r.asset = NEW.asset
      AND r.expires_at <= NEW.at
      AND NOT EXISTS (
        SELECT 1
        FROM quotes q
        WHERE q.request_id = r.request_id AND q.status = 'open' AND q.stuck_at IS NULL
      )
    LIMIT 200
  )
    AND status = 'open'
    AND expires_at <= NEW.at;
  INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
  SELECT f.account_id, t.account_id, s.amount, 5, s.ref, 2, s.line, NEW.at
  FROM (
    SELECT q.maker_id AS from_owner,
      q.maker_id AS to_owner,
      q.reserve_asset AS asset,
      q.reserve AS amount,
      q.quote_id AS ref,
      0 AS line
    FROM quotes q
    WHERE q.ended_group = NEW.expired_group
      AND q.ended_by = NEW.operation
      AND q.status IN ('cancelled', 'expired', 'rejected')
  ) s
  LEFT JOIN accounts f ON f.owner = s.from_owner AND f.asset = s.asset AND f.kind = 'pending'
  LEFT JOIN accounts t ON t.owner = s.to_owner AND t.asset = s.asset AND t.kind = 'available'
  WHERE s.amount <> 0
  ORDER BY s.ref, s.line;
  SELECT RAISE(IGNORE);
END;
