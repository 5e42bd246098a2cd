-- The SQL that each ledger read sends to D1, with its parameters. Written by
-- queries.node.test.ts. To accept a change: npm run test -- --project node test/ledger -u

-- A page
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (
      SELECT sub_account / 2 AS number
      FROM accounts INDEXED BY accounts_owner
      WHERE owner = unhex(?1,'-')
      LIMIT 1
    ) first
    CROSS JOIN json_each(?2) s
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      0,
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min((CAST(?3 AS INTEGER) + 1) >> 1, 4611686018427387904) AS debits_below,
      min(CAST(?4 AS INTEGER) >> 1, 4611686018427387904) AS credits_below
  ),
  merge(entry_id, indexed_at, via_credit, reason, floor) AS (
    SELECT 2 * (
      iif(
        r.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + r.credit,
      r.indexed_at,
      r.via_credit,
      r.reason,
      b.floor
    FROM runs r
    CROSS JOIN bounds b
    UNION ALL
    SELECT 2 * (
      iif(
        p.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + (p.entry_id & 1),
      p.indexed_at,
      p.via_credit,
      p.reason,
      p.floor
    FROM merge p
    WHERE p.entry_id IS NOT NULL
    ORDER BY 1 DESC
    LIMIT ?5
  ),
  merged AS MATERIALIZED (SELECT entry_id FROM merge WHERE entry_id IS NOT NULL)
SELECT e.entry_id AS entry_id,
  a.kind AS account,
  a.asset,
  CAST(iif(e.entry_id & 1, t.amount, -t.amount) AS TEXT) AS delta,
  t.reason,
  iif(
    t.reason = 1,
    '0x' || lower(hex(d.transaction_hash)),
    hex(
      (
        iif(
          t.reason = 6,
          coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
          t.ref
        )
      )
    )
  ) AS ref,
  CAST(iif(e.entry_id & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
  t.at
FROM merged e
CROSS JOIN transfers t ON t.transfer_id = e.entry_id >> 1
CROSS JOIN accounts a ON a.account_id = iif(e.entry_id & 1, t.to_account, t.from_account)
LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
ORDER BY entry_id DESC
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 51

-- A page of one sub-account: the statement of "A page"
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 51

-- A page of debits: the statement of "A page"
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 51

-- A page of some reasons: the statement of "A page"
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 51

-- A page of USDC
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      iif(
        s.value ->> 'indexedAt' = a.kind,
        a.account_id,
        (
          SELECT o.account_id
          FROM accounts o
          WHERE o.owner = a.owner AND o.asset = a.asset AND o.kind = s.value ->> 'indexedAt'
        )
      ) AS indexed_at
    FROM accounts a INDEXED BY accounts_owner
    CROSS JOIN json_each(?1) s
    WHERE a.owner = unhex(?2,'-') AND a.kind = s.value ->> 'kind' AND (a.asset = ?3)
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      0,
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min((CAST(?4 AS INTEGER) + 1) >> 1, 4611686018427387904) AS debits_below,
      min(CAST(?5 AS INTEGER) >> 1, 4611686018427387904) AS credits_below
  ),
  merge(entry_id, indexed_at, via_credit, reason, floor) AS (
    SELECT 2 * (
      iif(
        r.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to
          WHERE (
            (t.to_account = r.indexed_at AND t.reason = r.reason) AND (t.reason NOT BETWEEN 3 AND 5)
          )
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from
          WHERE (t.from_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + r.credit,
      r.indexed_at,
      r.via_credit,
      r.reason,
      b.floor
    FROM runs r
    CROSS JOIN bounds b
    UNION ALL
    SELECT 2 * (
      iif(
        p.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to
          WHERE (
            (t.to_account = p.indexed_at AND t.reason = p.reason) AND (t.reason NOT BETWEEN 3 AND 5)
          )
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from
          WHERE (t.from_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + (p.entry_id & 1),
      p.indexed_at,
      p.via_credit,
      p.reason,
      p.floor
    FROM merge p
    WHERE p.entry_id IS NOT NULL
    ORDER BY 1 DESC
    LIMIT ?6
  ),
  merged AS MATERIALIZED (SELECT entry_id FROM merge WHERE entry_id IS NOT NULL)
SELECT e.entry_id AS entry_id,
  a.kind AS account,
  a.asset,
  CAST(iif(e.entry_id & 1, t.amount, -t.amount) AS TEXT) AS delta,
  t.reason,
  iif(
    t.reason = 1,
    '0x' || lower(hex(d.transaction_hash)),
    hex(
      (
        iif(
          t.reason = 6,
          coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
          t.ref
        )
      )
    )
  ) AS ref,
  CAST(iif(e.entry_id & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
  t.at
FROM merged e
CROSS JOIN transfers t ON t.transfer_id = e.entry_id >> 1
CROSS JOIN accounts a ON a.account_id = iif(e.entry_id & 1, t.to_account, t.from_account)
LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
ORDER BY entry_id DESC
-- ?1 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?2 = "0196f0c2-0000-7000-8000-000000000001"
-- ?3 = "usdc"
-- ?4 = "4611686018427387904"
-- ?5 = "4611686018427387904"
-- ?6 = 51

-- Its condition on assets: every token
(a.asset <> ?1)
-- ?1 = "usdc"

-- Its condition on assets: a venue
(a.asset >= ?1 AND a.asset < ?2)
-- ?1 = "venue_one:"
-- ?2 = "venue_one;"

-- Its condition on assets: an asset id on any venue
(a.asset IN (?1, ?2, ?3))
-- ?1 = "venue_one:0x1"
-- ?2 = "venue_two:0x1"
-- ?3 = "venue_three:0x1"

-- Its condition on assets: one token
(a.asset IN (?1))
-- ?1 = "venue_one:0x1"

-- A page of a period
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (
      SELECT sub_account / 2 AS number
      FROM accounts INDEXED BY accounts_owner
      WHERE owner = unhex(?1,'-')
      LIMIT 1
    ) first
    CROSS JOIN json_each(?2) s
  ),
  before_from(position, stride) AS (
    SELECT 0, 1 << 40
    UNION ALL
    SELECT position + iif(
      coalesce(
        (
          SELECT t.at
          FROM transfers t
          WHERE t.transfer_id >= position + stride
          ORDER BY t.transfer_id
          LIMIT 1
        ) < ?3,
        0
      ),
      stride,
      0
    ),
      stride >> 1
    FROM before_from
    WHERE stride > 0
  ),
  until_to(position, stride) AS (
    SELECT 0, 1 << 40
    UNION ALL
    SELECT position + iif(
      coalesce(
        (
          SELECT t.at
          FROM transfers t
          WHERE t.transfer_id >= position + stride
          ORDER BY t.transfer_id
          LIMIT 1
        ) < ?4,
        0
      ),
      stride,
      0
    ),
      stride >> 1
    FROM until_to
    WHERE stride > 0
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      (SELECT position + 1 FROM before_from WHERE stride = 0),
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min(
        (CAST(?5 AS INTEGER) + 1) >> 1, (SELECT position + 1 FROM until_to WHERE stride = 0)
      ) AS debits_below,
      min(
        CAST(?6 AS INTEGER) >> 1, (SELECT position + 1 FROM until_to WHERE stride = 0)
      ) AS credits_below
  ),
  merge(entry_id, indexed_at, via_credit, reason, floor) AS (
    SELECT 2 * (
      iif(
        r.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + r.credit,
      r.indexed_at,
      r.via_credit,
      r.reason,
      b.floor
    FROM runs r
    CROSS JOIN bounds b
    UNION ALL
    SELECT 2 * (
      iif(
        p.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + (p.entry_id & 1),
      p.indexed_at,
      p.via_credit,
      p.reason,
      p.floor
    FROM merge p
    WHERE p.entry_id IS NOT NULL
    ORDER BY 1 DESC
    LIMIT ?7
  ),
  merged AS MATERIALIZED (SELECT entry_id FROM merge WHERE entry_id IS NOT NULL)
SELECT e.entry_id AS entry_id,
  a.kind AS account,
  a.asset,
  CAST(iif(e.entry_id & 1, t.amount, -t.amount) AS TEXT) AS delta,
  t.reason,
  iif(
    t.reason = 1,
    '0x' || lower(hex(d.transaction_hash)),
    hex(
      (
        iif(
          t.reason = 6,
          coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
          t.ref
        )
      )
    )
  ) AS ref,
  CAST(iif(e.entry_id & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
  t.at
FROM merged e
CROSS JOIN transfers t ON t.transfer_id = e.entry_id >> 1
CROSS JOIN accounts a ON a.account_id = iif(e.entry_id & 1, t.to_account, t.from_account)
LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
ORDER BY entry_id DESC
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = 1700000000000
-- ?4 = 1700001000000
-- ?5 = "4611686018427387904"
-- ?6 = "4611686018427387904"
-- ?7 = 51

-- The entries of a record
SELECT *
FROM (
  SELECT (2 * t.transfer_id) AS entry_id,
    a.kind AS account,
    a.asset,
    CAST(iif((2 * t.transfer_id) & 1, t.amount, -t.amount) AS TEXT) AS delta,
    t.reason,
    iif(
      t.reason = 1,
      '0x' || lower(hex(d.transaction_hash)),
      hex(
        (
          iif(
            t.reason = 6,
            coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
            t.ref
          )
        )
      )
    ) AS ref,
    CAST(iif((2 * t.transfer_id) & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
    t.at
  FROM transfers t INDEXED BY transfers_once
  CROSS JOIN accounts a ON a.account_id = t.from_account
  LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
  WHERE (
    t.reason <> 1
    AND t.ref IN (unhex(?1,'-'), (SELECT quote_id FROM matches WHERE match_id = unhex(?2,'-')))
    AND (
      iif(
        t.reason = 6,
        coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
        t.ref
      )
    ) = unhex(?3,'-')
  )
    AND a.owner = unhex(?4,'-')
    AND 1
    AND (2 * t.transfer_id) < CAST(?5 AS INTEGER)
    AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?6))
    AND t.at >= ?7
    AND t.at <= ?8
    AND 1
  UNION ALL
  SELECT (2 * t.transfer_id + 1) AS entry_id,
    a.kind AS account,
    a.asset,
    CAST(iif((2 * t.transfer_id + 1) & 1, t.amount, -t.amount) AS TEXT) AS delta,
    t.reason,
    iif(
      t.reason = 1,
      '0x' || lower(hex(d.transaction_hash)),
      hex(
        (
          iif(
            t.reason = 6,
            coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
            t.ref
          )
        )
      )
    ) AS ref,
    CAST(iif((2 * t.transfer_id + 1) & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
    t.at
  FROM transfers t INDEXED BY transfers_once
  CROSS JOIN accounts a ON a.account_id = t.to_account
  LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
  WHERE (
    t.reason <> 1
    AND t.ref IN (unhex(?9,'-'), (SELECT quote_id FROM matches WHERE match_id = unhex(?10,'-')))
    AND (
      iif(
        t.reason = 6,
        coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
        t.ref
      )
    ) = unhex(?11,'-')
  )
    AND a.owner = unhex(?12,'-')
    AND 1
    AND (2 * t.transfer_id + 1) < CAST(?13 AS INTEGER)
    AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?14))
    AND t.at >= ?15
    AND t.at <= ?16
    AND 1
)
ORDER BY entry_id DESC
LIMIT ?17
-- ?1 = "0196f0c2-0000-7000-8000-000000000002"
-- ?2 = "0196f0c2-0000-7000-8000-000000000002"
-- ?3 = "0196f0c2-0000-7000-8000-000000000002"
-- ?4 = "0196f0c2-0000-7000-8000-000000000001"
-- ?5 = "4611686018427387904"
-- ?6 = [
--   ["available",3]
--   ["available",4]
--   ["pending",6]
--   ["pending",7]
--   ["available",7]
--   ["pending",5]
--   ["available",2]
--   ["pending",2]
-- ]
-- ?7 = 0
-- ?8 = 9007199254740991
-- ?9 = "0196f0c2-0000-7000-8000-000000000002"
-- ?10 = "0196f0c2-0000-7000-8000-000000000002"
-- ?11 = "0196f0c2-0000-7000-8000-000000000002"
-- ?12 = "0196f0c2-0000-7000-8000-000000000001"
-- ?13 = "4611686018427387904"
-- ?14 = [
--   ["available",1]
--   ["pending",3]
--   ["pending",4]
--   ["available",6]
--   ["available",5]
--   ["pending",2]
-- ]
-- ?15 = 0
-- ?16 = 9007199254740991
-- ?17 = 51

-- The entries of a transaction
SELECT *
FROM (
  SELECT (2 * t.transfer_id) AS entry_id,
    a.kind AS account,
    a.asset,
    CAST(iif((2 * t.transfer_id) & 1, t.amount, -t.amount) AS TEXT) AS delta,
    t.reason,
    iif(
      t.reason = 1,
      '0x' || lower(hex(d.transaction_hash)),
      hex(
        (
          iif(
            t.reason = 6,
            coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
            t.ref
          )
        )
      )
    ) AS ref,
    CAST(iif((2 * t.transfer_id) & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
    t.at
  FROM transfers t INDEXED BY transfers_once
  CROSS JOIN accounts a ON a.account_id = t.from_account
  LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
  WHERE (
    t.reason = 1
    AND t.ref IN (
      SELECT deposit_id
      FROM deposits INDEXED BY deposits_hash
      WHERE transaction_hash = unhex(?1) AND user_id = unhex(?2,'-')
    )
  )
    AND a.owner = unhex(?3,'-')
    AND 1
    AND (2 * t.transfer_id) < CAST(?4 AS INTEGER)
    AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?5))
    AND t.at >= ?6
    AND t.at <= ?7
    AND 1
  UNION ALL
  SELECT (2 * t.transfer_id + 1) AS entry_id,
    a.kind AS account,
    a.asset,
    CAST(iif((2 * t.transfer_id + 1) & 1, t.amount, -t.amount) AS TEXT) AS delta,
    t.reason,
    iif(
      t.reason = 1,
      '0x' || lower(hex(d.transaction_hash)),
      hex(
        (
          iif(
            t.reason = 6,
            coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
            t.ref
          )
        )
      )
    ) AS ref,
    CAST(iif((2 * t.transfer_id + 1) & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
    t.at
  FROM transfers t INDEXED BY transfers_once
  CROSS JOIN accounts a ON a.account_id = t.to_account
  LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
  WHERE (
    t.reason = 1
    AND t.ref IN (
      SELECT deposit_id
      FROM deposits INDEXED BY deposits_hash
      WHERE transaction_hash = unhex(?8) AND user_id = unhex(?9,'-')
    )
  )
    AND a.owner = unhex(?10,'-')
    AND 1
    AND (2 * t.transfer_id + 1) < CAST(?11 AS INTEGER)
    AND (a.kind, t.reason) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?12))
    AND t.at >= ?13
    AND t.at <= ?14
    AND 1
)
ORDER BY entry_id DESC
LIMIT ?15
-- ?1 = "abababababababababababababababababababababababababababababababab"
-- ?2 = "0196f0c2-0000-7000-8000-000000000001"
-- ?3 = "0196f0c2-0000-7000-8000-000000000001"
-- ?4 = "4611686018427387904"
-- ?5 = [
--   ["available",3]
--   ["available",4]
--   ["pending",6]
--   ["pending",7]
--   ["available",7]
--   ["pending",5]
--   ["available",2]
--   ["pending",2]
-- ]
-- ?6 = 0
-- ?7 = 9007199254740991
-- ?8 = "abababababababababababababababababababababababababababababababab"
-- ?9 = "0196f0c2-0000-7000-8000-000000000001"
-- ?10 = "0196f0c2-0000-7000-8000-000000000001"
-- ?11 = "4611686018427387904"
-- ?12 = [
--   ["available",1]
--   ["pending",3]
--   ["pending",4]
--   ["available",6]
--   ["available",5]
--   ["pending",2]
-- ]
-- ?13 = 0
-- ?14 = 9007199254740991
-- ?15 = 51

-- A page of amounts
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (
      SELECT sub_account / 2 AS number
      FROM accounts INDEXED BY accounts_owner
      WHERE owner = unhex(?1,'-')
      LIMIT 1
    ) first
    CROSS JOIN json_each(?2) s
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      0,
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min((CAST(?3 AS INTEGER) + 1) >> 1, 4611686018427387904) AS debits_below,
      min(CAST(?4 AS INTEGER) >> 1, 4611686018427387904) AS credits_below
  ),
  merge(entry_id, indexed_at, via_credit, reason, floor) AS (
    SELECT 2 * (
      iif(
        r.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = r.indexed_at AND t.reason = r.reason)
            AND (
              t.transfer_id < iif(r.credit, b.credits_below, b.debits_below)
              AND t.transfer_id >= b.floor
            )
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + r.credit,
      r.indexed_at,
      r.via_credit,
      r.reason,
      b.floor
    FROM runs r
    CROSS JOIN bounds b
    UNION ALL
    SELECT 2 * (
      iif(
        p.via_credit,
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_to_sub_account
          WHERE (t.to_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        ),
        (
          SELECT t.transfer_id
          FROM transfers t INDEXED BY transfers_from_sub_account
          WHERE (t.from_sub_account = p.indexed_at AND t.reason = p.reason)
            AND (t.transfer_id < p.entry_id >> 1 AND t.transfer_id >= p.floor)
          ORDER BY t.transfer_id DESC
          LIMIT 1
        )
      )
    ) + (p.entry_id & 1),
      p.indexed_at,
      p.via_credit,
      p.reason,
      p.floor
    FROM merge p
    WHERE p.entry_id IS NOT NULL
    ORDER BY 1 DESC
    LIMIT ?5
  ),
  merged AS MATERIALIZED (SELECT entry_id FROM merge WHERE entry_id IS NOT NULL)
SELECT e.entry_id AS entry_id,
  a.kind AS account,
  a.asset,
  CAST(iif(e.entry_id & 1, t.amount, -t.amount) AS TEXT) AS delta,
  t.reason,
  iif(
    t.reason = 1,
    '0x' || lower(hex(d.transaction_hash)),
    hex(
      (
        iif(
          t.reason = 6,
          coalesce((SELECT m.match_id FROM matches m WHERE m.quote_id = t.ref), t.ref),
          t.ref
        )
      )
    )
  ) AS ref,
  CAST(iif(e.entry_id & 1, t.to_balance, t.from_balance) AS TEXT) AS balance_after,
  t.at,
  (t.amount BETWEEN CAST(?6 AS INTEGER) AND CAST(?7 AS INTEGER)) AS fits,
  (SELECT count(*) FROM merged) AS merged_count
FROM merged e
CROSS JOIN transfers t ON t.transfer_id = e.entry_id >> 1
CROSS JOIN accounts a ON a.account_id = iif(e.entry_id & 1, t.to_account, t.from_account)
LEFT JOIN deposits d ON t.reason = 1 AND d.deposit_id = t.ref
WHERE (t.amount BETWEEN CAST(?8 AS INTEGER) AND CAST(?9 AS INTEGER))
  OR e.entry_id = (SELECT min(entry_id) FROM merged)
ORDER BY entry_id DESC
LIMIT ?10
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 1000
-- ?6 = "5"
-- ?7 = "700"
-- ?8 = "5"
-- ?9 = "700"
-- ?10 = 51

-- The first transfer since an instant
WITH RECURSIVE
  before_from(position, stride) AS (
    SELECT 0, 1 << 40
    UNION ALL
    SELECT position + iif(
      coalesce(
        (
          SELECT t.at
          FROM transfers t
          WHERE t.transfer_id >= position + stride
          ORDER BY t.transfer_id
          LIMIT 1
        ) < ?1,
        0
      ),
      stride,
      0
    ),
      stride >> 1
    FROM before_from
    WHERE stride > 0
  )
SELECT max(
  position,
  (
    coalesce(
      (
        SELECT up_to_transfer
        FROM journal_seals INDEXED BY journal_seals_delivered
        WHERE delivered_at IS NOT NULL
        ORDER BY number DESC
        LIMIT 1
      ),
      0
    )
  )
) + 1 AS first
FROM before_from
WHERE stride = 0
-- ?1 = 1700000000000

-- The length of a statement
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (
      SELECT sub_account / 2 AS number
      FROM accounts INDEXED BY accounts_owner
      WHERE owner = unhex(?1,'-')
      LIMIT 1
    ) first
    CROSS JOIN json_each(?2) s
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      0,
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min((CAST(?3 AS INTEGER) + 1) >> 1, 4611686018427387904) AS debits_below,
      min(CAST(?4 AS INTEGER) >> 1, 4611686018427387904) AS credits_below
  )
SELECT count(*) AS entries
FROM (
  SELECT 1
  FROM bounds b
  CROSS JOIN runs r
  CROSS JOIN transfers t INDEXED BY transfers_from_sub_account
  WHERE NOT r.via_credit
    AND (t.from_sub_account = r.indexed_at AND t.reason = r.reason)
    AND (
      t.transfer_id < iif(r.credit, b.credits_below, b.debits_below) AND t.transfer_id >= b.floor
    )
    AND 1
  UNION ALL
  SELECT 1
  FROM bounds b
  CROSS JOIN runs r
  CROSS JOIN transfers t INDEXED BY transfers_to_sub_account
  WHERE r.via_credit
    AND (t.to_sub_account = r.indexed_at AND t.reason = r.reason)
    AND (
      t.transfer_id < iif(r.credit, b.credits_below, b.debits_below) AND t.transfer_id >= b.floor
    )
    AND 1
  LIMIT ?5
)
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = 1000001

-- The length of a statement by amount
WITH RECURSIVE
  runs AS MATERIALIZED (
    SELECT s.value ->> 'reason' AS reason,
      s.value ->> 'credit' AS credit,
      s.value ->> 'viaCredit' AS via_credit,
      first.number * 2 + (s.value ->> 'indexedAt' = 'pending') AS indexed_at
    FROM (
      SELECT sub_account / 2 AS number
      FROM accounts INDEXED BY accounts_owner
      WHERE owner = unhex(?1,'-')
      LIMIT 1
    ) first
    CROSS JOIN json_each(?2) s
  ),
  bounds AS MATERIALIZED (
    SELECT max(
      0,
      (
        coalesce(
          (
            SELECT up_to_transfer
            FROM journal_seals INDEXED BY journal_seals_delivered
            WHERE delivered_at IS NOT NULL
            ORDER BY number DESC
            LIMIT 1
          ),
          0
        )
      ) + 1
    ) AS floor,
      min((CAST(?3 AS INTEGER) + 1) >> 1, 4611686018427387904) AS debits_below,
      min(CAST(?4 AS INTEGER) >> 1, 4611686018427387904) AS credits_below
  )
SELECT count(*) AS entries
FROM (
  SELECT 1
  FROM bounds b
  CROSS JOIN runs r
  CROSS JOIN transfers t INDEXED BY transfers_from_sub_account
  WHERE NOT r.via_credit
    AND (t.from_sub_account = r.indexed_at AND t.reason = r.reason)
    AND (
      t.transfer_id < iif(r.credit, b.credits_below, b.debits_below) AND t.transfer_id >= b.floor
    )
    AND (t.amount BETWEEN CAST(?5 AS INTEGER) AND CAST(?6 AS INTEGER))
  UNION ALL
  SELECT 1
  FROM bounds b
  CROSS JOIN runs r
  CROSS JOIN transfers t INDEXED BY transfers_to_sub_account
  WHERE r.via_credit
    AND (t.to_sub_account = r.indexed_at AND t.reason = r.reason)
    AND (
      t.transfer_id < iif(r.credit, b.credits_below, b.debits_below) AND t.transfer_id >= b.floor
    )
    AND (t.amount BETWEEN CAST(?7 AS INTEGER) AND CAST(?8 AS INTEGER))
  LIMIT ?9
)
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = [
--   {"kind":"available","credit":1,"reason":1,"indexedAt":"available","viaCredit":1}
--   {"kind":"available","credit":0,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":3,"indexedAt":"available","viaCredit":0}
--   {"kind":"available","credit":0,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":4,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":6,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":6,"indexedAt":"available","viaCredit":1}
--   {"kind":"pending","credit":0,"reason":7,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":7,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":1,"reason":5,"indexedAt":"pending","viaCredit":0}
--   {"kind":"available","credit":0,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":1,"reason":2,"indexedAt":"available","viaCredit":0}
--   {"kind":"pending","credit":0,"reason":2,"indexedAt":"pending","viaCredit":0}
-- ]
-- ?3 = "4611686018427387904"
-- ?4 = "4611686018427387904"
-- ?5 = "5"
-- ?6 = "700"
-- ?7 = "5"
-- ?8 = "700"
-- ?9 = 1000001

-- The balance of an asset
SELECT CAST(sum(iif(kind = 'available', (balance - promised), 0)) AS TEXT) AS available,
  CAST(sum(iif(kind = 'pending', balance, promised)) AS TEXT) AS pending,
  CAST(sum(promised) AS TEXT) AS promised
FROM accounts
WHERE owner = unhex(?1,'-') AND asset = ?2
GROUP BY asset
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = "usdc"

-- A page of balances
SELECT asset,
  CAST(sum(iif(kind = 'available', (balance - promised), 0)) AS TEXT) AS available,
  CAST(sum(iif(kind = 'pending', balance, promised)) AS TEXT) AS pending,
  CAST(sum(promised) AS TEXT) AS promised
FROM accounts INDEXED BY accounts_owner
WHERE owner = unhex(?1,'-') AND asset > ?2
GROUP BY asset
HAVING max(balance) > 0
ORDER BY asset
LIMIT ?3
-- ?1 = "0196f0c2-0000-7000-8000-000000000001"
-- ?2 = ""
-- ?3 = 51
