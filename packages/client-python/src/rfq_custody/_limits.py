"""What the service reports about its rate limits, in RateLimit and RateLimit-Policy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate limit that counts the calls of this client."""

    name: str
    """For example `read` or `read-credential`."""
    quota: int | None = None
    """Calls that are allowed within `window_secs`. None if the service has not reported it."""
    window_secs: int | None = None
    remaining: int | None = None
    """Calls that are left. None if the service does not count this limit exactly."""
    resets_at: datetime | None = None
    """When `remaining` is out of date, by our clock."""


class RateLimits:
    """Remembers the last report of each limit."""

    def __init__(self) -> None:
        self._limits: dict[str, RateLimit] = {}

    def read(self, headers: Mapping[str, str], now: datetime | None = None) -> None:
        now = now or datetime.now(UTC)
        for name, given in _items(headers.get("ratelimit-policy", "")):
            known = self._limits.get(name, RateLimit(name))
            quota, window = given.get("q", known.quota), given.get("w", known.window_secs)
            self._limits[name] = replace(known, quota=quota, window_secs=window)
        for name, given in _items(headers.get("ratelimit", "")):
            known = self._limits.get(name, RateLimit(name))
            ends = now + timedelta(seconds=given.get("t", 0))
            self._limits[name] = replace(known, remaining=given.get("r"), resets_at=ends)

    def current(self, now: datetime | None = None) -> list[RateLimit]:
        """A report whose time is over says nothing any more."""
        now = now or datetime.now(UTC)
        return [
            replace(limit, remaining=None, resets_at=None)
            if limit.resets_at is not None and limit.resets_at <= now
            else limit
            for limit in self._limits.values()
        ]


def _items(header: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Reads `"read";q=1000;w=10, "trade";q=300;w=10`. The names have no comma or semicolon."""
    for text in header.split(","):
        if (match := re.fullmatch(r'\s*"([^"]*)"(.*)', text)) is not None:
            pairs = re.findall(r";\s*([a-z]+)=(\d+)", match[2])
            yield match[1], {key: int(value) for key, value in pairs}
