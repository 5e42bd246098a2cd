"""The open requests of a venue as a live map, which keeps them quoted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any, Literal, Self

from ._errors import NoAnswer, Problem
from ._stream import Stream
from .models import (
    Hello,
    Quote,
    QuoteClosed,
    QuoteClosedData,
    QuoteOpened,
    RequestClosed,
    RequestItem,
    RequestOpened,
    Resync,
    Side,
    Snapshot,
    SnapshotData,
    StreamMessage,
)

RETRY = 1.0
"""A request without an own quote is tried again after this time, as funds may be there."""
RETRY_SPACING = 0.1
"""How far apart such tries are, so that many requests that cannot be quoted cost little."""
AT_ONCE = 8
"""Commands of one socket that the service works on at once (`limits` of GET /config)."""
TICK = 0.1
ENDS_REQUEST = {"own_request", "request_expired", "request_not_open", "request_unknown"}
"""What ends a request for its makers. Its own message may arrive later."""

From = Literal["market", "account"]
Unquoted = tuple[str, Side]
"""The id and a side of an open request without an own open quote."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open request of somebody else, with your own open quotes on it."""

    request: RequestItem
    quotes: list[Quote]


@dataclass(slots=True)
class _Half:
    """What one stream has sent, and whether it is connected and complete."""

    parts: list[SnapshotData] = field(default_factory=list)
    has_snapshot: bool = False
    live: bool = False


class VenueRequests:
    """What both streams report. Pure."""

    def __init__(self, label: str | None = None) -> None:
        self.open: dict[str, OpenRequest] = {}
        """By id. Without the user's own, which cannot be quoted."""
        self._label = label
        self._halves: dict[From, _Half] = {"market": _Half(), "account": _Half()}
        self._own_requests: set[str] = set()
        self._quotes: dict[str, Quote] = {}
        self._ended: set[str] = set()
        """Quotes that ended while commands were in flight, whose results may arrive later."""
        self._in_flight = 0
        self._tried: dict[Unquoted, float] = {}
        """When a side may be tried again. `inf` while it is being quoted."""
        self._retry_at = -inf

    @property
    def has_snapshot(self) -> bool:
        return all(half.has_snapshot for half in self._halves.values())

    def lost(self, source: From) -> None:
        self._halves[source].live = False

    def apply(self, source: From, message: StreamMessage) -> None:
        half = self._halves[source]
        match message:
            case Hello():
                half.parts, half.live = [], half.has_snapshot
                self._tried = {key: at for key, at in self._tried.items() if at == inf}
            case Resync():
                half.parts, half.live, half.has_snapshot = [], False, False
            case Snapshot():
                half.parts.append(message.data)
                if not message.data.more:
                    half.live = half.has_snapshot = True
                    parts, half.parts = half.parts, []
                    self._replace(source, parts)
            case RequestOpened() if source == "market":
                self._open_request(message.data)
            case RequestOpened():
                self._own_requests.add(message.data.request_id)
                self._drop(message.data.request_id)
            case RequestClosed():
                if source == "account":
                    self._own_requests.discard(message.data.request_id)
                self._drop(message.data.request_id)
            case QuoteOpened():
                self._open_quote(message.data)
            case QuoteClosed():
                self._close_quote(message.data)

    def _replace(self, source: From, parts: list[SnapshotData]) -> None:
        requests = [request for part in parts for request in part.requests]
        if source == "market":
            self.open = {}
            for request in requests:
                self._open_request(request)
            self._tried = {key: at for key, at in self._tried.items() if key[0] in self.open}
            return
        self._own_requests = {request.request_id for request in requests}
        for request_id in self._own_requests:
            self._drop(request_id)
        quotes = [quote for part in parts for quote in part.quotes or []]
        self._quotes = {
            quote.quote_id: quote
            for quote in quotes
            if quote.status == "open" and self._is_own(quote)
        }
        for request_id in self.open:
            self._show_quotes(request_id)

    def _open_request(self, request: RequestItem) -> None:
        if request.request_id not in self._own_requests:
            self.open[request.request_id] = OpenRequest(request, [])
            self._show_quotes(request.request_id)

    def _drop(self, request_id: str) -> None:
        self.open.pop(request_id, None)
        for side in ("Bid", "Ask"):
            self._tried.pop((request_id, side), None)

    def _is_own(self, quote: Quote) -> bool:
        return self._label is None or quote.label == self._label

    def _open_quote(self, quote: Quote) -> None:
        if quote.quote_id not in self._ended and self._is_own(quote):
            self._quotes[quote.quote_id] = quote
            self._show_quotes(quote.request_id)

    def _close_quote(self, closed: QuoteClosedData) -> None:
        quote = self._quotes.pop(closed.quote_id, None)
        if self._in_flight > 0:
            self._ended.add(closed.quote_id)
        self._show_quotes(closed.request_id)
        if closed.reason in ("accepted", "rejected"):
            # The request has ended, whose own message may arrive later.
            self._drop(closed.request_id)
        elif quote is not None and closed.reason != "replaced":
            # A quote that replaces it opens in the same commit. Others may be tried at once.
            key = (closed.request_id, quote.side)
            if self._tried.get(key) != inf:
                self._tried.pop(key, None)

    def _show_quotes(self, request_id: str) -> None:
        if (entry := self.open.get(request_id)) is not None:
            own = [quote for quote in self._quotes.values() if quote.request_id == request_id]
            self.open[request_id] = replace(entry, quotes=own)

    async def track(self, request_id: str, placing: Awaitable[Quote]) -> Quote:
        """Follows a command that places a quote, whose result may come before or after events."""
        self._in_flight += 1
        try:
            quote = await placing
            self._open_quote(quote)
            return quote
        except Problem as problem:
            if problem.code in ENDS_REQUEST:
                self._drop(request_id)
            raise
        finally:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._ended.clear()

    def take(self, now: float, room: int) -> list[Unquoted]:
        """Up to `room` sides to quote now: untried ones, and at most one that was tried in vain.

        None while a connection is lost, because quotes may have ended. Each must be given back by
        `settled`.
        """
        if room <= 0 or not all(half.live for half in self._halves.values()):
            return []
        sides = (
            (request_id, side)
            for request_id, entry in self.open.items()
            for side in sides_of(entry.request)
            if all(quote.side != side for quote in entry.quotes)
        )
        fresh: list[Unquoted] = []
        oldest: tuple[float, Unquoted] | None = None
        for key in sides:
            at = self._tried.get(key)
            if at is None:
                fresh.append(key)
                if len(fresh) == room:
                    break
            elif at <= now and (oldest is None or at < oldest[0]):
                oldest = (at, key)
        if oldest is not None and len(fresh) < room and now >= self._retry_at:
            self._retry_at = now + RETRY_SPACING
            fresh.append(oldest[1])
        self._tried |= dict.fromkeys(fresh, inf)
        return fresh

    def settled(self, key: Unquoted, now: float) -> None:
        if key in self._tried:
            self._tried[key] = now + RETRY


def sides_of(request: RequestItem) -> tuple[Side, ...]:
    return ("Bid", "Ask") if request.side == "TwoWay" else (request.side,)


class LiveRequests:
    """The open requests of a venue, each with your own quotes: `async with client.requests(…)`.

    It follows two streams. While a connection is lost, it shows the last known state.
    """

    def __init__(
        self,
        requests: VenueRequests,
        streams: dict[From, Stream],
        label: str | None,
        on_message: Callable[[StreamMessage], None] | None,
    ) -> None:
        self._requests = requests
        self._streams = streams
        self._label = label
        self._on_message = on_message
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            for source, stream in self._streams.items():
                await opening.enter_async_context(stream)
                self._tasks.append(self._start(self._follow(source, stream)))
            while not self._requests.has_snapshot:
                self._changed.clear()
                await self._changed.wait()
                self._raise_failure()
            self._stack = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends both streams. The entries remain readable."""
        await self._stack.aclose()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._requests.open)

    def __iter__(self) -> Iterator[OpenRequest]:
        return iter(list(self._requests.open.values()))

    def get(self, request_id: str) -> OpenRequest | None:
        """The entry of an open request."""
        return self._requests.open.get(request_id)

    async def quote(
        self,
        *,
        request_id: str,
        price: int,
        side: Side | None = None,
        replaces: str | None = None,
        expires_in_secs: int | None = None,
        not_after: datetime | None = None,
        idempotency_key: str | None = None,
        max_age_ms: int | None = 1_000,
        timeout: float = 30,
    ) -> Quote:
        """Places a quote over the socket of the venue, as `Stream.quote`, with the map's label."""
        placing = self._streams["market"].quote(
            request_id=request_id,
            price=price,
            side=side,
            replaces=replaces,
            expires_in_secs=expires_in_secs,
            label=self._label,
            not_after=not_after,
            idempotency_key=idempotency_key,
            max_age_ms=max_age_ms,
            timeout=timeout,
        )
        return await self._requests.track(request_id, placing)

    async def keep_quoted(self, place: Callable[[RequestItem, Side], Awaitable[Any]]) -> None:
        """Calls `place` for each side of each open request that has no open quote of yours.

        That is when the request opens, and again when your quote on it has expired, was cancelled
        or was lost with a connection. Up to eight calls run at once. If `place` places no quote, or
        raises `Problem` or `NoAnswer`, it is called again after a second or later. Returns when the
        map is closed. Raises what ends the map, and other errors of `place`.
        """
        running: set[asyncio.Task[None]] = set()
        try:
            while not any(task.done() for task in self._tasks):
                self._changed.clear()
                for key in self._requests.take(time.monotonic(), AT_ONCE - len(running)):
                    running.add(self._start(self._place(place, key)))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK):
                        await self._changed.wait()
                for task in [task for task in running if task.done()]:
                    running.discard(task)
                    task.result()
            self._raise_failure()
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def _place(
        self,
        place: Callable[[RequestItem, Side], Awaitable[Any]],
        key: Unquoted,
    ) -> None:
        entry = self._requests.open.get(key[0])
        try:
            if entry is not None:
                await place(entry.request, key[1])
        except (Problem, NoAnswer):
            pass
        finally:
            self._requests.settled(key, time.monotonic())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._changed.set())
        return task

    async def _follow(self, source: From, stream: Stream) -> None:
        async for message in stream:
            self._requests.apply(source, message)
            if source == "account" and self._on_message is not None:
                self._on_message(message)
            self._changed.set()

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()
