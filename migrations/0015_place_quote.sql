-- Places the quotes of a commit group, one command after the other.
--
-- Generated from src/rfq/place-quote.ts. Do not edit: npm run migrations writes it.
DROP TRIGGER quote_commands_place;
CREATE TRIGGER quote_commands_place BEFORE INSERT ON quote_commands BEGIN
  SELECT RAISE(IGNORE)
  WHERE NOT EXISTS (
    SELECT 1
    FROM requests r
    WHERE r.request_id = NEW.request_id
      AND (
        (
          iif(
            NEW.api_key_id IS NULL,
            (
              EXISTS (
                SELECT 1
                FROM users
                WHERE user_id = NEW.maker_id
                  AND frozen_at IS NULL
                  AND session_epoch = NEW.session_epoch
              )
              AND NEW.at < NEW.session_expires_at
            ),
            (
              EXISTS (SELECT 1 FROM users WHERE user_id = NEW.maker_id AND frozen_at IS NULL)
              AND EXISTS (
                SELECT 1
                FROM api_keys
                WHERE api_key_id = NEW.api_key_id
                  AND user_id = NEW.maker_id
                  AND revoked_at IS NULL
                  AND active_from <= NEW.at
                  AND (expires_at IS NULL OR expires_at > NEW.at)
              )
            )
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM quotes k INDEXED BY quotes_key
            WHERE k.key_hash = NEW.key_hash
              AND k.quote_id > (unhex(printf('%012x', (NEW.at - 3720000))))
          )
        )
        AND (NEW.not_after IS NULL OR NEW.at < NEW.not_after)
        AND (NEW.at < NEW.received_at + NEW.life_ms)
        AND (NEW.at BETWEEN NEW.received_at - 60000 AND NEW.commit_before)
        AND (
          NEW.socket_id IS NULL
          OR EXISTS (SELECT 1 FROM armed_sockets a WHERE a.socket_id = NEW.socket_id)
        )
        AND (r.requester_id <> NEW.maker_id)
        AND (r.status = 'open' AND r.expires_at > NEW.at)
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
            FROM paused_venues p
            WHERE p.venue = substr(r.asset, 1, instr(r.asset, ':') - 1)
          )
        )
        AND (NEW.side IS NOT NULL AND r.side IN (NEW.side, 'TwoWay'))
        AND (
          NEW.backing IS NULL
          OR (
            NEW.backing = iif(NEW.side = 'Bid', 'usdc', 'complement')
            AND (
              SELECT k.complement
              FROM markets k
              WHERE k.asset = r.asset AND (k.condition IS NULL OR NEW.backing = 'usdc')
            ) IS NOT NULL
          )
        )
        AND (
          NEW.replaces IS NULL
          OR EXISTS (
            SELECT 1
            FROM quotes o
            WHERE o.quote_id = NEW.replaces
              AND o.maker_id = NEW.maker_id
              AND o.request_id = NEW.request_id
              AND o.side = NEW.side
              AND o.status = 'open'
              AND o.expires_at > NEW.at
          )
        )
        AND (
          NOT EXISTS (
            SELECT 1
            FROM cancel_timers t
            WHERE t.credential = (coalesce(NEW.api_key_id, NEW.maker_id)) AND t.cancel_at <= NEW.at
          )
        )
      )
  );
  SELECT RAISE(IGNORE)
  WHERE NOT EXISTS (
    SELECT 1
    FROM requests r
    WHERE r.request_id = NEW.request_id
      AND (
        (
          NOT EXISTS (
            SELECT 1
            FROM protections p
            WHERE p.user_id = NEW.maker_id
              AND (p.tripped_at IS NOT NULL AND ifnull(p.blocked_until > NEW.at, 1))
          )
        )
        AND (
          NEW.confirm_price IS NOT NULL
          OR NOT EXISTS (
            SELECT 1
            FROM protections p
            WHERE p.user_id = NEW.maker_id
              AND abs(
                NEW.price - (
                  SELECT coalesce(
                    (
                      SELECT m.price
                      FROM matches m
                      WHERE substr(m.asset, -16) = substr(r.asset, -16)
                        AND m.asset = r.asset
                        AND m.amount >= NEW.min_priced
                      ORDER BY m.at DESC, m.match_id DESC
                      LIMIT 1
                    ),
                    (
                      SELECT k.close
                      FROM candles k
                      WHERE k.asset = r.asset AND k.step = 1440
                      ORDER BY k.start DESC
                      LIMIT 1
                    )
                  )
                )
              ) > p.max_deviation
          )
        )
        AND (NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full'))
        AND (
          iif(
            (
              ifnull(
                (
                  SELECT max(maker_open)
                  FROM quotes INDEXED BY quotes_maker
                  WHERE maker_id = NEW.maker_id
                    AND opened_at = (
                      SELECT max(opened_at)
                      FROM quotes INDEXED BY quotes_maker
                      WHERE maker_id = NEW.maker_id
                    )
                ),
                0
              )
            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes,
            1,
            (
              SELECT count(*)
              FROM quotes
              WHERE maker_id = NEW.maker_id AND status = 'open' AND expires_at > NEW.at
            ) - (NEW.replaces IS NOT NULL) < NEW.max_open_quotes
          )
        )
        AND (
          (
            SELECT count(*)
            FROM quotes INDEXED BY quotes_request_status
            WHERE request_id = NEW.request_id
              AND status = 'open'
              AND maker_id = NEW.maker_id
              AND stuck_at IS NULL
              AND side = NEW.side
              AND quote_id IS NOT NEW.replaces
          ) < 20
        )
        AND (
          iif(
            (
              (
                SELECT count(*)
                FROM quotes INDEXED BY quotes_request_status
                WHERE request_id = NEW.request_id AND status = 'open'
              ) >= 500
            ),
            ifnull(
              iif(
                NEW.side = 'Ask',
                NEW.price > (
                  SELECT price
                  FROM quotes INDEXED BY quotes_request_status
                  WHERE request_id = NEW.request_id
                    AND status = 'open'
                    AND stuck_at IS NULL
                    AND side = NEW.side
                    AND quote_id IS NOT NEW.replaces
                  ORDER BY price DESC
                  LIMIT 1 OFFSET 499
                ),
                NEW.price < (
                  SELECT price
                  FROM quotes INDEXED BY quotes_request_status
                  WHERE request_id = NEW.request_id
                    AND status = 'open'
                    AND stuck_at IS NULL
                    AND side = NEW.side
                    AND quote_id IS NOT NEW.replaces
                  ORDER BY price
                  LIMIT 1 OFFSET 499
                )
              ),
              1
            ),
            1
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
                WHERE user_id = NEW.maker_id AND active_from <= NEW.at
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
                  AND instr(
                    k.limits ->> 'venues', '"' || substr(r.asset, 1, instr(r.asset, ':') - 1) || '"'
                  ) = 0
                )
                OR (
                  NEW.reserve > (k.limits ->> 'max_usdc_per_trade')
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
                        WHERE maker_id = NEW.maker_id
                          AND status = 'open'
                          AND expires_at > NEW.at
                          AND credential = NEW.api_key_id
                          AND quote_id IS NOT NEW.replaces
                      ) u
                    ) + NEW.reserve > (k.limits ->> 'max_usdc_per_day')
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
              WHERE user_id = NEW.maker_id AND active_from <= NEW.at
              ORDER BY active_from DESC
              LIMIT 1
            ) p
            WHERE p.max_trade_usdc_per_day IS NOT NULL
              AND (
                SELECT total(u.usdc)
                FROM (
                  SELECT usdc
                  FROM traded_hours
                  WHERE subject = NEW.maker_id AND hour > (NEW.at / 3600000) - 24
                  UNION ALL
                  SELECT reserve
                  FROM quotes INDEXED BY quotes_open_maker
                  WHERE maker_id = NEW.maker_id
                    AND status = 'open'
                    AND expires_at > NEW.at
                    AND quote_id IS NOT NEW.replaces
                ) u
              ) + NEW.reserve > p.max_trade_usdc_per_day
          )
        )
        AND (
          NEW.backing IS NULL
          OR CAST(NEW.amount AS INTEGER) - NEW.usdc_amount >= iif(
            NEW.side = 'Bid', 1, max(1, NEW.maker_fee)
          )
        )
        AND (
          EXISTS (
            SELECT 1
            FROM accounts
            WHERE owner = NEW.maker_id
              AND asset = (
                iif(
                  NEW.backing = 'complement',
                  (SELECT k.complement FROM markets k WHERE k.asset = r.asset),
                  NEW.reserve_asset
                )
              )
              AND kind = 'available'
              AND (balance - promised) >= (
                NEW.reserve - (
                  ifnull(
                    (
                      SELECT o.reserve
                      FROM quotes o
                      WHERE o.quote_id = NEW.replaces
                        AND (o.complement IS NULL) = (NEW.backing IS NULL)
                    ),
                    0
                  )
                )
              )
          )
        )
        AND (NOT EXISTS (SELECT 1 FROM quotes WHERE quote_id = NEW.quote_id))
      )
  );
  UPDATE quotes
  SET status = 'cancelled',
    cancel_reason = 'replaced',
    replaced_by = NEW.quote_id,
    ended_by = NEW.quote_id,
    ended_group = NEW.placed_group
  WHERE quote_id = NEW.replaces;
  UPDATE quotes
  SET status = iif(expires_at <= NEW.at, 'expired', 'cancelled'),
    cancel_reason = iif(expires_at <= NEW.at, NULL, 'outbid'),
    ended_by = NEW.quote_id,
    ended_group = NEW.placed_group
  WHERE quote_id = (
    iif(
      (
        (
          SELECT count(*)
          FROM quotes INDEXED BY quotes_request_status
          WHERE request_id = NEW.request_id AND status = 'open'
        ) >= 500
      ),
      (
        SELECT quote_id
        FROM quotes INDEXED BY quotes_request_status
        WHERE request_id = NEW.request_id
          AND status = 'open'
          AND stuck_at IS NULL
          AND side = NEW.side
          AND quote_id IS NOT NEW.replaces
          AND price = iif(
            NEW.side = 'Ask',
            (
              SELECT price
              FROM quotes INDEXED BY quotes_request_status
              WHERE request_id = NEW.request_id
                AND status = 'open'
                AND stuck_at IS NULL
                AND side = NEW.side
                AND quote_id IS NOT NEW.replaces
              ORDER BY price DESC
              LIMIT 1 OFFSET 499
            ),
            (
              SELECT price
              FROM quotes INDEXED BY quotes_request_status
              WHERE request_id = NEW.request_id
                AND status = 'open'
                AND stuck_at IS NULL
                AND side = NEW.side
                AND quote_id IS NOT NEW.replaces
              ORDER BY price
              LIMIT 1 OFFSET 499
            )
          )
        ORDER BY opened_at DESC, quote_id DESC
        LIMIT 1
      ),
      NULL
    )
  );
  INSERT INTO quotes (
    quote_id,
    request_id,
    maker_id,
    credential,
    asset,
    amount,
    side,
    price,
    usdc_amount,
    taker_fee,
    maker_fee,
    reserve,
    status,
    opened_at,
    expires_at,
    opened_group,
    label,
    key_hash,
    terms_hash,
    maker_open,
    complement
  )
  VALUES (
    NEW.quote_id,
    NEW.request_id,
    NEW.maker_id,
    (coalesce(NEW.api_key_id, NEW.maker_id)),
    (SELECT asset FROM requests WHERE request_id = NEW.request_id),
    NEW.amount,
    NEW.side,
    NEW.price,
    NEW.usdc_amount,
    NEW.taker_fee,
    NEW.maker_fee,
    NEW.reserve,
    'open',
    NEW.at,
    min(
      (SELECT expires_at FROM requests WHERE request_id = NEW.request_id),
      min(NEW.at, NEW.received_at) + NEW.life_ms
    ),
    NEW.placed_group,
    NEW.label,
    NEW.key_hash,
    NEW.terms_hash,
    (
      1 + coalesce(
        (
          SELECT max(maker_open)
          FROM quotes INDEXED BY quotes_maker
          WHERE maker_id = NEW.maker_id
            AND opened_at = (
              SELECT max(opened_at)
              FROM quotes INDEXED BY quotes_maker
              WHERE maker_id = NEW.maker_id
            )
          HAVING max(maker_open) < NEW.max_open_quotes
        ),
        (
          SELECT count(*)
          FROM quotes
          WHERE maker_id = NEW.maker_id AND status = 'open' AND expires_at > NEW.at
        )
      )
    ),
    iif(
      NEW.backing IS NULL,
      NULL,
      (
        SELECT k.complement
        FROM markets k
        WHERE k.asset = (SELECT asset FROM requests WHERE request_id = NEW.request_id)
      )
    )
  );
  SELECT RAISE(IGNORE);
END;
