"""Puts the messages of a stream in order, each once, across connections. Pure."""

from __future__ import annotations

from .models import Hello, Resync, Snapshot, StreamMessage

MOST_HELD = 1_000
"""With more messages out of order than this, the connection is broken."""


class StreamOrder:
    def __init__(self, *, has_snapshot: bool, since: int | None, filtered: bool = False) -> None:
        self._has_snapshot = has_snapshot
        self._filtered = filtered
        """The service leaves out the events of other assets, so numbers have gaps."""
        self.since = since
        """Number of the last message in order. None: a new snapshot comes first."""
        self._sent = 0
        self._held: dict[int, StreamMessage] = {}

    def take(self, message: StreamMessage) -> list[StreamMessage]:
        """The messages to deliver now: this one, and those that waited for it."""
        match message:
            case Hello():
                if self.since is None and not self._has_snapshot:
                    self.since = message.seq
                return [message]
            case Resync():
                self._held.clear()
                self.since = None if self._has_snapshot else message.seq
                return [message]
            case Snapshot():
                if not message.data.more:
                    self.since = message.seq
                return [message, *self._released()]
        if self.since is not None and message.seq <= self.since:
            return []
        if self.since is None or (message.seq > self.since + 1 and not self._filtered):
            if len(self._held) < MOST_HELD:
                self._held[message.seq] = message
            return []
        self.since = message.seq
        return [message, *self._released()]

    def pong(self, seq: int) -> None:
        """Records the last number that the service has sent."""
        self._sent = max(self._sent, seq)

    @property
    def has_gap(self) -> bool:
        """Whether an event that the service has sent is missing."""
        if self._filtered:
            return False
        return self.since is not None and (bool(self._held) or self._sent > self.since)

    def disconnected(self) -> None:
        """Drops what was kept back, because the next connection replays it."""
        self._held.clear()
        self._sent = 0

    def _released(self) -> list[StreamMessage]:
        messages: list[StreamMessage] = []
        while self.since is not None and (message := self._held.pop(self.since + 1, None)):
            self.since += 1
            messages.append(message)
        if self.since is not None:
            for seq in [seq for seq in self._held if seq <= self.since]:
                del self._held[seq]
        return messages
