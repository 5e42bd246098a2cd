-- A full side of a request takes a better quote in the place of its worst one
-- (src/rfq/quote-preconditions.ts).

-- 1: a better quote took the place of this one, whose id is ended_by. The CHECK of cancel_reason
-- cannot take another word. Example: outbid NULL
ALTER TABLE quotes ADD COLUMN outbid INTEGER CONSTRAINT quotes_outbid
  CHECK (outbid IS NULL OR outbid = 1 AND status = 'cancelled' AND cancel_reason IS NULL);

-- Why a quote ended, as its maker reads it.
ALTER TABLE quotes ADD COLUMN close_reason TEXT GENERATED ALWAYS AS
  (iif(outbid = 1, 'outbid', coalesce(cancel_reason, nullif(status, 'open')))) VIRTUAL;

-- Quotes on a request of one status from the best price on. Lists of all statuses merge the five.
-- The last columns are for the limits, which count the open quotes of a side, of all makers and of
-- one.
DROP INDEX quotes_request_status;
CREATE INDEX quotes_request_status
  ON quotes (request_id, status, price, opened_at, quote_id, maker_id, side, stuck_at);
