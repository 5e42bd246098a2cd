-- Ends what is due before the operations of a commit group.
--
-- Generated from src/rfq/expire.ts. Do not edit: npm run migrations writes it.
CREATE TRIGGER expiry_commands_expire BEFORE INSERT ON expiry_commands BEGIN
  SELECT RAISE(IGNORE)
  WHERE NOT EXISTS (
    SELECT q.quote_id
    FROM json_each(NEW.quote_ids) n
    JOIN quotes q ON q.quote_id = unhex(n.value, '-')
      AND q.status = 'open'
      AND q.stuck_at IS NULL
      AND q.expires_at <= NEW.at
    UNION ALL
    SELECT q.quote_id
    FROM requests r
    CROSS JOIN quotes q INDEXED BY quotes_request_status ON q.request_id = r.request_id
      AND q.status = 'open'
      AND q.stuck_at IS NULL
    WHERE r.asset = NEW.asset
      AND r.status = 'open'
      AND q.expires_at <= NEW.at
      AND NEW.quote_ids IS NULL
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
      SELECT q.quote_id
      FROM json_each(NEW.quote_ids) n
      JOIN quotes q ON q.quote_id = unhex(n.value, '-')
        AND q.status = 'open'
        AND q.stuck_at IS NULL
        AND q.expires_at <= NEW.at
      UNION ALL
      SELECT q.quote_id
      FROM requests r
      CROSS JOIN quotes q INDEXED BY quotes_request_status ON q.request_id = r.request_id
        AND q.status = 'open'
        AND q.stuck_at IS NULL
      WHERE r.asset = NEW.asset
        AND r.status = 'open'
        AND q.expires_at <= NEW.at
        AND NEW.quote_ids IS NULL
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
  SELECT RAISE(IGNORE);
END;
