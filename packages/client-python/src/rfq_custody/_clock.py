"""The service's clock as the client knows it, and deadlines by it. Seconds, as in `time`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ._wire import encode

LIFE = 600.0
"""It is compared again after this time."""
RETRY = 5.0
"""After a failed comparison it is tried again after this time."""
LONGEST_WAIT = 1.0
"""A caller does not wait longer than this for a comparison."""
MARGIN = 0.05
"""The service's instants may differ by this from what the clock says, besides its own error."""


@dataclass(slots=True)
class SentAt:
    """An attempt: when it was sent by the monotonic clock, and the `ahead` of then."""

    at: float = 0.0
    ahead: float = 0.0


class ServerClock:
    """Anchored to the monotonic clock, because others may set the wall clock at any time.

    A monotonic clock may stand still while the machine sleeps, so what the service says of its time
    counts more.
    """

    def __init__(self, read: Callable[[], Awaitable[float]]) -> None:
        self._read = read
        """Returns the service's Unix seconds."""
        self.ahead = time.time() - time.monotonic()
        """The service's Unix seconds minus `time.monotonic()`."""
        self._error = 0.0
        """By how much it may be wrong: half of the time that the comparison took."""
        self._compared = False
        self._due_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def now(self) -> float:
        """The service's Unix seconds."""
        return time.monotonic() + self.ahead

    async def fresh(self, left: float) -> None:
        """Compares the clocks, unless that was done recently. Never raises."""
        if time.monotonic() >= self._due_at:
            await self._again(left)

    def at_least(self, unix: float) -> None:
        """The service said that it is at least this late."""
        if not self._compared or unix > self.now() + self._error:
            self.ahead = unix - time.monotonic()

    def correct(self, ahead: float, skew: float) -> None:
        """A timestamp that was made with this `ahead` was wrong by so much."""
        self.ahead = ahead - skew
        self._due_at = float("-inf")

    async def was_wrong(self, unix: float, sent: SentAt, left: float) -> bool:
        """Whether the service's instant contradicts what the clock said during an attempt.

        Then the clocks have been compared since.
        """
        margin = self._error + MARGIN
        early = unix < sent.at + sent.ahead - margin
        late = unix > time.monotonic() + sent.ahead + margin
        if not early and not late:
            return False
        # Another call may have compared them meanwhile.
        if self.ahead == sent.ahead:
            self.at_least(unix)
            await self._again(left)
        return True

    async def _again(self, left: float) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._compare())
        await asyncio.wait({self._reading}, timeout=max(0.0, min(left / 2, LONGEST_WAIT)))

    async def _compare(self) -> None:
        before = time.monotonic()
        self._due_at = before + RETRY
        try:
            unix = await self._read()
        except Exception:
            return
        after = time.monotonic()
        self.ahead = unix - (before + after) / 2
        self._error = (after - before) / 2
        self._compared = True
        self._due_at = after + LIFE


class Deadline:
    """Until when a call may take effect: `not_after` if given, else `max_age_ms` after the call."""

    def __init__(self, clock: ServerClock, given: str | None, max_age_ms: int | None) -> None:
        self._clock = clock
        self._given = None if given is None else datetime.fromisoformat(given).timestamp()
        age = None if given is not None or max_age_ms is None else max_age_ms / 1_000
        self._max_age = float("inf") if age is None else age
        self.exists = given is not None or age is not None
        self._begun_at = time.monotonic()
        self._begun_at_wall = time.time()

    @property
    def send_before(self) -> float:
        """By `time.monotonic()`. From then on nothing is sent."""
        if self._given is not None:
            return self._given - self._clock.ahead
        return self._begun_at + self._max_age

    def fields(self) -> dict[str, Any]:
        """`not_after` as it is sent, if there is a deadline."""
        if not self.exists:
            return {}
        at = self._given or self.send_before + self._clock.ahead
        return {"not_after": encode(datetime.fromtimestamp(round(at, 3), UTC))}

    @property
    def allows_correction(self) -> bool:
        """Whether there is time to send it again, after the clock turned out to be wrong.

        By both clocks of this machine, because the monotonic one may have stood still.
        """
        age = max(time.monotonic() - self._begun_at, time.time() - self._begun_at_wall)
        return self._given is None and age < self._max_age


def deadline_passed_at(answer: Any) -> float | None:
    """The instant at which the service found a deadline passed, in a problem or among results."""
    if not isinstance(answer, dict):
        return None
    results = answer.get("results") or ()
    for refused in (answer, *(each["problem"] for each in results)):
        if refused and refused.get("code") == "deadline_passed" and "server_time" in refused:
            return datetime.fromisoformat(refused["server_time"]).timestamp()
    return None
