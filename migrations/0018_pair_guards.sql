-- What the triggers guarantee of pairs.

-- Two markets never share a complement.
CREATE UNIQUE INDEX markets_complement ON markets (complement) WHERE complement IS NOT NULL;

-- Those whose holders wait for their payment.
CREATE INDEX markets_unpaid ON markets (settles_at)
  WHERE settles_at IS NOT NULL AND paid_at IS NULL;

-- A token pays for one outcome of its venue’s conditions.
CREATE UNIQUE INDEX markets_condition
  ON markets (substr(asset, 1, instr(asset, ':')), condition, slot) WHERE condition IS NOT NULL;

-- Those whose result is on a chain, by the first of both tokens, until it is final.
CREATE INDEX markets_unread ON markets (asset) WHERE slot = 0 AND read_at IS NULL;

-- A pair never changes, and a result moves only its own settlement.
CREATE TRIGGER markets_pair BEFORE UPDATE ON markets BEGIN
  SELECT RAISE(ABORT, 'append-only: a pair never changes')
    WHERE (OLD.complement IS NOT NULL AND NEW.complement IS NOT OLD.complement)
      OR NEW.complement = NEW.asset
      OR (OLD.complement IS NOT NULL
        AND (NEW.condition, NEW.slot) IS NOT (OLD.condition, OLD.slot))
      OR (NEW.condition IS NULL) <> (NEW.slot IS NULL)
      OR (NEW.condition IS NOT NULL AND (NEW.complement IS NULL OR NEW.slot NOT IN (0, 1)))
      OR (NEW.read_at IS NOT OLD.read_at
        AND (OLD.read_at IS NOT NULL OR NEW.condition IS NULL OR NEW.settles_at IS NULL
          OR NEW.read_at < NEW.settles_at))
      OR (NEW.settles_at IS NOT OLD.settles_at AND NEW.settles_at IS NOT (SELECT settles_at
        FROM market_results WHERE asset = OLD.asset ORDER BY result_id DESC LIMIT 1))
      -- A deposit of the token brings another holder.
      OR (OLD.paid_at IS NOT NULL AND NEW.paid_at IS NOT OLD.paid_at
        AND (NEW.paid_at IS NOT NULL OR NEW.condition IS NULL))
      OR (NEW.paid_at IS NOT NULL AND (NEW.settles_at IS NULL OR NEW.paid_at < NEW.settles_at
        OR (NEW.condition IS NOT NULL AND NEW.read_at IS NULL)));
END;

-- A result follows the one that the market has, and ends its trading. A settled one is final.
DROP TRIGGER market_results_insert;
CREATE TRIGGER market_results_insert BEFORE INSERT ON market_results BEGIN
  SELECT RAISE(ABORT, 'append-only: market result exists')
    WHERE EXISTS (SELECT 1 FROM market_results WHERE result_id = NEW.result_id);
  SELECT RAISE(ABORT, 'a result corrects the one before')
    WHERE NOT EXISTS (SELECT 1 FROM markets
      WHERE asset = NEW.asset AND result IS NEW.previous AND result IS NOT NEW.result);
  SELECT RAISE(ABORT, 'append-only: a settled result is final')
    WHERE EXISTS (SELECT 1 FROM markets WHERE asset = NEW.asset
      AND (iif(condition IS NULL, settles_at, read_at) <= NEW.at
        OR (complement IS NULL) <> (NEW.settles_at IS NULL)
        OR NEW.settles_at < NEW.at));
END;

DROP TRIGGER market_results_apply;
CREATE TRIGGER market_results_apply AFTER INSERT ON market_results BEGIN
  UPDATE markets SET result = NEW.result, closed_at = coalesce(closed_at, NEW.at),
      changed_group = NEW.set_group, settles_at = NEW.settles_at
    WHERE asset = NEW.asset;
END;

DROP TRIGGER market_results_update;
CREATE TRIGGER market_results_update BEFORE UPDATE ON market_results BEGIN
  SELECT RAISE(ABORT, 'append-only: market result')
    WHERE (NEW.result_id, NEW.asset, NEW.result, NEW.previous, NEW.at, NEW.set_group,
        NEW.settles_at)
        IS NOT (OLD.result_id, OLD.asset, OLD.result, OLD.previous, OLD.at, OLD.set_group,
        OLD.settles_at)
      OR NEW.told_up_to < OLD.told_up_to OR OLD.told_at IS NOT NULL;
END;

-- Holders of a settled token who came later are paid, too.
CREATE TRIGGER deposits_unpaid AFTER UPDATE OF status ON deposits
WHEN NEW.status = 'credited' BEGIN
  UPDATE markets SET paid_at = NULL WHERE asset = NEW.asset AND paid_at IS NOT NULL;
END;

-- What a quote reserves is promised while it is open, as before.
CREATE TRIGGER quotes_promise AFTER INSERT ON quotes WHEN NEW.status = 'open' BEGIN
  UPDATE accounts SET promised = promised + NEW.reserve
    WHERE owner = NEW.maker_id AND asset = NEW.reserve_asset AND kind = 'available'
      AND promised + NEW.reserve <= balance;
  SELECT RAISE(ABORT, 'balance not moved: the maker cannot promise it') WHERE changes() <> 1;
END;

CREATE TRIGGER quotes_unpromise AFTER UPDATE OF status ON quotes
WHEN OLD.status = 'open' AND NEW.status <> 'open' BEGIN
  UPDATE accounts SET promised = iif(OLD.stuck_at IS NULL, promised - OLD.reserve,
      (SELECT coalesce(sum(q.reserve), 0) FROM quotes q INDEXED BY quotes_open_maker
        WHERE q.maker_id = OLD.maker_id AND q.status = 'open'
          AND q.reserve_asset = OLD.reserve_asset))
    WHERE owner = OLD.maker_id AND asset = OLD.reserve_asset AND kind = 'available'
      AND (OLD.stuck_at IS NOT NULL OR promised >= OLD.reserve);
  SELECT RAISE(ABORT, 'balance not moved: nothing is promised for the quote')
    WHERE changes() <> 1;
END;

-- The pair is a term of the quote. No statement of the service changes it.
CREATE TRIGGER quotes_complement BEFORE UPDATE OF complement ON quotes BEGIN
  SELECT RAISE(ABORT, 'append-only: the terms of a quote');
END;

-- As before. And a pair pays no more USDC than it holds, whoever receives it, and what it issues or
-- takes back is bought and sold by the user alone. A maker’s token of a pair’s trade is paid with
-- the rest of the pair’s USDC.
DROP TRIGGER transfers_post;
CREATE TRIGGER transfers_post AFTER INSERT ON transfers BEGIN
  -- Before the insert an id that the database will give reads as -1, and so would an explicit -1.
  SELECT RAISE(ABORT, 'append-only: the database numbers transfers') WHERE NEW.transfer_id < 1;
  UPDATE accounts SET balance = NEW.from_balance,
      traded = traded
        + iif(NEW.reason = 6 AND asset <> 'usdc' AND kind <> 'external', NEW.amount, 0),
      traded_usdc = traded_usdc + iif(NEW.reason = 6 AND asset <> 'usdc' AND kind <> 'external',
        coalesce((SELECT iif(owner = m.requester_id, m.usdc_amount - m.taker_fee,
              iif(m.complement IS NULL, m.usdc_amount, m.amount - m.usdc_amount) - m.maker_fee)
            FROM matches m WHERE m.match_id = NEW.ref OR m.quote_id = NEW.ref),
          (SELECT r.usdc_amount FROM redemptions r WHERE r.redemption_id = NEW.ref)), 0)
    WHERE account_id = NEW.from_account
      AND NEW.from_balance >= iif(kind <> 'external', promised,
        iif(asset = 'usdc' AND owner >= CAST('pair:' AS BLOB) AND owner < CAST('pair;' AS BLOB),
          0, -4611686018427387904));
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
  UPDATE accounts SET balance = NEW.to_balance,
      traded = traded
        + iif(NEW.reason = 6 AND asset <> 'usdc' AND kind <> 'external', NEW.amount, 0),
      traded_usdc = traded_usdc + iif(NEW.reason = 6 AND asset <> 'usdc' AND kind <> 'external',
        coalesce((SELECT iif(owner = m.requester_id, m.usdc_amount + m.taker_fee,
              iif(m.complement IS NULL, m.usdc_amount, m.amount - m.usdc_amount) + m.maker_fee)
            FROM matches m WHERE m.match_id = NEW.ref OR m.quote_id = NEW.ref),
          (SELECT r.usdc_amount FROM redemptions r WHERE r.redemption_id = NEW.ref)), 0)
    WHERE account_id = NEW.to_account AND NEW.to_balance <= 4611686018427387904;
  SELECT RAISE(ABORT, 'balance not moved') WHERE changes() <> 1;
END;
