"""The limits of unanswered commands that the service publishes, and queues that keep to them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ._errors import NotSent

LIFE = 600.0
"""Limits are read again after this time, if a command has to wait."""
RETRY = 5.0
"""After a failed read it is tried again after this time."""


class Turns:
    """Lets so many commands be unanswered at a time. Others wait in their order."""

    def __init__(self, limit: int, on_wait: Callable[[], None]) -> None:
        self._limit = limit
        self._on_wait = on_wait
        self._taken = 0
        # A set that keeps its order.
        self._waiting: dict[Callable[[], bool], None] = {}

    def set_limit(self, limit: int) -> None:
        self._limit = limit
        self._next()

    def take(self, ready: Callable[[], bool]) -> bool:
        """Takes a place, or calls `ready` once there is one, which returns whether it uses it."""
        if self._taken < self._limit and not self._waiting:
            self._taken += 1
            return True
        self._waiting[ready] = None
        self._on_wait()
        return False

    def give(self) -> None:
        self._taken -= 1
        self._next()

    @contextlib.asynccontextmanager
    async def turn(self, name: str, ends_at: float) -> AsyncIterator[None]:
        """Begins in its turn. Raises `NotSent` if that does not come before `ends_at`."""
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ready() -> bool:
            if given.done():
                return False
            given.set_result(None)
            return True

        if not self.take(ready):
            left = None if ends_at == float("inf") else max(0.0, ends_at - time.monotonic())
            try:
                await asyncio.wait({given}, timeout=left)
                if not given.done():
                    raise NotSent(name)
            except BaseException:
                self._waiting.pop(ready, None)
                # Both may happen before this task goes on.
                if given.done():
                    self.give()
                raise
        try:
            yield
        finally:
            self.give()

    def _next(self) -> None:
        while self._waiting and self._taken < self._limit:
            ready = next(iter(self._waiting))
            del self._waiting[ready]
            self._taken += 1
            if not ready():
                self._taken -= 1


class CommandLimits:
    """What a client may have unanswered at a time. Known once two commands come at a time."""

    def __init__(self, read: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._read = read
        """Returns the `limits` of GET /config."""
        self.commands = Turns(1, self._on_wait)
        """Of a user in one book. A client does not know the book of a quote, so it counts all."""
        self.several_quotes = Turns(1, self._on_wait)
        """Calls and commands that place several quotes."""
        self.per_socket = float("inf")
        self._due_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def _on_wait(self) -> None:
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + LIFE
            self._reading = asyncio.create_task(self._learn())

    async def _learn(self) -> None:
        published: dict[str, Any] = {}
        try:
            published = await self._read()
        except Exception:
            self._due_at = time.monotonic() + RETRY
            if self.per_socket != float("inf"):
                return

        def limit(name: str, usual: int) -> int:
            value = published.get(name)
            return value if isinstance(value, int) and value >= 1 else usual

        self.per_socket = limit("commands_in_flight_per_socket", 8)
        self.several_quotes.set_limit(limit("quote_calls_in_flight_per_user", 2))
        self.commands.set_limit(limit("commands_in_flight_per_user_and_book", 16))
