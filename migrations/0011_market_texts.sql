-- What a market is about, beside its title.

-- The question whose outcomes have the same id at the venue.
-- Example: event_id ’rain-paris-2026-06-01’
ALTER TABLE markets ADD COLUMN event_id TEXT;

-- It may change while the market trades.
-- Example: category ’Weather’
ALTER TABLE markets ADD COLUMN category TEXT;

-- Example: description ’Yes if it rains in Paris on 1 June 2026.’
ALTER TABLE markets ADD COLUMN description TEXT;

-- Where the rules of the result are.
-- Example: rules_url ’https://venue-one.example/rain/rules’
ALTER TABLE markets ADD COLUMN rules_url TEXT;
