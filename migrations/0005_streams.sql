-- Streams

-- Numbered sequences of events. Opened by the first event or subscriber (src/streams/event-log.ts).
-- Removed when nothing has happened for three hours and nobody subscribes
-- (src/streams/trim-streams.ts).
--
-- Example row:
--   stream_id 5, name ’book:venue_one:0x1’, last_seq 2, pushed_seq 2, first_seq 1,
--   active_at 1764551300000
CREATE TABLE streams (
  stream_id INTEGER PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,           -- ’book:<venue>:<asset_id>’, ’venue:<venue>’ or ’account:<user_id>’
  last_seq INTEGER NOT NULL,    -- the newest event’s number
  pushed_seq INTEGER NOT NULL,  -- up to here the stream’s object has pushed, cron notifies it again
                                -- when it is behind
  first_seq INTEGER NOT NULL,   -- the oldest event’s number that is still kept, the next one’s if
                                -- none is
  active_at INTEGER NOT NULL    -- when it was opened or had an event, at most an hour behind, so
                                -- that most events write no index row, also the last time that cron
                                -- asked its object whether it has sockets
) STRICT;

-- Events, subscriptions and replays find the stream by it.
CREATE UNIQUE INDEX streams_name_unique ON streams (name);

-- Cron finds the streams that may be dormant.
CREATE INDEX streams_idle ON streams (active_at);

-- The highest number of any stream that was removed. New streams start above it, so a number never
-- repeats although nothing else is remembered of a removed stream. One row, written by
-- src/streams/trim-streams.ts, a restore raises it.
--
-- Example row:
--   only 1, last_seq 40
CREATE TABLE removed_streams (
  only INTEGER PRIMARY KEY NOT NULL,
  last_seq INTEGER NOT NULL,
  CONSTRAINT removed_streams_only CHECK (only = 1)
) STRICT;

-- Events, written in the batch of the change that they report, so an event exists exactly when its
-- change does. A row is a run: the events that a commit group wrote to a stream, at most 256
-- (src/platform/announce.ts). The view stream_events shows each of them. Kept for two hours.
--
-- Rows are appended: `run_id` is the commit group’s number times 2^20, plus the run’s place in the
-- group. So pages are full, a group’s runs are a range, and trimming frees whole pages. A key that
-- begins with the stream would split a page at each of many places and leave it half full. A table
-- without rowid keeps only 1 kB of a row on its page, a long run would take a page of its own.
--
-- Example row:
--   run_id 95420416, stream_id 5, last_seq 2, first_seq 2, at 1764551353797,
--   ids x’019a…9ef4’, events ’[[0,2,”matched”]]’
CREATE TABLE event_runs (
  run_id INTEGER PRIMARY KEY NOT NULL,
  stream_id INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,   -- of the last event of the run
  first_seq INTEGER NOT NULL,  -- of the first, without gaps, only a restore skips numbers
  at INTEGER NOT NULL,
  ids BLOB NOT NULL,           -- of the events, one after the other
  events TEXT NOT NULL         -- JSON array of the code and the values of each, in order
                               -- (src/platform/event-forms.ts). What the audience may not see is
                               -- left out
) STRICT;

-- Replays and the checks of a stream read its runs in order.
CREATE UNIQUE INDEX event_runs_stream ON event_runs (stream_id, last_seq);

-- A run has the next numbers of its stream, so two writers cannot leave a gap or share a number.
-- The stream follows, its `active_at` only once an hour (ACTIVE_WITHIN_MS), because that changes an
-- index.
CREATE TRIGGER event_runs_number BEFORE INSERT ON event_runs BEGIN
  SELECT RAISE(ABORT, 'append-only: event number')
    WHERE NEW.first_seq IS NOT (SELECT last_seq + 1 FROM streams WHERE stream_id = NEW.stream_id)
      OR NEW.last_seq < NEW.first_seq
      OR NEW.last_seq - NEW.first_seq + 1 IS NOT json_array_length(NEW.events);
END;

CREATE TRIGGER event_runs_advance AFTER INSERT ON event_runs BEGIN
  UPDATE streams SET last_seq = NEW.last_seq WHERE stream_id = NEW.stream_id;
  UPDATE streams SET active_at = NEW.at
    WHERE stream_id = NEW.stream_id AND active_at < NEW.at - 3600000;
END;

-- A client may already have received the events.
CREATE TRIGGER event_runs_update BEFORE UPDATE ON event_runs BEGIN
  SELECT RAISE(ABORT, 'append-only: event');
END;

-- Runs of events that are about to be written. Those of a commit group are inserted by one
-- statement (src/platform/announce.ts), of each stream in order. Always empty: the trigger below
-- writes the runs and stores no command.
--
-- Example row:
--   stream ’book:venue_one:0x1’, n 1, written_group 91, at 1764551353797, ids x’019a…9ef4’,
--   events ’[[0,2,”matched”]]’
CREATE TABLE event_commands (
  stream TEXT NOT NULL,
  n INTEGER NOT NULL,  -- how many events
  written_group INTEGER NOT NULL,
  at INTEGER NOT NULL,
  ids BLOB NOT NULL,
  events TEXT NOT NULL
) STRICT;

-- Opens the stream, and writes the run with its next numbers.
CREATE TRIGGER event_commands_write BEFORE INSERT ON event_commands BEGIN
  INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
    VALUES (NEW.stream,
      coalesce((SELECT max(last_seq) FROM removed_streams), 0),
      coalesce((SELECT max(last_seq) FROM removed_streams), 0),
      coalesce((SELECT max(last_seq) FROM removed_streams), 0) + 1,
      NEW.at)
    ON CONFLICT (name) DO NOTHING;
  INSERT INTO event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)
    VALUES (
      coalesce(
        (SELECT max(r.run_id) + 1 FROM event_runs r
          WHERE r.run_id >= NEW.written_group << 20 AND r.run_id < (NEW.written_group + 1) << 20),
        NEW.written_group << 20),
      (SELECT stream_id FROM streams WHERE name = NEW.stream),
      (SELECT last_seq FROM streams WHERE name = NEW.stream) + NEW.n,
      (SELECT last_seq FROM streams WHERE name = NEW.stream) + 1,
      NEW.at, NEW.ids, NEW.events);
  SELECT RAISE(IGNORE);
END;

-- Streams that an object has sockets for, only they are notified. An object writes its row before
-- it reads the snapshot for its first socket, and deletes it after the last
-- (src/streams/replay.ts). Each registration has a token of its own, above the earlier ones of its
-- stream, so a deletion or a registration that arrives late does not remove the next one.
--
-- Example row:
--   name ’book:venue_one:0x1’, token ’019ad70e-5c10-7…’, since 1764551290000
CREATE TABLE stream_subscribers (
  name TEXT PRIMARY KEY NOT NULL,
  token TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT;
