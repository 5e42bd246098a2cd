-- Nouns of the domain that statements need again and again. A view names them once.
--
-- A Bid is a requester who buys the asset, an Ask one who sells it. The buyer gives USDC.

-- A quote with its request: who buys, who sells, and what the requester gives when they accept it.
--
--   quote_id   side  venue      buyer_id   seller_id  given_asset    given_amount
--   019a…fd49  Bid   venue_one  requester  maker      usdc           317919 (price and taker fee)
--   019a…fd4a  Ask   venue_one  maker      requester  venue_one:0x1  1000000 (amount)
CREATE VIEW quote_sides AS
SELECT q.quote_id, q.request_id, r.requester_id, q.maker_id,
  q.asset, substr(q.asset, 1, instr(q.asset, ':') - 1) AS venue, q.side, q.amount, q.price,
  q.usdc_amount, q.taker_fee, q.maker_fee, q.credential, q.status, q.expires_at,
  r.status AS request_status, r.expires_at AS request_expires_at,
  iif(q.side = 'Bid', r.requester_id, q.maker_id) AS buyer_id,
  iif(q.side = 'Bid', q.maker_id, r.requester_id) AS seller_id,
  iif(q.side = 'Bid', 'usdc', q.asset) AS given_asset,
  -- An amount above 2^62 is clamped here, no balance reaches it, so the comparison stays right.
  iif(q.side = 'Bid', q.usdc_amount + q.taker_fee, CAST(q.amount AS INTEGER)) AS given_amount,
  -- The same, exact, for texts.
  iif(q.side = 'Bid', CAST(q.usdc_amount + q.taker_fee AS TEXT), q.amount) AS given_amount_text
FROM quotes q JOIN requests r ON r.request_id = q.request_id;

-- A match by side: who bought and sold, what each pays, and the reference of each leg.
--
-- The maker’s leg carries the quote’s id, as the maker’s reserve does. So the journal’s unique key
-- rejects trading one quote twice.
--
--   match_id  side  buyer_id   seller_id  buyer_fee  seller_fee  buyer_ref  seller_ref
--   019a…94b0 Bid   requester  maker      taker_fee  maker_fee   match_id   quote_id
CREATE VIEW match_sides AS
SELECT m.match_id, m.request_id, m.quote_id, m.requester_id, m.maker_id, m.asset, m.side, m.amount,
  m.usdc_amount, m.at, m.matched_group,
  iif(m.side = 'Bid', m.requester_id, m.maker_id) AS buyer_id,
  iif(m.side = 'Bid', m.maker_id, m.requester_id) AS seller_id,
  iif(m.side = 'Bid', m.taker_fee, m.maker_fee) AS buyer_fee,
  iif(m.side = 'Bid', m.maker_fee, m.taker_fee) AS seller_fee,
  iif(m.side = 'Bid', m.match_id, m.quote_id) AS buyer_ref,
  iif(m.side = 'Bid', m.quote_id, m.match_id) AS seller_ref,
  iif(m.side = 'Bid', 'usdc', m.asset) AS given_asset,
  iif(m.side = 'Bid', m.usdc_amount + m.taker_fee, m.amount) AS given_amount
FROM matches m;

-- Deposits below the minimum with the columns of `deposits`.
--
--   deposit_id  address    asset  amount    status         credited_at
--   019a…0d11   0x6cda…43f6  usdc   ’250000’  below_minimum  NULL
--
-- CROSS JOIN keeps the order of an index on small_deposits.
CREATE VIEW small_deposit_records AS
SELECT s.small_id, s.key, s.due, s.deposit_id, s.chain, s.transaction_hash, s.token, s.ordinal,
  s.position, s.block_number, a.address, s.user_id,
  coalesce(
    s.venue || ':0x' || coalesce(nullif(ltrim(lower(hex(s.asset_id)), '0'), ''), '0'),
    'usdc') AS asset,
  CAST(s.amount AS TEXT) AS amount, s.required_confirmations, 'below_minimum' AS status,
  s.detected_at, NULL AS credited_at
FROM small_deposits s CROSS JOIN deposit_addresses a
  ON a.user_id = s.user_id AND a.chain = s.chain AND a.nonce = s.nonce;

-- The events of streams, each as a row. `run_id` and `run_seq` (the number of the run’s last
-- event) find its run by an index. src/platform/event-forms.ts explains `code`, `ids` and `body`.
-- `ids` begins with the event’s own, as hex text: at most 80 bytes. A damaged run shows none, or
-- events without a code.
--
--   run_id    stream_id  run_seq  seq  at     code  type            ids        body
--   95420416  5          2        2    1764…  2     request.closed  019A…9EF4  [0,2,”matched”]
--
-- CROSS JOIN keeps the order of an index of event_runs.
CREATE VIEW stream_events AS
SELECT r.run_id, r.stream_id, r.last_seq AS run_seq, r.first_seq + r.key AS seq, r.at,
  r.event ->> 1 AS code,
  CASE r.event ->> 1
    WHEN 1 THEN 'request.opened'
    WHEN 2 THEN 'request.closed'
    WHEN 3 THEN 'quote.opened'
    WHEN 4 THEN 'quote.received'
    WHEN 5 THEN 'quote.closed'
    WHEN 6 THEN 'quote.closed'
    WHEN 7 THEN 'match.created'
    WHEN 8 THEN 'trade.printed'
    WHEN 9 THEN 'protection.tripped'
    WHEN 10 THEN 'protection.reset'
    WHEN 11 THEN 'deposit.detected'
    WHEN 12 THEN 'deposit.credited'
    WHEN 13 THEN 'deposit.orphaned'
    WHEN 14 THEN 'deposit.quarantined'
    WHEN 15 THEN 'deposit.below_minimum'
    WHEN 16 THEN 'withdrawal.awaiting_approval'
    WHEN 17 THEN 'withdrawal.queued'
    WHEN 18 THEN 'withdrawal.submitted'
    WHEN 19 THEN 'withdrawal.settled'
    WHEN 20 THEN 'withdrawal.failed'
    WHEN 21 THEN 'withdrawal.cancelled'
    WHEN 22 THEN 'account.notice'
    WHEN 23 THEN 'request.closed'
    WHEN 24 THEN 'market.result'
  END AS type,
  hex(substr(r.ids, 1 + 16 * ((r.event ->> 0) - (r.events ->> '$[0][0]')), 80)) AS ids,
  r.event AS body
FROM (
  SELECT r.*, e.key, iif(e.type = 'array', e.value, '[]') AS event
  FROM event_runs r CROSS JOIN json_each(iif(json_valid(r.events), r.events, '[]')) e
) r;
