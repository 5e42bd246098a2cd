"""One call: signs it, sends it, reads the response and retries where that is safe."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx2

from ._auth import Auth
from ._clock import Deadline, SentAt, ServerClock, deadline_passed_at
from ._errors import NoAnswer, NotSent, Problem, after_uncertain, problem_of
from ._limits import RateLimits
from ._turns import CommandLimits
from ._wire import body_bytes, decode, target_of

T = TypeVar("T")
log = logging.getLogger("rfq_custody")

ATTEMPTS = 5
"""Their delays, two to three seconds in total, outlast a deployment or a crashed process."""
ATTEMPT_TIMEOUT = 30.0
FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
LONGEST_RETRY_AFTER = 30
"""For a longer Retry-After the call raises, and the caller decides when to retry."""
READ_TIMEOUT = 2.0
"""Of a read of the service's time or limits."""
SESSION_MARGIN = 60.0
"""A new session begins this long before the old one expires."""
NDJSON = "application/x-ndjson"
COMMANDS = {"/rfq/request", "/rfq/quote", "/rfq/quotes", "/rfq/accept"}
"""The commands that the service limits in number while they are unanswered."""


@dataclass(frozen=True, slots=True)
class Login:
    """Email and password, with which the client keeps a session. They stay in memory.

    `totp` returns the six digits of an account with TOTP. It is asked at each login.
    """

    email: str
    password: str
    totp: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"Login({self.email!r})"


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    query: dict[str, Any] | None = None
    body: dict[str, Any] | None = None
    public: bool = False
    repeatable: bool = False
    """Repeated after a lost response, because repeating it changes nothing."""
    timeout: float | None = None
    """Seconds for the whole call, with its repetitions."""
    max_age_ms: int | None = None
    """Sets `not_after` this far ahead, unless it is given."""
    accept: str = "application/json"

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    def __init__(
        self,
        base_url: str,
        credential: Auth | Login | str | None,
        *,
        attempts: int = ATTEMPTS,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        # Else every call would fail, after all its attempts.
        if not re.match(r"https?://[^/]", base_url):
            raise ValueError("the URL must begin with http:// or https://")
        if credential is not None and not isinstance(credential, Auth | Login | str):
            raise ValueError("the credential must be an Auth, a Login or an access token")
        self.base_url = base_url.rstrip("/")
        self.credential = credential
        self.attempts = attempts
        self.http = http or httpx2.AsyncClient(timeout=ATTEMPT_TIMEOUT)
        self._owns_http = http is None
        self.limits = RateLimits()
        self.clock = ServerClock(self._read_time)
        self.turns = CommandLimits(self._read_limits)
        self._session: tuple[str, float] | None = None
        self._session_lock = asyncio.Lock()

    async def close(self) -> None:
        if self._owns_http:
            await self.http.aclose()

    @property
    def ticket_path(self) -> str:
        return "/auth/ws-ticket" + ("/signed" if isinstance(self.credential, Auth) else "")

    async def call(self, call: Call, kind: type[T]) -> T:
        return decode(kind, await self.json(call))

    async def json(self, call: Call) -> Any:
        response = await self.send(call)
        try:
            return json.loads(response.content or b"{}")
        except ValueError as error:
            reason = f"the response ({response.status_code}) is not JSON"
            raise NoAnswer(call.name, reason) from error

    async def text(self, call: Call) -> str:
        return (await self.send(call)).text

    async def statement(self, call: Call) -> str:
        text = await self.text(call)
        last = text.rstrip().rpartition("\n")[2]
        if not (last.startswith("# end,") and last[6:].isdigit()):
            raise NoAnswer(call.name, "the statement is incomplete")
        return text

    async def lines(self, call: Call) -> dict[str, Any]:
        """A page of lines. The last one has the cursor, so a response without it was cut off."""
        *lines, end = (await self.send(call)).text.rstrip("\n").split("\n")
        if not end.startswith('{"next_cursor":') or not end.endswith("}"):
            raise NoAnswer(call.name, "the export is incomplete")
        return {"items": [json.loads(line) for line in lines], **json.loads(end)}

    async def _read_time(self) -> float:
        call = Call("GET", "/time", public=True)
        response = await self._attempt(call, time.monotonic() + READ_TIMEOUT)
        return float(response.json()["unix_ms"]) / 1_000

    async def _read_limits(self) -> dict[str, Any]:
        call = Call("GET", "/config", public=True)
        response = await self._attempt(call, time.monotonic() + READ_TIMEOUT)
        limits: dict[str, Any] = response.json()["limits"]
        return limits

    async def send(self, call: Call) -> httpx2.Response:
        ends_at = time.monotonic() + (float("inf") if call.timeout is None else call.timeout)
        given = (call.body or {}).get("not_after")
        deadline = Deadline(self.clock, given, call.max_age_ms)

        def left() -> float:
            return min(deadline.send_before, ends_at) - time.monotonic()

        async def outdated(answer: Any) -> bool:
            """Whether it is a passed deadline by a clock that was wrong, and there is time left."""
            passed_at = deadline_passed_at(answer)
            if (
                corrected
                or passed_at is None
                or not await self.clock.was_wrong(passed_at, sent, left())
            ):
                return False
            return deadline.allows_correction and time.monotonic() < ends_at

        if deadline.exists:
            await self.clock.fresh(left())
        uncertain = corrected = session_renewed = False
        attempt = 1
        while True:
            sent = SentAt()
            try:
                response = await self._in_turn(call, ends_at, deadline, sent)
                if call.path != "/rfq/quotes" or not await outdated(_json_of(response)):
                    return response
                corrected = True
            except (Problem, NoAnswer) as error:
                code = error.code if isinstance(error, Problem) else ""
                if code == "session_expired" and not session_renewed:
                    session_renewed = isinstance(self.credential, Login)
                    self._session = None
                    if session_renewed:
                        continue
                if not corrected and self._correct_clock(error, sent):
                    corrected = True
                    continue
                if isinstance(error, Problem) and await outdated(error.raw):
                    corrected = True
                    continue
                delay = retry_delay(error, call.repeatable, attempt)
                if delay is None or attempt >= self.attempts or delay >= left():
                    if uncertain:
                        raise after_uncertain(call.name, error) from error
                    raise
                # A read has no effect.
                known = isinstance(error, Problem) and error.had_no_effect
                uncertain = uncertain or (call.method != "GET" and not known)
                log.debug("%s: attempt %d failed: %s", call.name, attempt, error)
                attempt += 1
                await asyncio.sleep(delay)

    async def _in_turn(
        self, call: Call, ends_at: float, deadline: Deadline, sent: SentAt
    ) -> httpx2.Response:
        """Sends a command when the service admits one more, or raises `NotSent` if it is late."""
        until = min(ends_at, deadline.send_before)
        async with contextlib.AsyncExitStack() as turns:
            if call.path == "/rfq/quotes" and call.method == "POST":
                await turns.enter_async_context(self.turns.several_quotes.turn(call.name, until))
            if call.path in COMMANDS and call.method != "GET":
                await turns.enter_async_context(self.turns.commands.turn(call.name, until))
            if time.monotonic() >= deadline.send_before:
                raise NotSent(call.name)
            sent.at, sent.ahead = time.monotonic(), self.clock.ahead
            if call.body is not None:
                call = replace(call, body={**call.body, **deadline.fields()})
            return await self._attempt(call, ends_at)

    async def _attempt(self, call: Call, ends_at: float) -> httpx2.Response:
        content = None if call.body is None else body_bytes(call.body)
        target = target_of(call.path, call.query)
        headers = {"accept": call.accept}
        if content is not None:
            headers["content-type"] = "application/json"
        request = self.http.build_request(
            call.method, self.base_url + target, headers=headers, content=content
        )
        try:
            left = max(0.0, min(ATTEMPT_TIMEOUT, ends_at - time.monotonic()))
            async with asyncio.timeout(left):
                if not call.public:
                    await self._authorize(request)
                response = await self.http.send(request, auth=None, follow_redirects=False)
        except TimeoutError as error:
            raise NoAnswer(call.name, "no response in time") from error
        except httpx2.HTTPError as error:
            raise NoAnswer(call.name, f"{type(error).__name__}: {error}") from error
        self.limits.read(response.headers)
        if response.is_success:
            return response
        page = (response.status_code, response.headers, response.content)
        raise problem_of(*page, call.name, self.clock.now())

    async def _authorize(self, request: httpx2.Request) -> None:
        credential = self.credential
        if credential is None:
            raise ValueError("This call needs a credential. Give the client an Auth or a Login.")
        if isinstance(credential, Auth):
            target = request.url.raw_path.decode("ascii")
            signed = credential.headers(
                request.method,
                target,
                request.content,
                timestamp_ms=round(self.clock.now() * 1_000),
            )
            request.headers.update(signed)
            return
        token = credential if isinstance(credential, str) else await self._token(credential)
        request.headers["authorization"] = f"Bearer {token}"

    async def _token(self, login: Login) -> str:
        """The token of a session. Calls that wait at the same time share one login."""
        async with self._session_lock:
            if self._session is None or time.monotonic() >= self._session[1]:
                body = {"email": login.email, "password": login.password}
                if login.totp is not None:
                    body["totp_code"] = login.totp()
                raw = await self.json(Call("POST", "/auth/login", body=body, public=True))
                life = float(raw["expires_in"])
                renew_at = time.monotonic() + max(life - SESSION_MARGIN, life / 2)
                self._session = (raw["access_token"], renew_at)
            return self._session[0]

    def _correct_clock(self, error: Exception, sent: SentAt) -> bool:
        """Learns the service's time from a rejected timestamp. Returns whether to try again.

        From what this call sent, because a concurrent call may have corrected the clock too.
        """
        if not isinstance(error, Problem) or error.body.skew_ms is None:
            return False
        self.clock.correct(sent.ahead, error.body.skew_ms / 1_000)
        return True


def _json_of(response: httpx2.Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return None


def retry_delay(error: Exception, repeatable: bool, attempt: int) -> float | None:
    """Seconds before the next attempt, or None if there must be none."""
    if not _is_transient(error, repeatable):
        return None
    requested = (error.retry_after or 0) if isinstance(error, Problem | NoAnswer) else 0
    if requested > LONGEST_RETRY_AFTER:
        return None
    return requested + random.random() * min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (attempt - 1))


def _is_transient(error: Exception, repeatable: bool) -> bool:
    if isinstance(error, NotSent):
        return False
    if not isinstance(error, Problem):
        return repeatable
    # Rate limits apply before the call has any effect.
    if error.status == 429:
        return error.code != "login_throttled"
    if error.code == "withdrawals_paused":
        return False
    if error.status == 503 and error.body.outcome == "none":
        return True
    return repeatable and error.status in (502, 503, 504)
