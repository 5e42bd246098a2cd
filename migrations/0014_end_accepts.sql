-- However a request ends, nothing is accepted for it any more.
CREATE TRIGGER requests_end_accept AFTER UPDATE OF status ON requests
WHEN OLD.status = 'open' AND NEW.status <> 'open' BEGIN
  UPDATE standing_accepts SET price = NULL
    WHERE request_id = OLD.request_id AND price IS NOT NULL;
END;
