-- Accepts the quotes of a commit group, one command after the other.
--
-- Generated from src/rfq/accept-quote.ts. Do not edit: npm run migrations writes it.
CREATE TRIGGER accept_commands_accept BEFORE INSERT ON accept_commands BEGIN
  UPDATE quotes
  SET status = 'accepted', ended_by = NEW.match_id, ended_group = NEW.accepted_group
  WHERE quote_id = NEW.quote_id
    AND EXISTS (
      SELECT 1
      FROM quote_sides s
      CROSS JOIN requests r ON r.request_id = s.request_id
      WHERE s.quote_id = NEW.quote_id
        AND (
          (
            iif(
              NEW.api_key_id IS NULL,
              (
                EXISTS (
                  SELECT 1
                  FROM users
                  WHERE user_id = NEW.requester_id
                    AND frozen_at IS NULL
                    AND session_epoch = NEW.session_epoch
                )
                AND NEW.at < NEW.session_expires_at
              ),
              (
                EXISTS (SELECT 1 FROM users WHERE user_id = NEW.requester_id AND frozen_at IS NULL)
                AND EXISTS (
                  SELECT 1
                  FROM api_keys
                  WHERE api_key_id = NEW.api_key_id
                    AND user_id = NEW.requester_id
                    AND revoked_at IS NULL
                    AND active_from <= NEW.at
                    AND (expires_at IS NULL OR expires_at > NEW.at)
                )
              )
            )
          )
          AND (r.requester_id = NEW.requester_id)
          AND (s.status <> 'accepted')
          AND (NEW.not_after IS NULL OR NEW.at < NEW.not_after)
          AND (NEW.at BETWEEN NEW.received_at - 60000 AND NEW.commit_before)
          AND (s.status NOT IN ('cancelled', 'rejected'))
          AND (r.status NOT IN ('cancelled', 'matched'))
          AND (
            s.status = 'open'
            AND s.expires_at > NEW.at
            AND r.status = 'open'
            AND r.expires_at > NEW.at
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM markets k
              WHERE k.asset = r.asset AND (k.closed_at IS NOT NULL OR k.closes_at <= NEW.at)
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM cancel_timers t
              WHERE t.credential = s.credential AND t.cancel_at <= NEW.at
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM paused_venues p
              WHERE p.venue = substr(r.asset, 1, instr(r.asset, ':') - 1)
            )
          )
          AND (
            NEW.standing IS NULL
            OR EXISTS (
              SELECT 1
              FROM standing_accepts a
              WHERE a.request_id = r.request_id
                AND json_array(
                  hex(a.request_id),
                  hex(r.requester_id),
                  r.asset,
                  r.amount,
                  CAST(r.usdc_amount AS TEXT),
                  a.side,
                  a.price,
                  hex(a.api_key_id),
                  a.session_epoch,
                  a.session_expires_at
                ) = NEW.standing
            )
          )
          AND (
            NEW.api_key_id IS NOT NULL
            OR (
              NOT EXISTS (
                SELECT 1
                FROM (
                  SELECT *
                  FROM account_policies
                  WHERE user_id = NEW.requester_id AND active_from <= NEW.at
                  ORDER BY active_from DESC
                  LIMIT 1
                ) p
                WHERE p.sessions_trade = 0
              )
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM api_keys k
              WHERE k.api_key_id = NEW.api_key_id
                AND k.limits IS NOT NULL
                AND (
                  (
                    k.limits ->> 'venues' IS NOT NULL
                    AND instr(k.limits ->> 'venues', '"' || s.venue || '"') = 0
                  )
                  OR (
                    s.given_amount > (k.limits ->> 'max_usdc_per_trade')
                    OR (
                      k.limits ->> 'max_usdc_per_day' IS NOT NULL
                      AND (
                        SELECT total(u.usdc)
                        FROM (
                          SELECT usdc
                          FROM traded_hours
                          WHERE subject = NEW.api_key_id AND hour > (NEW.at / 3600000) - 24
                          UNION ALL
                          SELECT reserve
                          FROM quotes INDEXED BY quotes_open_maker
                          WHERE maker_id = NEW.requester_id
                            AND status = 'open'
                            AND expires_at > NEW.at
                            AND credential = NEW.api_key_id
                        ) u
                      ) + s.given_amount > (k.limits ->> 'max_usdc_per_day')
                    )
                  )
                )
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM (
                SELECT *
                FROM account_policies
                WHERE user_id = NEW.requester_id AND active_from <= NEW.at
                ORDER BY active_from DESC
                LIMIT 1
              ) p
              WHERE p.max_trade_usdc_per_day IS NOT NULL
                AND (
                  SELECT total(u.usdc)
                  FROM (
                    SELECT usdc
                    FROM traded_hours
                    WHERE subject = NEW.requester_id AND hour > (NEW.at / 3600000) - 24
                    UNION ALL
                    SELECT reserve
                    FROM quotes INDEXED BY quotes_open_maker
                    WHERE maker_id = NEW.requester_id AND status = 'open' AND expires_at > NEW.at
                  ) u
                ) + s.given_amount > p.max_trade_usdc_per_day
            )
          )
          AND (
            EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = NEW.requester_id
                AND a.asset = s.given_asset
                AND a.kind = 'available'
                AND (balance - promised) >= s.given_amount
            )
          )
          AND (
            (
              coalesce(
                (
                  SELECT sum(balance)
                  FROM accounts a
                  WHERE a.owner = s.requester_id
                    AND a.asset = (iif((s.side = 'Bid'), s.asset, 'usdc'))
                ),
                0
              ) <= 4611686018427387904 - (
                iif((s.side = 'Bid'), (CAST(s.amount AS INTEGER)), s.usdc_amount)
              )
            )
            AND (
              coalesce(
                (
                  SELECT sum(balance)
                  FROM accounts a
                  WHERE a.owner = s.maker_id
                    AND a.asset = (
                      iif(
                        ((s.side = 'Ask') = (s.complement IS NULL)),
                        (ifnull(s.complement, s.asset)),
                        'usdc'
                      )
                    )
                ),
                0
              ) <= 4611686018427387904 - (
                iif(
                  ((s.side = 'Ask') = (s.complement IS NULL)),
                  (CAST(s.amount AS INTEGER)),
                  iif(
                    s.complement IS NULL, s.usdc_amount, (CAST(s.amount AS INTEGER)) - s.usdc_amount
                  )
                )
              )
            )
            AND (
              coalesce(
                (
                  SELECT sum(balance)
                  FROM accounts a
                  WHERE a.owner = CAST('fees' AS BLOB) AND a.asset = 'usdc'
                ),
                0
              ) <= 4611686018427387904 - (s.taker_fee + s.maker_fee)
            )
            AND (
              NOT EXISTS (
                SELECT 1
                FROM accounts a
                WHERE a.owner = s.requester_id
                  AND a.asset = s.asset
                  AND a.kind = (iif((s.side = 'Bid'), 'available', 'pending'))
                  AND (
                    a.traded > 4611686018427387904 - (CAST(s.amount AS INTEGER))
                    OR a.traded_usdc > 4611686018427387904 - (
                      max(
                        s.usdc_amount, iif(s.complement IS NULL, 0, CAST(s.amount AS INTEGER))
                      ) + s.taker_fee + s.maker_fee
                    )
                  )
              )
            )
            AND (
              NOT EXISTS (
                SELECT 1
                FROM accounts a
                WHERE a.owner = s.maker_id
                  AND a.asset = (ifnull(s.complement, s.asset))
                  AND a.kind = (
                    iif(((s.side = 'Ask') = (s.complement IS NULL)), 'available', 'pending')
                  )
                  AND (
                    a.traded > 4611686018427387904 - (CAST(s.amount AS INTEGER))
                    OR a.traded_usdc > 4611686018427387904 - (
                      max(
                        s.usdc_amount, iif(s.complement IS NULL, 0, CAST(s.amount AS INTEGER))
                      ) + s.taker_fee + s.maker_fee
                    )
                  )
              )
            )
            AND (
              coalesce(
                (SELECT sum(balance) FROM accounts a WHERE a.owner = s.pair AND a.asset = 'usdc'), 0
              ) <= 4611686018427387904 - (CAST(s.amount AS INTEGER))
            )
          )
        )
    );
  SELECT RAISE(IGNORE)
  WHERE changes() <> 1;
  INSERT INTO matches (
    match_id,
    request_id,
    quote_id,
    requester_id,
    maker_id,
    asset,
    side,
    amount,
    price,
    usdc_amount,
    taker_fee,
    maker_fee,
    at,
    matched_group,
    requester_label,
    maker_label,
    complement
  )
  VALUES (
    NEW.match_id,
    NEW.request_id,
    NEW.quote_id,
    NEW.requester_id,
    NEW.maker_id,
    NEW.asset,
    NEW.side,
    NEW.amount,
    NEW.price,
    NEW.usdc_amount,
    NEW.taker_fee,
    NEW.maker_fee,
    NEW.at,
    NEW.accepted_group,
    (SELECT label FROM requests WHERE request_id = NEW.request_id),
    NEW.maker_label,
    NEW.complement
  );
  UPDATE requests
  SET status = 'matched', ended_by = NEW.match_id, ended_group = NEW.accepted_group
  WHERE request_id = NEW.request_id;
  UPDATE quotes
  SET status = iif(
    expires_at <= NEW.at, 'expired', iif(request_id = NEW.request_id, 'rejected', 'cancelled')
  ),
    cancel_reason = iif(expires_at <= NEW.at OR request_id = NEW.request_id, NULL, 'protection'),
    ended_by = NEW.match_id,
    ended_group = NEW.accepted_group
  WHERE status = 'open'
    AND stuck_at IS NULL
    AND quote_id IN (
      SELECT quote_id
      FROM quotes
      WHERE status = 'open' AND request_id = NEW.request_id
      UNION ALL
      SELECT o.quote_id
      FROM protections p
      JOIN quotes o ON o.maker_id = p.user_id AND o.status = 'open'
      WHERE p.user_id = NEW.maker_id AND p.tripped_by = NEW.match_id AND NEW.cancels_others
    );
  INSERT INTO accounts (owner, asset, kind, balance)
  SELECT DISTINCT s.owner, s.asset, s.kind, 0
  FROM (
    SELECT o.from_owner AS owner, o.asset, 'external' AS kind
    FROM (
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.requester_id AS to_owner,
        iif((NEW.side = 'Bid'), NEW.asset, 'usdc') AS asset,
        iif((NEW.side = 'Bid'), NEW.amount, NEW.usdc_amount) AS amount,
        NEW.match_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
      UNION ALL
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.maker_id AS to_owner,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          (coalesce(NEW.complement, NEW.asset)),
          'usdc'
        ) AS asset,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          NEW.amount,
          (iif(NEW.complement IS NULL, NEW.usdc_amount, NEW.amount - NEW.usdc_amount))
        ) AS amount,
        NEW.quote_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
    ) o
    WHERE o.amount <> 0
    UNION ALL
    SELECT o.to_owner AS owner, o.asset, k.kind
    FROM (
      SELECT NEW.requester_id AS from_owner,
        ifnull((CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)), NEW.maker_id) AS to_owner,
        iif(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) IS NULL, 'available', 'external'
        ) AS to_kind,
        iif((NEW.side = 'Bid'), 'usdc', NEW.asset) AS asset,
        iif((NEW.side = 'Bid'), NEW.usdc_amount, NEW.amount) AS amount,
        NEW.match_id AS ref,
        0 AS line
      UNION ALL
      SELECT NEW.maker_id AS from_owner,
        ifnull(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)), NEW.requester_id
        ) AS to_owner,
        iif(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) IS NULL, 'available', 'external'
        ) AS to_kind,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          'usdc',
          (coalesce(NEW.complement, NEW.asset))
        ) AS asset,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          (iif(NEW.complement IS NULL, NEW.usdc_amount, NEW.amount - NEW.usdc_amount)),
          NEW.amount
        ) AS amount,
        NEW.quote_id AS ref,
        0 AS line
    ) o,
      (SELECT 'available' AS kind UNION ALL SELECT 'pending' UNION ALL SELECT 'external') k
    WHERE o.amount <> 0 AND (k.kind = 'external') = (o.to_kind = 'external')
    UNION ALL
    SELECT o.to_owner AS owner, o.asset, k.kind
    FROM (
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.requester_id AS to_owner,
        iif((NEW.side = 'Bid'), NEW.asset, 'usdc') AS asset,
        iif((NEW.side = 'Bid'), NEW.amount, NEW.usdc_amount) AS amount,
        NEW.match_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
      UNION ALL
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.maker_id AS to_owner,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          (coalesce(NEW.complement, NEW.asset)),
          'usdc'
        ) AS asset,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          NEW.amount,
          (iif(NEW.complement IS NULL, NEW.usdc_amount, NEW.amount - NEW.usdc_amount))
        ) AS amount,
        NEW.quote_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
    ) o,
      (SELECT 'available' AS kind UNION ALL SELECT 'pending') k
    WHERE o.amount <> 0
    UNION ALL
    SELECT o.to_owner AS owner, o.asset, k.kind
    FROM (
      SELECT NEW.requester_id AS from_owner,
        CAST('fees' AS BLOB) AS to_owner,
        iif((NEW.side = 'Bid'), 'pending', 'available') AS from_kind,
        'usdc' AS asset,
        NEW.taker_fee AS amount,
        NEW.match_id AS ref,
        (NEW.side = 'Ask') AS line
      UNION ALL
      SELECT NEW.maker_id AS from_owner,
        CAST('fees' AS BLOB) AS to_owner,
        iif(((NEW.side = 'Ask') = (NEW.complement IS NULL)), 'pending', 'available') AS from_kind,
        'usdc' AS asset,
        NEW.maker_fee AS amount,
        NEW.match_id AS ref,
        (NEW.side = 'Bid') AS line
    ) o,
      (SELECT 'fees' AS kind) k
    WHERE o.amount <> 0
  ) s
  WHERE NOT EXISTS (
    SELECT 1
    FROM accounts a
    WHERE a.owner = s.owner AND a.asset = s.asset AND a.kind = s.kind
  );
  INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
  SELECT f.account_id, t.account_id, s.amount, s.reason, s.ref, s.step, s.line, NEW.at
  FROM (
    SELECT 0 AS posting,
      4 AS reason,
      1 AS step,
      'available' AS from_kind,
      'pending' AS to_kind,
      o.from_owner,
      o.to_owner,
      o.asset,
      o.amount,
      o.ref,
      o.line
    FROM (
      SELECT NEW.requester_id AS from_owner,
        NEW.requester_id AS to_owner,
        (iif(NEW.side = 'Bid', 'usdc', NEW.asset)) AS asset,
        (iif(NEW.side = 'Bid', NEW.usdc_amount + NEW.taker_fee, NEW.amount)) AS amount,
        NEW.match_id AS ref,
        0 AS line
    ) o
    UNION ALL
    SELECT 1 AS posting,
      3 AS reason,
      1 AS step,
      'available' AS from_kind,
      'pending' AS to_kind,
      o.from_owner,
      o.to_owner,
      o.asset,
      o.amount,
      o.ref,
      o.line
    FROM (
      SELECT NEW.maker_id AS from_owner,
        NEW.maker_id AS to_owner,
        NEW.reserve_asset AS asset,
        NEW.reserve AS amount,
        NEW.quote_id AS ref,
        0 AS line
    ) o
    UNION ALL
    SELECT 2 AS posting,
      6 AS reason,
      2 AS step,
      'pending' AS from_kind,
      o.to_kind AS to_kind,
      o.from_owner,
      o.to_owner,
      o.asset,
      o.amount,
      o.ref,
      o.line
    FROM (
      SELECT NEW.requester_id AS from_owner,
        ifnull((CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)), NEW.maker_id) AS to_owner,
        iif(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) IS NULL, 'available', 'external'
        ) AS to_kind,
        iif((NEW.side = 'Bid'), 'usdc', NEW.asset) AS asset,
        iif((NEW.side = 'Bid'), NEW.usdc_amount, NEW.amount) AS amount,
        NEW.match_id AS ref,
        0 AS line
      UNION ALL
      SELECT NEW.maker_id AS from_owner,
        ifnull(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)), NEW.requester_id
        ) AS to_owner,
        iif(
          (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) IS NULL, 'available', 'external'
        ) AS to_kind,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          'usdc',
          (coalesce(NEW.complement, NEW.asset))
        ) AS asset,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          (iif(NEW.complement IS NULL, NEW.usdc_amount, NEW.amount - NEW.usdc_amount)),
          NEW.amount
        ) AS amount,
        NEW.quote_id AS ref,
        0 AS line
    ) o
    UNION ALL
    SELECT 3 AS posting,
      6 AS reason,
      4 AS step,
      'external' AS from_kind,
      'available' AS to_kind,
      o.from_owner,
      o.to_owner,
      o.asset,
      o.amount,
      o.ref,
      o.line
    FROM (
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.requester_id AS to_owner,
        iif((NEW.side = 'Bid'), NEW.asset, 'usdc') AS asset,
        iif((NEW.side = 'Bid'), NEW.amount, NEW.usdc_amount) AS amount,
        NEW.match_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
      UNION ALL
      SELECT (CAST('pair:' || min(NEW.asset, NEW.complement) AS BLOB)) AS from_owner,
        NEW.maker_id AS to_owner,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          (coalesce(NEW.complement, NEW.asset)),
          'usdc'
        ) AS asset,
        iif(
          ((NEW.side = 'Ask') = (NEW.complement IS NULL)),
          NEW.amount,
          (iif(NEW.complement IS NULL, NEW.usdc_amount, NEW.amount - NEW.usdc_amount))
        ) AS amount,
        NEW.quote_id AS ref,
        0 AS line
      WHERE NEW.complement IS NOT NULL
    ) o
    UNION ALL
    SELECT 4 AS posting,
      7 AS reason,
      3 AS step,
      o.from_kind AS from_kind,
      'fees' AS to_kind,
      o.from_owner,
      o.to_owner,
      o.asset,
      o.amount,
      o.ref,
      o.line
    FROM (
      SELECT NEW.requester_id AS from_owner,
        CAST('fees' AS BLOB) AS to_owner,
        iif((NEW.side = 'Bid'), 'pending', 'available') AS from_kind,
        'usdc' AS asset,
        NEW.taker_fee AS amount,
        NEW.match_id AS ref,
        (NEW.side = 'Ask') AS line
      UNION ALL
      SELECT NEW.maker_id AS from_owner,
        CAST('fees' AS BLOB) AS to_owner,
        iif(((NEW.side = 'Ask') = (NEW.complement IS NULL)), 'pending', 'available') AS from_kind,
        'usdc' AS asset,
        NEW.maker_fee AS amount,
        NEW.match_id AS ref,
        (NEW.side = 'Bid') AS line
    ) o
  ) s
  LEFT JOIN accounts f ON f.owner = s.from_owner AND f.asset = s.asset AND f.kind = s.from_kind
  LEFT JOIN accounts t ON t.owner = s.to_owner AND t.asset = s.asset AND t.kind = s.to_kind
  WHERE s.amount <> 0
  ORDER BY s.posting, s.ref, s.line;
  INSERT INTO traded_hours (subject, hour, usdc)
  SELECT s.subject, (NEW.at / 3600000), s.usdc
  FROM (
    SELECT NEW.maker_id AS subject, NEW.reserve AS usdc
    UNION ALL
    SELECT NEW.credential, NEW.reserve
    WHERE (
      EXISTS (
        SELECT 1
        FROM api_keys k
        WHERE k.api_key_id = NEW.credential AND k.limits ->> 'max_usdc_per_day' IS NOT NULL
      )
    )
    UNION ALL
    SELECT NEW.requester_id, (iif(NEW.side = 'Bid', NEW.usdc_amount + NEW.taker_fee, NEW.amount))
    UNION ALL
    SELECT NEW.api_key_id, (iif(NEW.side = 'Bid', NEW.usdc_amount + NEW.taker_fee, NEW.amount))
    WHERE (
      EXISTS (
        SELECT 1
        FROM api_keys k
        WHERE k.api_key_id = NEW.api_key_id AND k.limits ->> 'max_usdc_per_day' IS NOT NULL
      )
    )
  ) s
  WHERE true
  ON CONFLICT (subject, hour) DO UPDATE SET usdc = min(usdc + excluded.usdc, 4611686018427387904);
  SELECT RAISE(IGNORE);
END;
