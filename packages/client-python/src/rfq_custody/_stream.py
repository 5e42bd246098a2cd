"""A stream that reconnects. It delivers every message once and in order, and carries commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ._clock import Deadline, SentAt, deadline_passed_at
from ._errors import NoAnswer, NotSent, Problem, after_uncertain, problem_of
from ._events import decode_event
from ._order import StreamOrder
from ._transport import Call, Transport
from ._wire import decode, target_of
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
MANY_ATTEMPTS = 100
"""After so many in a row the delays grow, or a day of them would need 17,000 tickets."""
DELAY_AFTER_MANY = 60.0
LONGEST_REST = 3_600
HELD = 30.0
"""A connection that ends before has failed. Each needs a ticket, which a day limits in number."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Why a connection was lost or could not be made, before the next attempt."""

    attempt: int
    """Counts from the last connection that held for 30 s."""
    reason: str
    error: Problem | NoAnswer | None


@dataclass(slots=True)
class _Command:
    op: str
    data: dict[str, Any]
    result: asyncio.Future[Any]
    deadline: Deadline
    sent: SentAt | None = None
    """On this connection or an earlier one."""
    sent_again: bool = False
    """On several connections, so the service may have carried it out before."""
    checked: bool = False
    """The service's clock was checked after a passed deadline, so it is sent once more at most."""
    checking: bool = False


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
        """Without a result, in the order of the calls."""
        self._unanswered: set[str] = set()
        """Sent on this connection and without an answer, also if their callers wait no more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: ClientConnection | None = None
        self._ready = asyncio.Event()
        self._open = False
        self._opened_at = float("inf")
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
                if time.monotonic() - self._opened_at >= HELD:
                    attempt = 1
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
        self._opened_at = float("inf")
        await self._transport.clock.fresh(float("inf"))
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
                return await self._listen(socket)
        except ConnectionClosed as closed:
            return str(closed)
        except InvalidStatus as rejected:
            answer = rejected.response
            headers = {name.lower(): value for name, value in answer.headers.raw_items()}
            page = (answer.status_code, headers, bytes(answer.body))
            raise problem_of(*page, self._path, self._transport.clock.now()) from None
        except (OSError, TimeoutError, WebSocketException) as error:
            raise NoAnswer(self._path, f"{type(error).__name__}: {error}") from error
        finally:
            self._open = False
            self._socket = None
            self._order.disconnected()
            for command_id in list(self._unanswered):
                self._answered(command_id)

    async def _listen(self, socket: ClientConnection) -> str:
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
            await self._transport.clock.fresh(0)
            try:
                # `wait_for` of Python 3.11 loses a cancellation that meets a message.
                async with asyncio.timeout(1):
                    text = await socket.recv()
            except TimeoutError:
                continue
            heard_at = time.monotonic()
            received += len(text)
            if not self._receive(text):
                return "the loop is too far behind"

    def _receive(self, text: str | bytes) -> bool:
        """Returns whether there is room for more messages."""
        try:
            raw = json.loads(text)
            kind = raw["type"]
            if kind == "pong":
                self._order.pong(raw["seq"])
                return True
            if kind in ("result", "error"):
                self._answer(kind, raw.get("id") or "", raw.get("data"))
                return True
            message = decode_event(raw)
        except (ValueError, TypeError, KeyError):
            # A message that was lost this way shows as a gap, and is replayed.
            return True
        room = True
        for ready in self._order.take(message):
            room = self._put(ready) and room
        if isinstance(message, Hello):
            self._transport.clock.at_least(message.data.server_time.timestamp())
            self._open, self._opened_at = True, time.monotonic()
            self._ready.set()
            self._pump()
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

    async def _command(
        self,
        op: str,
        data: dict[str, Any],
        kind: type[T],
        timeout: float,
        max_age_ms: int | None = None,
    ) -> T:
        deadline = Deadline(self._transport.clock, data.get("not_after"), max_age_ms)
        ends_at = time.monotonic() + timeout
        if op != "quotes":
            return await self._submit(op, data, kind, ends_at, deadline)
        until = min(ends_at, deadline.send_before)
        async with self._transport.turns.several_quotes.turn(op, until):
            return await self._submit(op, data, kind, ends_at, deadline)

    async def _submit(
        self, op: str, data: dict[str, Any], kind: type[T], ends_at: float, deadline: Deadline
    ) -> T:
        if self._closed:
            raise self._error or NoAnswer(op, "the stream is closed")
        self._start()
        command_id = str(uuid.uuid4())
        command = _Command(op, data, asyncio.get_running_loop().create_future(), deadline)
        self._commands[command_id] = command
        self._pump()
        try:
            await asyncio.wait({command.result}, timeout=_until(min(ends_at, deadline.send_before)))
            # One that was sent may still be answered.
            if not command.result.done() and command.sent is not None:
                await asyncio.wait({command.result}, timeout=_until(ends_at))
            if not command.result.done():
                raise NoAnswer(op, "no result in time") if command.sent else NotSent(op)
            return decode(kind, command.result.result())
        finally:
            self._commands.pop(command_id, None)

    def _pump(self) -> None:
        """Sends what the limits of the service admit."""
        while (found := self._next()) and self._transport.turns.commands.take(self._when_free):
            self._send(*found)

    def _when_free(self) -> bool:
        """Returns whether it used the place that has become free."""
        found = self._next()
        if found is None:
            return False
        self._send(*found)
        self._pump()
        return True

    def _next(self) -> tuple[str, _Command] | None:
        """The first command that may be sent now, at first or after a reconnection."""
        if not self._open or len(self._unanswered) >= self._transport.turns.per_socket:
            return None
        for command_id, command in self._commands.items():
            waits = command_id not in self._unanswered and not command.checking
            if not waits or command.result.done():
                continue
            if time.monotonic() < command.deadline.send_before:
                return command_id, command
            lost = NoAnswer(command.op, "the connection was lost, and its deadline has passed")
            command.result.set_exception(lost if command.sent else NotSent(command.op))
        return None

    def _send(self, command_id: str, command: _Command) -> None:
        self._unanswered.add(command_id)
        command.sent_again = command.sent is not None
        command.sent = SentAt(time.monotonic(), self._transport.clock.ahead)
        frame = {"id": command_id, "op": command.op, **command.data, **command.deadline.fields()}
        self._run_soon(self._write(self._socket, json.dumps(frame)))

    @staticmethod
    async def _write(socket: ClientConnection | None, text: str) -> None:
        with contextlib.suppress(ConnectionClosed):
            if socket is not None:
                await socket.send(text)

    def _run_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        # The loop itself keeps no task alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _answer(self, kind: str, command_id: str, data: Any) -> None:
        command = self._commands.get(command_id)
        if command is not None and not command.result.done():
            passed_at = deadline_passed_at(data)
            if passed_at is None or command.checked:
                self._settle(kind, command, data)
            else:
                command.checked = command.checking = True
                self._run_soon(self._check_clock(kind, command, data, passed_at))
        # After it is settled, because the free place may be used at once.
        self._answered(command_id)
        self._pump()

    async def _check_clock(self, kind: str, command: _Command, data: Any, passed_at: float) -> None:
        """Sends it again if its deadline passed by a clock that was wrong, and there is time."""
        left = command.deadline.send_before - time.monotonic()
        sent = command.sent or SentAt()
        wrong = await self._transport.clock.was_wrong(passed_at, sent, left)
        command.checking = False
        if not (wrong and command.deadline.allows_correction):
            self._settle(kind, command, data)
        self._pump()

    def _answered(self, command_id: str) -> None:
        if command_id in self._unanswered:
            self._unanswered.discard(command_id)
            self._transport.turns.commands.give()

    @staticmethod
    def _settle(kind: str, command: _Command, data: Any) -> None:
        if command.result.done():
            return
        if kind == "result":
            command.result.set_result(data)
            return
        problem: Exception = Problem(data, status=int(data.get("status", 0)), call=command.op)
        if command.sent_again:
            problem = after_uncertain(command.op, problem)
        command.result.set_exception(problem)


def _until(at: float) -> float | None:
    """Seconds until an instant by `time.monotonic()`."""
    return None if at == float("inf") else max(0.0, at - time.monotonic())


def _is_transient(error: Problem | NoAnswer) -> bool:
    """Whether a later attempt may succeed. Other 4xx concern the credential or the address."""
    if isinstance(error, NoAnswer):
        return True
    # A ticket expires after 30 s, and the next attempt takes a new one.
    return error.status >= 500 or error.status in (408, 425, 429) or error.code == "ticket_invalid"


def _reconnect_delay(error: Problem | NoAnswer | None, attempt: int) -> float:
    # A `NoAnswer` may have the last response as its cause.
    cause = error.__cause__ if error is not None else None
    answer = cause if isinstance(cause, Problem) else error
    requested = 0 if answer is None else (answer.retry_after or 0)
    longest = DELAY_AFTER_MANY if attempt > MANY_ATTEMPTS else LONGEST_DELAY
    # A power of 1,024 is an error in Python.
    growing = FIRST_DELAY * 2.0 ** min(attempt, MANY_ATTEMPTS)
    return min(requested, LONGEST_REST) + random.random() * min(longest, growing)
