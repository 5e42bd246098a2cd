"""A stream that reconnects. It delivers every message once and in order, and carries commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ._errors import NoAnswer, Problem, after_uncertain, problem_of
from ._events import decode_event
from ._order import StreamOrder
from ._transport import Call, Transport
from ._wire import decode, encode, target_of
from .models import Hello, StreamMessage, Ticket
from .operations import Commands

T = TypeVar("T")

MOST_UNREAD = 10_000
"""With more unread messages, a stream without a loop drops them: it only carries commands."""
PING_INTERVAL = 15.0
PING_EVERY_CHARS = 1_048_576
"""The service closes a socket that was sent 4 MiB without sending anything."""
SILENCE = 10.0
"""A connection without a message for this long after a ping is dead."""
GAP = 5.0
"""A gap that is open this long means that messages were lost."""
HELLO_TIMEOUT = 15.0
FIRST_DELAY = 0.25
LONGEST_DELAY = 10.0
LONGEST_REST = 3_600
CLOCK_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Why a connection was lost or could not be made, before the next attempt."""

    attempt: int
    """Counts from the last connection that succeeded."""
    reason: str
    error: Problem | NoAnswer | None


@dataclass(slots=True)
class _Command:
    op: str
    data: dict[str, Any]
    result: asyncio.Future[Any]
    max_age_ms: int | None
    begun_at: float = field(default_factory=time.time)
    sent: bool = False
    sent_again: bool = False


class Stream(Commands):
    """The messages of a stream: `async with client.account_stream() as stream: async for …`

    It retries until it is closed, and raises the `Problem` that a retry cannot change. It supports
    one loop at a time.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: dict[str, str],
        *,
        since: int | None = None,
        cancel_on_disconnect: bool = False,
        on_disconnect: Callable[[Disconnected], None] | None = None,
    ) -> None:
        if since is not None and (type(since) is not int or since < 0):
            raise ValueError("`since` is the number of a message: an int of at least 0")
        self._transport = transport
        self._path = path
        self._query = query | ({"cancel_on_disconnect": "true"} if cancel_on_disconnect else {})
        self._armed = cancel_on_disconnect
        self._on_disconnect = on_disconnect
        has_snapshot = path != "/account/stream" or query.get("snapshot") == "true"
        filtered = "assets" in query
        self._order = StreamOrder(has_snapshot=has_snapshot, since=since, filtered=filtered)
        self._inbox: asyncio.Queue[StreamMessage | None] = asyncio.Queue()
        self._commands: dict[str, _Command] = {}
        self._socket: ClientConnection | None = None
        self._ready = asyncio.Event()
        self._open = False
        self._clock_offset = 0.0
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._closed = self._reading = self._dropped = False

    @property
    def since(self) -> int | None:
        """Number of the last message in order. Pass it as `since` to the next stream."""
        return self._order.since

    async def __aenter__(self) -> Self:
        await self.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Stream({target_of(self._path, self._query)}, since={self._order.since})"

    async def ready(self) -> None:
        """Connects, and returns when the service has sent its hello message."""
        self._start()
        await self._ready.wait()
        if self._error is not None:
            raise self._error
        if self._closed:
            raise NoAnswer("stream", "the stream is closed")

    async def __aiter__(self) -> AsyncIterator[StreamMessage]:
        if self._reading:
            raise RuntimeError("a stream delivers each message once, so it supports one loop")
        if self._dropped:
            raise RuntimeError(f"the loop began after {MOST_UNREAD} unread messages were dropped")
        self._reading = True
        self._start()
        try:
            while (message := await self._inbox.get()) is not None:
                yield message
            if self._error is not None:
                raise self._error
        finally:
            self._reading = False

    async def close(self) -> None:
        """Ends the stream. Messages that have arrived can still be read."""
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._end(None)

    def _start(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run())

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed, self._error = True, error
        self._ready.set()
        for command in self._commands.values():
            if not command.result.done():
                command.result.set_exception(error or NoAnswer(command.op, "the stream is closed"))
        self._commands.clear()
        self._inbox.put_nowait(None)

    async def _run(self) -> None:
        attempt = 1
        try:
            while True:
                error: Problem | NoAnswer | None = None
                reason = ""
                try:
                    reason = await self._connect()
                except (Problem, NoAnswer) as failed:
                    if not _is_transient(failed):
                        raise
                    error, reason = failed, str(failed)
                if self._open:
                    attempt = 1
                self._open = False
                if self._on_disconnect is not None:
                    self._on_disconnect(Disconnected(attempt, reason, error))
                await asyncio.sleep(_reconnect_delay(error, attempt))
                while self._reading and self._inbox.qsize() >= MOST_UNREAD // 2:
                    await asyncio.sleep(0.1)
                attempt += 1
        except Exception as error:
            self._end(error)

    async def _connect(self) -> str:
        """Makes one connection. Returns why it ended."""
        self._open = False
        offset_ms = await self._transport.read_clock(CLOCK_TIMEOUT)
        least_offset = float("-inf") if offset_ms is None else offset_ms / 1_000
        call = Call("POST", self._transport.ticket_path, repeatable=True)
        ticket = await self._transport.call(call, Ticket)
        if self._armed and "trade" not in ticket.scopes:
            detail = "The ticket lacks the scope trade, which cancel_on_disconnect needs."
            raise Problem({"code": "scope_missing", "detail": detail}, status=403)
        since = {} if self._order.since is None else {"since": str(self._order.since)}
        query = urlencode({**self._query, **since, "ticket": ticket.ticket})
        url = self._transport.base_url.replace("http", "ws", 1) + self._path
        try:
            async with connect(f"{url}?{query}", ping_interval=None, max_size=2**22) as socket:
                self._socket = socket
                return await self._listen(socket, least_offset)
        except ConnectionClosed as closed:
            return str(closed)
        except InvalidStatus as rejected:
            answer = rejected.response
            headers = {name.lower(): value for name, value in answer.headers.raw_items()}
            raise problem_of(answer.status_code, headers, bytes(answer.body), self._path) from None
        except (OSError, TimeoutError, WebSocketException) as error:
            raise NoAnswer(self._path, f"{type(error).__name__}: {error}") from error
        finally:
            self._socket = None
            self._order.disconnected()

    async def _listen(self, socket: ClientConnection, least_offset: float) -> str:
        heard_at = started_at = time.monotonic()
        pinged_at: float | None = None
        gap_since: float | None = None
        received = 0
        while True:
            now = time.monotonic()
            if not self._open and now - started_at > HELLO_TIMEOUT:
                return "no hello"
            if pinged_at is not None and heard_at < pinged_at and now - pinged_at > SILENCE:
                return "silence"
            gap_since = (gap_since or now) if self._order.has_gap else None
            if gap_since is not None and now - gap_since > GAP:
                return "a gap was not filled"
            due = pinged_at is None or now - pinged_at > PING_INTERVAL
            if self._open and (due or received >= PING_EVERY_CHARS):
                pinged_at, received = now, 0
                await socket.send("ping")
            try:
                text = await asyncio.wait_for(socket.recv(), 1)
            except TimeoutError:
                continue
            heard_at = time.monotonic()
            received += len(text)
            if not await self._receive(text, least_offset):
                return "the loop is too far behind"

    async def _receive(self, text: str | bytes, least_offset: float) -> bool:
        """Returns whether there is room for more messages."""
        try:
            raw = json.loads(text)
            kind = raw["type"]
            if kind == "pong":
                self._order.pong(raw["seq"])
                return True
            if kind in ("result", "error"):
                self._finish(kind, raw.get("id"), raw.get("data"))
                return True
            message = decode_event(raw)
        except (ValueError, TypeError, KeyError):
            # A message that was lost this way shows as a gap, and is replayed.
            return True
        room = True
        for ready in self._order.take(message):
            room = self._put(ready) and room
        if isinstance(message, Hello):
            seen = message.data.server_time.timestamp() - time.time()
            # A message takes some time, so the larger of two offsets is the better one.
            self._clock_offset = max(seen, least_offset)
            self._open = True
            self._ready.set()
            for command_id, command in list(self._commands.items()):
                await self._send(command_id, command)
        return room

    def _put(self, message: StreamMessage) -> bool:
        """Returns whether there is room. It is kept even without, as it counts as delivered."""
        if self._dropped:
            return True
        self._inbox.put_nowait(message)
        if self._inbox.qsize() < MOST_UNREAD or self._reading:
            return self._inbox.qsize() < MOST_UNREAD
        self._dropped = True
        while not self._inbox.empty():
            self._inbox.get_nowait()
        return True

    def _finish(self, kind: str, id_: str | None, data: Any) -> None:
        command = self._commands.pop(id_ or "", None)
        if command is None or command.result.done():
            return
        if kind == "result":
            command.result.set_result(data)
            return
        problem: Exception = Problem(data, status=int(data.get("status", 0)), call=command.op)
        if command.sent_again:
            problem = after_uncertain(command.op, problem)
        command.result.set_exception(problem)

    async def _command(
        self,
        op: str,
        data: dict[str, Any],
        kind: type[T],
        timeout: float,
        max_age_ms: int | None = None,
    ) -> T:
        if self._closed:
            raise self._error or NoAnswer(op, "the stream is closed")
        self._start()
        command_id = str(uuid.uuid4())
        command = _Command(op, data, asyncio.get_running_loop().create_future(), max_age_ms)
        self._commands[command_id] = command
        try:
            if self._open:
                await self._send(command_id, command)
            async with asyncio.timeout(timeout):
                return decode(kind, await command.result)
        except TimeoutError:
            raise NoAnswer(op, "no result in time") from None
        finally:
            self._commands.pop(command_id, None)

    async def _send(self, command_id: str, command: _Command) -> None:
        """Sends a command, at first or after a reconnection, unless its deadline has passed."""
        deadline = self._deadline(command)
        if deadline is not None and time.time() >= deadline:
            reason = "the connection was lost, and its" if command.sent else "its"
            late = NoAnswer(command.op, f"{reason} deadline has passed")
            if not command.result.done():
                command.result.set_exception(late)
            return
        body = {"id": command_id, "op": command.op, **command.data}
        if deadline is not None and "not_after" not in command.data:
            body["not_after"] = encode(datetime.fromtimestamp(deadline + self._clock_offset, UTC))
        command.sent_again, command.sent = command.sent, True
        socket = self._socket
        with contextlib.suppress(ConnectionClosed):
            if socket is not None:
                await socket.send(json.dumps(body))

    def _deadline(self, command: _Command) -> float | None:
        """Unix seconds by our clock, from which on it is not sent any more."""
        given = command.data.get("not_after")
        if given is not None:
            return datetime.fromisoformat(given).timestamp() - self._clock_offset
        if command.max_age_ms is None:
            return None
        return command.begun_at + command.max_age_ms / 1_000


def _is_transient(error: Problem | NoAnswer) -> bool:
    """Whether a later attempt may succeed. Other 4xx concern the credential or the address."""
    if isinstance(error, NoAnswer):
        return True
    # A ticket expires after 30 s, and the next attempt takes a new one.
    return error.status >= 500 or error.status in (408, 425, 429) or error.code == "ticket_invalid"


def _reconnect_delay(error: Problem | NoAnswer | None, attempt: int) -> float:
    cause = error.__cause__ if isinstance(error, NoAnswer) else error
    requested = (cause.retry_after or 0) if isinstance(cause, Problem) else 0
    backoff = random.random() * min(LONGEST_DELAY, FIRST_DELAY * 2.0**attempt)
    return min(requested, LONGEST_REST) + backoff
