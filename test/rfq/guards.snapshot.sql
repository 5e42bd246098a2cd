-- Open a request, with an idempotency key
INSERT INTO requests (
  request_id,
  requester_id,
  asset,
  amount,
  usdc_amount,
  side,
  disclosed,
  status,
  opened_at,
  expires_at,
  opened_group,
  label,
  key_hash,
  terms_hash
)
SELECT unhex(?1,'-'),
  unhex(?2,'-'),
  ?3,
  ?4,
  CAST(?5 AS INTEGER),
  ?6,
  ?7,
  'open',
  (SELECT at FROM commit_groups WHERE group_id = unhex(?8,'-')),
  (
    min(
      ((SELECT at FROM commit_groups WHERE group_id = unhex(?9,'-')) + ?10),
      coalesce(
        (SELECT closes_at FROM markets WHERE asset = ?11),
        ((SELECT at FROM commit_groups WHERE group_id = unhex(?12,'-')) + ?13)
      )
    )
  ),
  (SELECT seq FROM commit_groups WHERE group_id = unhex(?14,'-')),
  ?15,
  unhex(?16),
  unhex(?17)
WHERE (
  (
    EXISTS (SELECT 1 FROM users WHERE user_id = unhex(?18,'-') AND frozen_at IS NULL)
    AND EXISTS (
      SELECT 1
      FROM api_keys
      WHERE api_key_id = unhex(?19,'-')
        AND user_id = unhex(?20,'-')
        AND revoked_at IS NULL
        AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?21,'-'))
        AND (
          expires_at IS NULL
          OR expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?22,'-'))
        )
    )
  )
  AND (
    NOT EXISTS (
      SELECT 1
      FROM requests k INDEXED BY requests_key
      WHERE k.key_hash = unhex(?23)
        AND k.request_id > (
          unhex(
            printf(
              '%012x', ((SELECT at FROM commit_groups WHERE group_id = unhex(?24,'-')) - 3720000)
            )
          )
        )
    )
  )
  AND ((SELECT at FROM commit_groups WHERE group_id = unhex(?25,'-')) < ?26)
  AND ((SELECT at FROM commit_groups WHERE group_id = unhex(?27,'-')) BETWEEN ?28 AND ?29)
  AND (
    NOT EXISTS (
      SELECT 1
      FROM markets k
      WHERE k.asset = ?30
        AND (
          k.closed_at IS NOT NULL
          OR k.closes_at <= (SELECT at FROM commit_groups WHERE group_id = unhex(?31,'-'))
        )
    )
  )
  AND (NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ?32))
  AND 1
  AND (NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full'))
  AND (
    (
      SELECT count(*)
      FROM requests
      WHERE requester_id = unhex(?33,'-')
        AND status = 'open'
        AND expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?34,'-'))
    ) < ?35
  )
  AND (
    coalesce(
      (
        SELECT count
        FROM daily_counts
        WHERE day = (
          (SELECT at FROM commit_groups WHERE group_id = unhex(?36,'-')) / CAST(?37 AS INTEGER)
        )
          AND user_id = unhex(?38,'-')
          AND kind = ?39
      ),
      0
    ) < ?40
  )
  AND (
    NOT EXISTS (
      SELECT 1
      FROM api_keys k
      WHERE k.api_key_id = unhex(?41,'-')
        AND k.limits IS NOT NULL
        AND (
          (
            k.limits ->> 'venues' IS NOT NULL
            AND instr(k.limits ->> 'venues', '"' || ?42 || '"') = 0
          )
          OR (0)
        )
    )
  )
  AND (NOT EXISTS (SELECT 1 FROM requests WHERE request_id = unhex(?43,'-')))
)
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "venue_one:0x1"
-- ?4 = "100"
-- ?5 = null
-- ?6 = "Bid"
-- ?7 = 0
-- ?8 = "<id 3>"
-- ?9 = "<id 3>"
-- ?10 = 300000
-- ?11 = "venue_one:0x1"
-- ?12 = "<id 3>"
-- ?13 = 300000
-- ?14 = "<id 3>"
-- ?15 = null
-- ?16 = "57CDE58AB73C3220B5BA1241"
-- ?17 = "A3A6BF43"
-- ?18 = "<id 2>"
-- ?19 = "<id 4>"
-- ?20 = "<id 2>"
-- ?21 = "<id 3>"
-- ?22 = "<id 3>"
-- ?23 = "57CDE58AB73C3220B5BA1241"
-- ?24 = "<id 3>"
-- ?25 = "<id 3>"
-- ?26 = 1764551331000
-- ?27 = "<id 3>"
-- ?28 = 1764551270000
-- ?29 = 1764551361000
-- ?30 = "venue_one:0x1"
-- ?31 = "<id 3>"
-- ?32 = "venue_one"
-- ?33 = "<id 2>"
-- ?34 = "<id 3>"
-- ?35 = 200
-- ?36 = "<id 3>"
-- ?37 = "86400000"
-- ?38 = "<id 2>"
-- ?39 = "requests"
-- ?40 = 10000
-- ?41 = "<id 4>"
-- ?42 = "venue_one"
-- ?43 = "<id 1>"

-- Place a quote: its trigger has the guard (migrations/*_place_quote.sql)
INSERT INTO quote_commands (
  quote_id,
  request_id,
  maker_id,
  api_key_id,
  session_epoch,
  session_expires_at,
  price,
  amount,
  side,
  usdc_amount,
  taker_fee,
  maker_fee,
  reserve_asset,
  reserve,
  received_at,
  life_ms,
  commit_before,
  not_after,
  label,
  replaces,
  max_open_quotes,
  socket_id,
  key_hash,
  terms_hash,
  confirm_price,
  min_priced,
  at,
  placed_group
)
SELECT c.*, g.at, g.seq
FROM commit_groups g
CROSS JOIN (
  WITH
    commands AS MATERIALIZED (
      SELECT key, value, unhex(value ->> 0, '-') AS packed
      FROM json_each(?1)
    )
  SELECT substr(packed, 1, 16) AS quote_id,
    substr(packed, 17, 16) AS request_id,
    substr(packed, 33, 16) AS maker_id,
    substr(packed, 49, 16) AS api_key_id,
    NULL AS session_epoch,
    NULL AS session_expires_at,
    value ->> 1 AS price,
    value ->> 2 AS amount,
    value ->> 3 AS side,
    CAST(value ->> 4 AS INTEGER) AS usdc_amount,
    CAST(value ->> 5 AS INTEGER) AS taker_fee,
    CAST(value ->> 6 AS INTEGER) AS maker_fee,
    value ->> 7 AS reserve_asset,
    CAST(value ->> 8 AS INTEGER) AS reserve,
    value ->> 9 AS received_at,
    value ->> 10 AS life_ms,
    value ->> 11 AS commit_before,
    value ->> 12 AS not_after,
    NULL AS label,
    NULL AS replaces,
    value ->> 13 AS max_open_quotes,
    NULL AS socket_id,
    substr(packed, 65, 12) AS key_hash,
    substr(packed, 77, 4) AS terms_hash,
    NULL AS confirm_price,
    value ->> 14 AS min_priced
  FROM commands
  ORDER BY key
) c
WHERE g.group_id = unhex(?2,'-')
-- ?1 = [
--   ["0196f0c2-0000-7000-8000-0000000000030196f0c2-0000-7000-8000-0000000000020196f0c2-0000-7000-8000-0000000000010196f0c2-0000-7000-8000-000000000004556364527B7EA6DCF4883047A3A6BF43",650000,"100","Bid","65","0","0","venue_one:0x1","100",1764551330000,30000,1764551361000,1764551331000,1000,1]
-- ]
-- ?2 = "<id 1>"

-- Accept a quote
UPDATE quotes
SET status = 'accepted',
  ended_by = unhex(?1,'-'),
  ended_group = (SELECT seq FROM commit_groups WHERE group_id = unhex(?2,'-'))
WHERE quote_id = unhex(?3,'-')
  AND EXISTS (
    SELECT 1
    FROM commit_groups g
    CROSS JOIN quote_sides s
    CROSS JOIN requests r ON r.request_id = s.request_id
    WHERE g.group_id = unhex(?4,'-')
      AND s.quote_id = quotes.quote_id
      AND (
        (
          EXISTS (SELECT 1 FROM users WHERE user_id = unhex(?5,'-') AND frozen_at IS NULL)
          AND EXISTS (
            SELECT 1
            FROM api_keys
            WHERE api_key_id = unhex(?6,'-')
              AND user_id = unhex(?7,'-')
              AND revoked_at IS NULL
              AND active_from <= g.at
              AND (expires_at IS NULL OR expires_at > g.at)
          )
        )
        AND (r.requester_id = unhex(?8,'-'))
        AND (s.status <> 'accepted')
        AND (g.at < ?9)
        AND (g.at BETWEEN ?10 AND ?11)
        AND (s.status NOT IN ('cancelled', 'rejected'))
        AND (r.status NOT IN ('cancelled', 'matched'))
        AND (
          s.status = 'open' AND s.expires_at > g.at AND r.status = 'open' AND r.expires_at > g.at
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM markets k
            WHERE k.asset = r.asset AND (k.closed_at IS NOT NULL OR k.closes_at <= g.at)
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM cancel_timers t
            WHERE t.credential = s.credential AND t.cancel_at <= g.at
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
          NOT EXISTS (
            SELECT 1
            FROM api_keys k
            WHERE k.api_key_id = unhex(?12,'-')
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
                        WHERE subject = unhex(?13,'-') AND hour > (g.at / 3600000) - 24
                        UNION ALL
                        SELECT reserve
                        FROM quotes INDEXED BY quotes_open_maker
                        WHERE maker_id = unhex(?14,'-')
                          AND status = 'open'
                          AND expires_at > g.at
                          AND credential = unhex(?15,'-')
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
              WHERE user_id = unhex(?16,'-') AND active_from <= g.at
              ORDER BY active_from DESC
              LIMIT 1
            ) p
            WHERE p.max_trade_usdc_per_day IS NOT NULL
              AND (
                SELECT total(u.usdc)
                FROM (
                  SELECT usdc
                  FROM traded_hours
                  WHERE subject = unhex(?17,'-') AND hour > (g.at / 3600000) - 24
                  UNION ALL
                  SELECT reserve
                  FROM quotes INDEXED BY quotes_open_maker
                  WHERE maker_id = unhex(?18,'-') AND status = 'open' AND expires_at > g.at
                ) u
              ) + s.given_amount > p.max_trade_usdc_per_day
          )
        )
        AND (
          EXISTS (
            SELECT 1
            FROM accounts a
            WHERE a.owner = unhex(?19,'-')
              AND a.asset = s.given_asset
              AND a.kind = 'available'
              AND (balance - promised) >= s.given_amount
          )
        )
        AND (
          (
            coalesce(
              (SELECT sum(a.balance) FROM accounts a WHERE a.owner = s.seller_id AND a.asset = ?20),
              0
            ) <= CAST(?21 AS INTEGER) - s.usdc_amount
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = s.buyer_id AND a.asset = s.asset
              ),
              0
            ) <= CAST(?22 AS INTEGER) - (CAST(s.amount AS INTEGER))
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = CAST('fees' AS BLOB) AND a.asset = ?23
              ),
              0
            ) <= CAST(?24 AS INTEGER) - (s.taker_fee + s.maker_fee)
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.buyer_id
                AND a.asset = s.asset
                AND a.kind = 'available'
                AND (
                  a.traded > CAST(?25 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?26 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.seller_id
                AND a.asset = s.asset
                AND a.kind = 'pending'
                AND (
                  a.traded > CAST(?27 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?28 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
        )
      )
  )
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "<id 3>"
-- ?4 = "<id 2>"
-- ?5 = "<id 4>"
-- ?6 = "<id 5>"
-- ?7 = "<id 4>"
-- ?8 = "<id 4>"
-- ?9 = 1764551331000
-- ?10 = 1764551270000
-- ?11 = 1764551361000
-- ?12 = "<id 5>"
-- ?13 = "<id 5>"
-- ?14 = "<id 4>"
-- ?15 = "<id 5>"
-- ?16 = "<id 4>"
-- ?17 = "<id 4>"
-- ?18 = "<id 4>"
-- ?19 = "<id 4>"
-- ?20 = "usdc"
-- ?21 = "4611686018427387904"
-- ?22 = "4611686018427387904"
-- ?23 = "usdc"
-- ?24 = "4611686018427387904"
-- ?25 = "4611686018427387904"
-- ?26 = "4611686018427387904"
-- ?27 = "4611686018427387904"
-- ?28 = "4611686018427387904"

-- Accept the best quote at a price
UPDATE quotes
SET status = 'accepted',
  ended_by = unhex(?1,'-'),
  ended_group = (SELECT seq FROM commit_groups WHERE group_id = unhex(?2,'-'))
WHERE quote_id = (
  SELECT quote_id
  FROM (
    SELECT o.quote_id
    FROM quotes o INDEXED BY quotes_request_status
    WHERE o.request_id = unhex(?3,'-')
      AND o.status = 'open'
      AND o.side = 'Bid'
      AND o.side = (SELECT nullif(side, 'TwoWay') FROM requests WHERE request_id = unhex(?4,'-'))
      AND o.stuck_at IS NULL
      AND (o.price <= (?5))
      AND o.expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?6,'-'))
      AND (
        NOT EXISTS (
          SELECT 1
          FROM cancel_timers t
          WHERE t.credential = o.credential
            AND t.cancel_at <= (SELECT at FROM commit_groups WHERE group_id = unhex(?7,'-'))
        )
      )
    ORDER BY o.price, o.opened_at, o.quote_id
    LIMIT 1
  )
  UNION ALL
  SELECT quote_id
  FROM (
    SELECT o.quote_id
    FROM quotes o INDEXED BY quotes_request_status
    WHERE o.request_id = unhex(?8,'-')
      AND o.status = 'open'
      AND o.side = 'Ask'
      AND o.side = (SELECT nullif(side, 'TwoWay') FROM requests WHERE request_id = unhex(?9,'-'))
      AND o.stuck_at IS NULL
      AND (o.price >= (?10))
      AND o.expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?11,'-'))
      AND (
        NOT EXISTS (
          SELECT 1
          FROM cancel_timers t
          WHERE t.credential = o.credential
            AND t.cancel_at <= (SELECT at FROM commit_groups WHERE group_id = unhex(?12,'-'))
        )
      )
    ORDER BY o.price DESC, o.opened_at, o.quote_id
    LIMIT 1
  )
)
  AND EXISTS (
    SELECT 1
    FROM commit_groups g
    CROSS JOIN quote_sides s
    CROSS JOIN requests r ON r.request_id = s.request_id
    WHERE g.group_id = unhex(?13,'-')
      AND s.quote_id = quotes.quote_id
      AND (
        (
          EXISTS (SELECT 1 FROM users WHERE user_id = unhex(?14,'-') AND frozen_at IS NULL)
          AND EXISTS (
            SELECT 1
            FROM api_keys
            WHERE api_key_id = unhex(?15,'-')
              AND user_id = unhex(?16,'-')
              AND revoked_at IS NULL
              AND active_from <= g.at
              AND (expires_at IS NULL OR expires_at > g.at)
          )
        )
        AND (r.requester_id = unhex(?17,'-'))
        AND (r.status <> 'matched')
        AND (g.at < ?18)
        AND (g.at BETWEEN ?19 AND ?20)
        AND (r.status <> 'cancelled')
        AND (r.status = 'open' AND r.expires_at > g.at)
        AND (
          (
            SELECT nullif(side, 'TwoWay')
            FROM requests
            WHERE request_id = unhex(?21,'-')
          ) IS NOT NULL
          AND r.side IN (
            (SELECT nullif(side, 'TwoWay') FROM requests WHERE request_id = unhex(?22,'-')),
            'TwoWay'
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM markets k
            WHERE k.asset = r.asset AND (k.closed_at IS NOT NULL OR k.closes_at <= g.at)
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM paused_venues p
            WHERE p.venue = substr(r.asset, 1, instr(r.asset, ':') - 1)
          )
        )
        AND (s.quote_id IS NOT NULL)
        AND (
          NOT EXISTS (
            SELECT 1
            FROM api_keys k
            WHERE k.api_key_id = unhex(?23,'-')
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
                        WHERE subject = unhex(?24,'-') AND hour > (g.at / 3600000) - 24
                        UNION ALL
                        SELECT reserve
                        FROM quotes INDEXED BY quotes_open_maker
                        WHERE maker_id = unhex(?25,'-')
                          AND status = 'open'
                          AND expires_at > g.at
                          AND credential = unhex(?26,'-')
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
              WHERE user_id = unhex(?27,'-') AND active_from <= g.at
              ORDER BY active_from DESC
              LIMIT 1
            ) p
            WHERE p.max_trade_usdc_per_day IS NOT NULL
              AND (
                SELECT total(u.usdc)
                FROM (
                  SELECT usdc
                  FROM traded_hours
                  WHERE subject = unhex(?28,'-') AND hour > (g.at / 3600000) - 24
                  UNION ALL
                  SELECT reserve
                  FROM quotes INDEXED BY quotes_open_maker
                  WHERE maker_id = unhex(?29,'-') AND status = 'open' AND expires_at > g.at
                ) u
              ) + s.given_amount > p.max_trade_usdc_per_day
          )
        )
        AND (
          EXISTS (
            SELECT 1
            FROM accounts a
            WHERE a.owner = unhex(?30,'-')
              AND a.asset = s.given_asset
              AND a.kind = 'available'
              AND (balance - promised) >= s.given_amount
          )
        )
        AND (
          (
            coalesce(
              (SELECT sum(a.balance) FROM accounts a WHERE a.owner = s.seller_id AND a.asset = ?31),
              0
            ) <= CAST(?32 AS INTEGER) - s.usdc_amount
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = s.buyer_id AND a.asset = s.asset
              ),
              0
            ) <= CAST(?33 AS INTEGER) - (CAST(s.amount AS INTEGER))
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = CAST('fees' AS BLOB) AND a.asset = ?34
              ),
              0
            ) <= CAST(?35 AS INTEGER) - (s.taker_fee + s.maker_fee)
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.buyer_id
                AND a.asset = s.asset
                AND a.kind = 'available'
                AND (
                  a.traded > CAST(?36 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?37 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.seller_id
                AND a.asset = s.asset
                AND a.kind = 'pending'
                AND (
                  a.traded > CAST(?38 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?39 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
        )
      )
  )
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "<id 3>"
-- ?4 = "<id 3>"
-- ?5 = 650000
-- ?6 = "<id 2>"
-- ?7 = "<id 2>"
-- ?8 = "<id 3>"
-- ?9 = "<id 3>"
-- ?10 = 650000
-- ?11 = "<id 2>"
-- ?12 = "<id 2>"
-- ?13 = "<id 2>"
-- ?14 = "<id 4>"
-- ?15 = "<id 5>"
-- ?16 = "<id 4>"
-- ?17 = "<id 4>"
-- ?18 = 1764551331000
-- ?19 = 1764551270000
-- ?20 = 1764551361000
-- ?21 = "<id 3>"
-- ?22 = "<id 3>"
-- ?23 = "<id 5>"
-- ?24 = "<id 5>"
-- ?25 = "<id 4>"
-- ?26 = "<id 5>"
-- ?27 = "<id 4>"
-- ?28 = "<id 4>"
-- ?29 = "<id 4>"
-- ?30 = "<id 4>"
-- ?31 = "usdc"
-- ?32 = "4611686018427387904"
-- ?33 = "4611686018427387904"
-- ?34 = "usdc"
-- ?35 = "4611686018427387904"
-- ?36 = "4611686018427387904"
-- ?37 = "4611686018427387904"
-- ?38 = "4611686018427387904"
-- ?39 = "4611686018427387904"

-- Accept a quote, by a session
UPDATE quotes
SET status = 'accepted',
  ended_by = unhex(?1,'-'),
  ended_group = (SELECT seq FROM commit_groups WHERE group_id = unhex(?2,'-'))
WHERE quote_id = unhex(?3,'-')
  AND EXISTS (
    SELECT 1
    FROM commit_groups g
    CROSS JOIN quote_sides s
    CROSS JOIN requests r ON r.request_id = s.request_id
    WHERE g.group_id = unhex(?4,'-')
      AND s.quote_id = quotes.quote_id
      AND (
        (
          (
            EXISTS (
              SELECT 1
              FROM users
              WHERE user_id = unhex(?5,'-') AND frozen_at IS NULL AND session_epoch = ?6
            )
            AND g.at < ?7
          )
        )
        AND (r.requester_id = unhex(?8,'-'))
        AND (s.status <> 'accepted')
        AND (g.at < ?9)
        AND (g.at BETWEEN ?10 AND ?11)
        AND (s.status NOT IN ('cancelled', 'rejected'))
        AND (r.status NOT IN ('cancelled', 'matched'))
        AND (
          s.status = 'open' AND s.expires_at > g.at AND r.status = 'open' AND r.expires_at > g.at
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM markets k
            WHERE k.asset = r.asset AND (k.closed_at IS NOT NULL OR k.closes_at <= g.at)
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM cancel_timers t
            WHERE t.credential = s.credential AND t.cancel_at <= g.at
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
          NULL IS NOT NULL
          OR (
            NOT EXISTS (
              SELECT 1
              FROM (
                SELECT *
                FROM account_policies
                WHERE user_id = unhex(?12,'-') AND active_from <= g.at
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
            FROM (
              SELECT *
              FROM account_policies
              WHERE user_id = unhex(?13,'-') AND active_from <= g.at
              ORDER BY active_from DESC
              LIMIT 1
            ) p
            WHERE p.max_trade_usdc_per_day IS NOT NULL
              AND (
                SELECT total(u.usdc)
                FROM (
                  SELECT usdc
                  FROM traded_hours
                  WHERE subject = unhex(?14,'-') AND hour > (g.at / 3600000) - 24
                  UNION ALL
                  SELECT reserve
                  FROM quotes INDEXED BY quotes_open_maker
                  WHERE maker_id = unhex(?15,'-') AND status = 'open' AND expires_at > g.at
                ) u
              ) + s.given_amount > p.max_trade_usdc_per_day
          )
        )
        AND (
          EXISTS (
            SELECT 1
            FROM accounts a
            WHERE a.owner = unhex(?16,'-')
              AND a.asset = s.given_asset
              AND a.kind = 'available'
              AND (balance - promised) >= s.given_amount
          )
        )
        AND (
          (
            coalesce(
              (SELECT sum(a.balance) FROM accounts a WHERE a.owner = s.seller_id AND a.asset = ?17),
              0
            ) <= CAST(?18 AS INTEGER) - s.usdc_amount
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = s.buyer_id AND a.asset = s.asset
              ),
              0
            ) <= CAST(?19 AS INTEGER) - (CAST(s.amount AS INTEGER))
          )
          AND (
            coalesce(
              (
                SELECT sum(a.balance)
                FROM accounts a
                WHERE a.owner = CAST('fees' AS BLOB) AND a.asset = ?20
              ),
              0
            ) <= CAST(?21 AS INTEGER) - (s.taker_fee + s.maker_fee)
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.buyer_id
                AND a.asset = s.asset
                AND a.kind = 'available'
                AND (
                  a.traded > CAST(?22 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?23 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
          AND (
            NOT EXISTS (
              SELECT 1
              FROM accounts a
              WHERE a.owner = s.seller_id
                AND a.asset = s.asset
                AND a.kind = 'pending'
                AND (
                  a.traded > CAST(?24 AS INTEGER) - (CAST(s.amount AS INTEGER))
                  OR a.traded_usdc > CAST(?25 AS INTEGER) - (
                    s.usdc_amount + s.taker_fee + s.maker_fee
                  )
                )
            )
          )
        )
      )
  )
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "<id 3>"
-- ?4 = "<id 2>"
-- ?5 = "<id 4>"
-- ?6 = 0
-- ?7 = 1800000000000
-- ?8 = "<id 4>"
-- ?9 = 1764551331000
-- ?10 = 1764551270000
-- ?11 = 1764551361000
-- ?12 = "<id 4>"
-- ?13 = "<id 4>"
-- ?14 = "<id 4>"
-- ?15 = "<id 4>"
-- ?16 = "<id 4>"
-- ?17 = "usdc"
-- ?18 = "4611686018427387904"
-- ?19 = "4611686018427387904"
-- ?20 = "usdc"
-- ?21 = "4611686018427387904"
-- ?22 = "4611686018427387904"
-- ?23 = "4611686018427387904"
-- ?24 = "4611686018427387904"
-- ?25 = "4611686018427387904"

-- Cancel a quote
UPDATE quotes
SET status = 'cancelled', ended_by = c.operation_id, ended_group = g.seq
FROM commit_groups g,
  (
    WITH
      commands AS MATERIALIZED (
        SELECT key, value, unhex(value ->> 0, '-') AS packed
        FROM json_each(?1)
      )
    SELECT substr(packed, 1, 16) AS operation_id,
      substr(packed, 17, 16) AS quote_id,
      substr(packed, 33, 16) AS user_id,
      substr(packed, 49, 16) AS api_key_id,
      NULL AS session_epoch,
      NULL AS session_expires_at
    FROM commands
    ORDER BY key
  ) c
WHERE g.group_id = unhex(?2,'-')
  AND quotes.quote_id = c.quote_id
  AND (
    (
      iif(
        c.api_key_id IS NULL,
        (
          EXISTS (
            SELECT 1
            FROM users
            WHERE user_id = c.user_id AND frozen_at IS NULL AND session_epoch = c.session_epoch
          )
          AND g.at < c.session_expires_at
        ),
        (
          EXISTS (SELECT 1 FROM users WHERE user_id = c.user_id AND frozen_at IS NULL)
          AND EXISTS (
            SELECT 1
            FROM api_keys
            WHERE api_key_id = c.api_key_id
              AND user_id = c.user_id
              AND revoked_at IS NULL
              AND active_from <= g.at
              AND (expires_at IS NULL OR expires_at > g.at)
          )
        )
      )
    )
    AND (quotes.maker_id = c.user_id)
    AND (quotes.status <> 'cancelled')
    AND (quotes.status = 'open' AND quotes.expires_at > g.at)
  )
-- ?1 = [
--   ["0196f0c2-0000-7000-8000-0000000000030196f0c2-0000-7000-8000-0000000000020196f0c2-0000-7000-8000-0000000000010196f0c2-0000-7000-8000-000000000004"]
-- ]
-- ?2 = "<id 1>"

-- Cancel a request
UPDATE requests
SET status = 'cancelled',
  ended_by = unhex(?1,'-'),
  ended_group = (SELECT seq FROM commit_groups WHERE group_id = unhex(?2,'-'))
WHERE request_id = unhex(?3,'-')
  AND (
    (
      EXISTS (SELECT 1 FROM users WHERE user_id = unhex(?4,'-') AND frozen_at IS NULL)
      AND EXISTS (
        SELECT 1
        FROM api_keys
        WHERE api_key_id = unhex(?5,'-')
          AND user_id = unhex(?6,'-')
          AND revoked_at IS NULL
          AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?7,'-'))
          AND (
            expires_at IS NULL
            OR expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?8,'-'))
          )
      )
    )
    AND (requests.requester_id = unhex(?9,'-'))
    AND (requests.status <> 'cancelled')
    AND (requests.status <> 'matched')
    AND (
      requests.status = 'open'
      AND requests.expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?10,'-'))
    )
  )
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "<id 3>"
-- ?4 = "<id 4>"
-- ?5 = "<id 5>"
-- ?6 = "<id 4>"
-- ?7 = "<id 2>"
-- ?8 = "<id 2>"
-- ?9 = "<id 4>"
-- ?10 = "<id 2>"

-- Queue a withdrawal
INSERT INTO withdrawals (
  withdrawal_id,
  job_id,
  user_id,
  client_withdrawal_id,
  payment_id,
  chain,
  asset,
  amount,
  to_address,
  status,
  approval_expires_at,
  created_at,
  updated_at,
  queued_group,
  changed_group,
  terms_mac
)
SELECT unhex(?1,'-'),
  unhex(?2,'-'),
  unhex(?3,'-'),
  ?4,
  unhex(?5),
  ?6,
  ?7,
  CAST(?8 AS INTEGER),
  unhex(?9),
  iif(p.waits, 'awaiting_approval', 'queued'),
  iif(p.waits, (SELECT at FROM commit_groups WHERE group_id = unhex(?10,'-')) + ?11, NULL),
  (SELECT at FROM commit_groups WHERE group_id = unhex(?12,'-')),
  (SELECT at FROM commit_groups WHERE group_id = unhex(?13,'-')),
  (SELECT seq FROM commit_groups WHERE group_id = unhex(?14,'-')),
  (SELECT seq FROM commit_groups WHERE group_id = unhex(?15,'-')),
  iif(p.waits, ?16, ?17)
FROM (
  SELECT (
    EXISTS (
      SELECT 1
      FROM (
        SELECT *
        FROM account_policies
        WHERE user_id = unhex(?18,'-')
          AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?19,'-'))
        ORDER BY active_from DESC
        LIMIT 1
      ) p
      WHERE p.withdraw_approval_above IS NOT NULL
        AND (
          SELECT total(amount)
          FROM withdrawals INDEXED BY withdrawals_user
          WHERE user_id = unhex(?20,'-')
            AND created_at >= (
              (
                ((SELECT at FROM commit_groups WHERE group_id = unhex(?21,'-')) / 3600000) - 23
              ) * 3600000
            )
            AND approved_at IS NULL
            AND status IN ('queued', 'submitted', 'settled')
        ) + CAST(?22 AS INTEGER) > p.withdraw_approval_above
    )
  ) AS waits
) p
WHERE (
  (
    EXISTS (SELECT 1 FROM users WHERE user_id = unhex(?23,'-') AND frozen_at IS NULL)
    AND EXISTS (
      SELECT 1
      FROM api_keys
      WHERE api_key_id = unhex(?24,'-')
        AND user_id = unhex(?25,'-')
        AND revoked_at IS NULL
        AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?26,'-'))
        AND (
          expires_at IS NULL
          OR expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?27,'-'))
        )
    )
  )
  AND (
    NOT EXISTS (
      SELECT 1
      FROM withdrawals
      WHERE user_id = unhex(?28,'-') AND (client_withdrawal_id IN (?29))
    )
  )
  AND (
    NOT EXISTS (SELECT 1 FROM accepted_payments WHERE chain = ?30 AND payment_id IN (unhex(?31)))
  )
  AND ((SELECT at FROM commit_groups WHERE group_id = unhex(?32,'-')) < ?33)
  AND (
    NOT (EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused'))
    AND NOT (EXISTS (SELECT 1 FROM payer_leases l WHERE l.chain = ?34 AND l.halted_at IS NOT NULL))
  )
  AND 1
  AND (
    (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM withdrawals
        WHERE user_id = unhex(?35,'-')
          AND created_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?36,'-')) - ?37
        LIMIT 100
      )
    ) < ?38
  )
  AND (
    NOT EXISTS (
      SELECT 1
      FROM (
        SELECT *
        FROM account_policies
        WHERE user_id = unhex(?39,'-')
          AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?40,'-'))
        ORDER BY active_from DESC
        LIMIT 1
      ) p
      WHERE p.withdraw_listed_only = 1
        AND NOT EXISTS (
          SELECT 1
          FROM withdrawal_addresses b
          WHERE b.user_id = unhex(?41,'-')
            AND b.chain = ?42
            AND b.address = unhex(?43)
            AND b.active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?44,'-'))
        )
    )
  )
  AND (
    NOT EXISTS (
      SELECT 1
      FROM (
        SELECT *
        FROM account_policies
        WHERE user_id = unhex(?45,'-')
          AND active_from <= (SELECT at FROM commit_groups WHERE group_id = unhex(?46,'-'))
        ORDER BY active_from DESC
        LIMIT 1
      ) p
      WHERE p.withdraw_max_usdc_per_day IS NOT NULL
        AND (
          SELECT total(amount)
          FROM withdrawals INDEXED BY withdrawals_user
          WHERE user_id = unhex(?47,'-')
            AND created_at >= (
              (
                ((SELECT at FROM commit_groups WHERE group_id = unhex(?48,'-')) / 3600000) - 23
              ) * 3600000
            ) - 86400000
            AND max(created_at, coalesce(approved_at, 0)) >= (
              (
                ((SELECT at FROM commit_groups WHERE group_id = unhex(?49,'-')) / 3600000) - 23
              ) * 3600000
            )
            AND status NOT IN ('failed', 'cancelled')
        ) + (CAST(?50 AS INTEGER)) > p.withdraw_max_usdc_per_day
    )
  )
  AND (
    (
      SELECT count(*)
      FROM withdrawals INDEXED BY withdrawals_reverted
      WHERE user_id = unhex(?51,'-')
        AND created_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?52,'-')) - ?53
        AND failure_code = 'payment_reverted'
        AND to_address = unhex(?54)
    ) < ?55
  )
  AND (
    EXISTS (
      SELECT 1
      FROM accounts
      WHERE owner = unhex(?56,'-')
        AND asset = ?57
        AND kind = 'available'
        AND (balance - promised) >= (CAST(?58 AS INTEGER))
    )
  )
  AND (
    NOT (
      EXISTS (
        SELECT 1
        FROM deposit_addresses
        WHERE chain IN (SELECT value FROM json_each(?59)) AND address = unhex(?60)
      )
    )
  )
  AND (
    (
      coalesce((SELECT -a.balance FROM accounts a WHERE a.owner = CAST('external:' || ?61 AS BLOB) AND a.asset = ?62 AND a.kind = 'external'), 0) - coalesce(
        (
          SELECT sum(o.amount)
          FROM withdrawals o INDEXED BY withdrawals_open
          WHERE o.chain = ?63 AND o.asset = ?64 AND o.status IN ('queued', 'submitted')
        ),
        0
      )
    ) >= CAST(?65 AS INTEGER)
  )
)
-- ?1 = "<id 1>"
-- ?2 = "<id 2>"
-- ?3 = "<id 3>"
-- ?4 = "w-1"
-- ?5 = "ea311cfa98b833055ae0edb467dd76c55e56659cb22f789e44de8efbab8811cd"
-- ?6 = "local"
-- ?7 = "venue_one:0x1"
-- ?8 = "5"
-- ?9 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?10 = "<id 4>"
-- ?11 = 86400000
-- ?12 = "<id 4>"
-- ?13 = "<id 4>"
-- ?14 = "<id 4>"
-- ?15 = "<id 4>"
-- ?16 = "<mac>"
-- ?17 = "<mac>"
-- ?18 = "<id 3>"
-- ?19 = "<id 4>"
-- ?20 = "<id 3>"
-- ?21 = "<id 4>"
-- ?22 = "5"
-- ?23 = "<id 3>"
-- ?24 = "<id 5>"
-- ?25 = "<id 3>"
-- ?26 = "<id 4>"
-- ?27 = "<id 4>"
-- ?28 = "<id 3>"
-- ?29 = "w-1"
-- ?30 = "local"
-- ?31 = "ea311cfa98b833055ae0edb467dd76c55e56659cb22f789e44de8efbab8811cd"
-- ?32 = "<id 4>"
-- ?33 = 1764551331000
-- ?34 = "local"
-- ?35 = "<id 3>"
-- ?36 = "<id 4>"
-- ?37 = 86400000
-- ?38 = 100
-- ?39 = "<id 3>"
-- ?40 = "<id 4>"
-- ?41 = "<id 3>"
-- ?42 = "local"
-- ?43 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?44 = "<id 4>"
-- ?45 = "<id 3>"
-- ?46 = "<id 4>"
-- ?47 = "<id 3>"
-- ?48 = "<id 4>"
-- ?49 = "<id 4>"
-- ?50 = "5"
-- ?51 = "<id 3>"
-- ?52 = "<id 4>"
-- ?53 = 2592000000
-- ?54 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?55 = 3
-- ?56 = "<id 3>"
-- ?57 = "venue_one:0x1"
-- ?58 = "5"
-- ?59 = "[\"local\"]"
-- ?60 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?61 = "local"
-- ?62 = "venue_one:0x1"
-- ?63 = "local"
-- ?64 = "venue_one:0x1"
-- ?65 = "5"

-- Create a deposit address
INSERT INTO audit_events (
  audit_event_id, kind, actor, user_id, api_key_id, ip, subject_id, details, mac, at
)
SELECT unhex(?1,'-'),
  ?2,
  ?3,
  unhex(?4,'-'),
  NULL,
  ?5,
  ?6,
  ?7,
  ?8,
  (SELECT at FROM commit_groups WHERE group_id = unhex(?9,'-'))
WHERE (
  (
    (
      EXISTS (
        SELECT 1
        FROM users
        WHERE user_id = unhex(?10,'-') AND frozen_at IS NULL AND session_epoch = ?11
      )
      AND (SELECT at FROM commit_groups WHERE group_id = unhex(?12,'-')) < ?13
    )
  )
  AND (?14 < ?15)
  AND (NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full'))
  AND (
    coalesce(
      (
        SELECT count
        FROM daily_counts
        WHERE day = (
          (SELECT at FROM commit_groups WHERE group_id = unhex(?16,'-')) / CAST(?17 AS INTEGER)
        )
          AND user_id = unhex(?18,'-')
          AND kind = ?19
      ),
      0
    ) < ?20
  )
  AND (
    (SELECT count(*) FROM deposit_addresses WHERE user_id = unhex(?21,'-') AND chain = ?22) = ?23
  )
  AND (NOT EXISTS (SELECT 1 FROM deposit_addresses WHERE chain = ?24 AND address = unhex(?25)))
)
RETURNING 1 AS applied
-- ?1 = "<id 1>"
-- ?2 = "deposit_address_created"
-- ?3 = "session"
-- ?4 = "<id 2>"
-- ?5 = null
-- ?6 = "0x3cB4C78DbD5c0F2Dc2a29F6A0Ccc56a33c759B36"
-- ?7 = null
-- ?8 = null
-- ?9 = "<id 3>"
-- ?10 = "<id 2>"
-- ?11 = 0
-- ?12 = "<id 3>"
-- ?13 = 1800000000000
-- ?14 = 0
-- ?15 = 50
-- ?16 = "<id 3>"
-- ?17 = "86400000"
-- ?18 = "<id 2>"
-- ?19 = "deposit_addresses"
-- ?20 = 100
-- ?21 = "<id 2>"
-- ?22 = "local"
-- ?23 = 0
-- ?24 = "local"
-- ?25 = "3cB4C78DbD5c0F2Dc2a29F6A0Ccc56a33c759B36"

-- Mint an API key
INSERT INTO audit_events (
  audit_event_id, kind, actor, user_id, api_key_id, ip, subject_id, details, mac, at
)
SELECT unhex(?1,'-'),
  ?2,
  ?3,
  unhex(?4,'-'),
  NULL,
  ?5,
  ?6,
  ?7,
  ?8,
  (SELECT at FROM commit_groups WHERE group_id = unhex(?9,'-'))
WHERE (
  (
    (
      EXISTS (
        SELECT 1
        FROM users
        WHERE user_id = unhex(?10,'-') AND frozen_at IS NULL AND session_epoch = ?11
      )
      AND (SELECT at FROM commit_groups WHERE group_id = unhex(?12,'-')) < ?13
    )
    AND (
      (
        max(
          coalesce((SELECT h.hold_until FROM users h WHERE h.user_id = unhex(?14,'-')), 0),
          coalesce(
            (
              SELECT w.next_from
              FROM totp_secrets w
              WHERE w.user_id = unhex(?15,'-')
                AND w.status = 'confirmed'
                AND w.next_from > (SELECT at FROM commit_groups WHERE group_id = unhex(?16,'-'))
                AND (
                  w.ends_at IS NULL
                  OR w.ends_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?17,'-'))
                )
            ),
            0
          )
        )
      ) <= (SELECT at FROM commit_groups WHERE group_id = unhex(?18,'-'))
    )
  )
  AND (NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full'))
  AND (
    (
      SELECT count(*)
      FROM api_keys INDEXED BY api_keys_live
      WHERE user_id = unhex(?19,'-')
        AND revoked_at IS NULL
        AND (
          expires_at IS NULL
          OR expires_at > (SELECT at FROM commit_groups WHERE group_id = unhex(?20,'-'))
        )
    ) < ?21
  )
  AND (
    coalesce(
      (
        SELECT count
        FROM daily_counts
        WHERE day = (
          (SELECT at FROM commit_groups WHERE group_id = unhex(?22,'-')) / CAST(?23 AS INTEGER)
        )
          AND user_id = unhex(?24,'-')
          AND kind = ?25
      ),
      0
    ) < ?26
  )
)
RETURNING 1 AS applied
-- ?1 = "<id 1>"
-- ?2 = "api_key_created"
-- ?3 = "session"
-- ?4 = "<id 2>"
-- ?5 = null
-- ?6 = "<id 3>"
-- ?7 = "{\"scopes\":\"read\",\"limits\":null,\"requireIdempotency\":0,\"allowedIps\":null,\"activeFrom\":1764551330000,\"expiresAt\":1772327330000,\"mintedBy\":\"session\"}"
-- ?8 = "<mac>"
-- ?9 = "<id 4>"
-- ?10 = "<id 2>"
-- ?11 = 0
-- ?12 = "<id 4>"
-- ?13 = 1800000000000
-- ?14 = "<id 2>"
-- ?15 = "<id 2>"
-- ?16 = "<id 4>"
-- ?17 = "<id 4>"
-- ?18 = "<id 4>"
-- ?19 = "<id 2>"
-- ?20 = "<id 4>"
-- ?21 = 100
-- ?22 = "<id 4>"
-- ?23 = "86400000"
-- ?24 = "<id 2>"
-- ?25 = "api_keys"
-- ?26 = 1000

-- Freeze a user
INSERT INTO audit_events (
  audit_event_id, kind, actor, user_id, api_key_id, ip, subject_id, details, mac, at
)
SELECT unhex(?1,'-'),
  ?2,
  ?3,
  unhex(?4,'-'),
  NULL,
  ?5,
  ?6,
  ?7,
  ?8,
  (SELECT at FROM commit_groups WHERE group_id = unhex(?9,'-'))
WHERE EXISTS (
  SELECT 1
  FROM users
  WHERE user_id = unhex(?10,'-') AND (frozen_at IS NULL OR frozen_by IS 'self')
)
RETURNING 1 AS applied
-- ?1 = "<id 1>"
-- ?2 = "account_frozen"
-- ?3 = "operator:alice"
-- ?4 = "<id 2>"
-- ?5 = null
-- ?6 = "<id 2>"
-- ?7 = "{}"
-- ?8 = "<mac>"
-- ?9 = "<id 3>"
-- ?10 = "<id 2>"

-- Store a signed payment
INSERT INTO chain_transactions (
  transaction_id,
  chain,
  sender,
  nonce,
  kind,
  batch_no,
  to_address,
  data,
  gas_limit,
  status,
  made_group,
  made_at
)
SELECT unhex(?1,'-'),
  ?2,
  unhex(?3),
  ?4,
  ?5,
  ?6,
  unhex(?7),
  unhex(?8),
  CAST(?9 AS INTEGER),
  'open',
  (SELECT seq FROM commit_groups WHERE group_id = unhex(?10,'-')),
  (SELECT at FROM commit_groups WHERE group_id = unhex(?11,'-'))
WHERE EXISTS (SELECT 1 FROM payer_leases WHERE chain = ?12 AND token = unhex(?13,'-'))
  AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ?14 AND halted_at IS NULL)
  AND NOT (EXISTS (SELECT 1 FROM payer_leases l WHERE l.chain = ?15 AND l.halted_at IS NOT NULL))
  AND NOT EXISTS (
    SELECT 1
    FROM chain_transactions
    WHERE chain = ?16 AND sender = unhex(?17) AND nonce >= ?18
  )
  AND NOT (EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused'))
  AND NOT EXISTS (
    SELECT 1
    FROM chain_transactions
    WHERE chain = ?19 AND to_address = unhex(?20) AND batch_no >= ?21 AND status <> 'unused'
  )
  AND (
    SELECT count(*)
    FROM json_each(?22) j
    JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')
    WHERE w.chain = ?23
      AND w.status = 'queued'
      AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = w.user_id AND u.frozen_at IS NOT NULL)
      AND NOT EXISTS (
        SELECT 1
        FROM batch_members m
        WHERE m.withdrawal_id = w.withdrawal_id AND m.ended_group IS NULL
      )
      AND NOT EXISTS (
        SELECT 1
        FROM chain_commands c
        WHERE c.withdrawal_id = w.withdrawal_id AND c.kind = 'fail' AND c.done_group IS NULL
      )
      AND NOT EXISTS (
        SELECT 1
        FROM vault_events e
        WHERE (
          e.payment_id = w.payment_id
          AND e.chain = w.chain
          AND e.kind = 'Paid'
          AND NOT (
            (
              e.asset IS w.asset
              AND e.amount IS CAST(w.amount AS TEXT)
              AND e.to_address IS w.to_address
            )
            AND NOT EXISTS (
              SELECT 1
              FROM accepted_payments p
              WHERE p.chain = e.chain AND p.payment_id = e.payment_id
            )
          )
        )
      )
      AND NOT EXISTS (
        SELECT 1
        FROM batch_members m
        WHERE m.withdrawal_id = w.withdrawal_id AND m.purpose = ?24 AND m.ended_group IS NULL
      )
  ) = ?25
-- ?1 = "<id 1>"
-- ?2 = "local"
-- ?3 = "19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
-- ?4 = 3
-- ?5 = "pay"
-- ?6 = 7
-- ?7 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?8 = "00"
-- ?9 = "100000"
-- ?10 = "<id 2>"
-- ?11 = "<id 2>"
-- ?12 = "local"
-- ?13 = "<id 3>"
-- ?14 = "local"
-- ?15 = "local"
-- ?16 = "local"
-- ?17 = "19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
-- ?18 = 3
-- ?19 = "local"
-- ?20 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?21 = 7
-- ?22 = "[\"0196f0c2-0000-7000-8000-000000000002\"]"
-- ?23 = "local"
-- ?24 = "pay"
-- ?25 = 1

-- Store a signed void
INSERT INTO chain_transactions (
  transaction_id,
  chain,
  sender,
  nonce,
  kind,
  batch_no,
  to_address,
  data,
  gas_limit,
  status,
  made_group,
  made_at
)
SELECT unhex(?1,'-'),
  ?2,
  unhex(?3),
  ?4,
  ?5,
  ?6,
  unhex(?7),
  unhex(?8),
  CAST(?9 AS INTEGER),
  'open',
  (SELECT seq FROM commit_groups WHERE group_id = unhex(?10,'-')),
  (SELECT at FROM commit_groups WHERE group_id = unhex(?11,'-'))
WHERE EXISTS (SELECT 1 FROM payer_leases WHERE chain = ?12 AND token = unhex(?13,'-'))
  AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ?14 AND halted_at IS NULL)
  AND NOT EXISTS (
    SELECT 1
    FROM chain_transactions
    WHERE chain = ?15 AND sender = unhex(?16) AND nonce >= ?17
  )
  AND 1
  AND (
    SELECT count(*)
    FROM json_each(?18) j
    JOIN withdrawals w ON w.withdrawal_id = unhex(j.value, '-')
    WHERE w.chain = ?19
      AND w.status IN ('awaiting_approval', 'queued', 'submitted')
      AND NOT EXISTS (
        SELECT 1
        FROM batch_members m
        WHERE m.withdrawal_id = w.withdrawal_id AND m.purpose = ?20 AND m.ended_group IS NULL
      )
  ) = ?21
-- ?1 = "<id 1>"
-- ?2 = "local"
-- ?3 = "19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
-- ?4 = 3
-- ?5 = "void"
-- ?6 = null
-- ?7 = "52908400098527886E0F7030069857D2E4169EE7"
-- ?8 = "00"
-- ?9 = "100000"
-- ?10 = "<id 2>"
-- ?11 = "<id 2>"
-- ?12 = "local"
-- ?13 = "<id 3>"
-- ?14 = "local"
-- ?15 = "local"
-- ?16 = "19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
-- ?17 = 3
-- ?18 = "[\"0196f0c2-0000-7000-8000-000000000002\"]"
-- ?19 = "local"
-- ?20 = "void"
-- ?21 = 1
