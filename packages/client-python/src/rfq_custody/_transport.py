"""One call: signs it, sends it, reads the response and retries where that is safe."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx2

from ._auth import Auth
from ._errors import NoAnswer, Problem, after_uncertain, problem_of
from ._limits import RateLimits
from ._wire import body_bytes, decode, encode, target_of

T = TypeVar("T")
log = logging.getLogger("rfq_custody")

ATTEMPTS = 5
"""Their delays, two to three seconds in total, outlast a deployment or a crashed process."""
ATTEMPT_TIMEOUT = 30.0
FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
LONGEST_RETRY_AFTER = 30
"""For a longer Retry-After the call raises, and the caller decides when to retry."""
CLOCK_LIFE = 600.0
"""The service's clock is compared with ours again after this many seconds."""
SESSION_MARGIN = 60.0
"""A new session begins this long before the old one expires."""


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
        self.base_url = base_url.rstrip("/")
        self.credential = credential
        self.attempts = attempts
        self.http = http or httpx2.AsyncClient(timeout=ATTEMPT_TIMEOUT)
        self._owns_http = http is None
        self.limits = RateLimits()
        self._offset_ms = 0.0
        """The service's clock minus ours."""
        self._clock_error_ms = 0.0
        self._clock_read_at = float("-inf")
        self._clock_lock = asyncio.Lock()
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

    async def statement(self, call: Call) -> str:
        text = (await self.send(replace(call, accept="text/csv"))).text
        last = text.rstrip().rpartition("\n")[2]
        if not (last.startswith("# end,") and last[6:].isdigit()):
            raise NoAnswer(call.name, "the statement is incomplete")
        return text

    async def send(self, call: Call) -> httpx2.Response:
        ends_at = time.monotonic() + (float("inf") if call.timeout is None else call.timeout)
        call, send_before = await self._with_deadline(call, ends_at)
        uncertain = clock_corrected = session_renewed = False
        attempt = 1
        while True:
            offset_ms = self._offset_ms
            if time.monotonic() >= send_before:
                late = NoAnswer(call.name, "its deadline passed before it was sent")
                raise after_uncertain(call.name, late)
            try:
                return await self._attempt(call, ends_at - time.monotonic())
            except (Problem, NoAnswer) as error:
                code = error.code if isinstance(error, Problem) else ""
                if code == "session_expired" and not session_renewed:
                    session_renewed = isinstance(self.credential, Login)
                    self._session = None
                    if session_renewed:
                        continue
                if not clock_corrected and self._correct_clock(error, offset_ms):
                    clock_corrected = True
                    continue
                delay = retry_delay(error, call.repeatable, attempt)
                next_at = time.monotonic() + (delay or 0)
                if (
                    delay is None
                    or attempt >= self.attempts
                    or next_at >= min(ends_at, send_before)
                ):
                    if uncertain:
                        raise after_uncertain(call.name, error) from error
                    raise
                # A read has no effect.
                known = isinstance(error, Problem) and error.had_no_effect
                uncertain = uncertain or (call.method != "GET" and not known)
                log.debug("%s: attempt %d failed: %s", call.name, attempt, error)
                attempt += 1
                await asyncio.sleep(delay)

    async def _attempt(self, call: Call, left: float) -> httpx2.Response:
        content = None if call.body is None else body_bytes(call.body)
        target = target_of(call.path, call.query)
        headers = {"accept": call.accept}
        if content is not None:
            headers["content-type"] = "application/json"
        request = self.http.build_request(
            call.method, self.base_url + target, headers=headers, content=content
        )
        try:
            async with asyncio.timeout(max(0.0, min(ATTEMPT_TIMEOUT, left))):
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
        raise problem_of(response.status_code, response.headers, response.content, call.name)

    async def _authorize(self, request: httpx2.Request) -> None:
        credential = self.credential
        if credential is None:
            raise ValueError("This call needs a credential. Give the client an Auth or a Login.")
        if isinstance(credential, Auth):
            credential.offset_ms = round(self._offset_ms)
            target = request.url.raw_path.decode("ascii")
            request.headers.update(credential.headers(request.method, target, request.content))
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

    def _correct_clock(self, error: Exception, offset_ms: float) -> bool:
        """Learns the offset of our clock from a rejected timestamp. Returns whether to try again.

        From the offset that this call sent, because a concurrent call may have corrected it too.
        """
        if not isinstance(error, Problem) or error.body.skew_ms is None:
            return False
        self._offset_ms = offset_ms - error.body.skew_ms
        return True

    async def _with_deadline(self, call: Call, ends_at: float) -> tuple[Call, float]:
        """The call with its `not_after`, and when it must have been sent by our clock."""
        given = (call.body or {}).get("not_after")
        if call.body is None or (given is None and call.max_age_ms is None):
            return call, float("inf")
        if given is not None:
            at = datetime.fromisoformat(given).timestamp() - self._offset_ms / 1_000
            return call, time.monotonic() + at - time.time()
        send_before = time.monotonic() + (call.max_age_ms or 0) / 1_000
        await self.read_clock(min(send_before, ends_at) - time.monotonic())
        ahead = send_before - time.monotonic() + self._offset_ms / 1_000
        not_after = datetime.now(UTC) + timedelta(seconds=ahead)
        return replace(call, body={**call.body, "not_after": encode(not_after)}), send_before

    async def read_clock(self, timeout: float) -> float | None:
        """Compares the clocks, unless that was done recently. A failure is no error of the caller.

        Returns by how many ms the service's clock is ahead of ours at least.
        """
        async with self._clock_lock:
            if time.monotonic() - self._clock_read_at >= CLOCK_LIFE:
                before = time.time()
                try:
                    call = Call("GET", "/time", public=True)
                    response = await self._attempt(call, timeout)
                    unix_ms = float(response.json()["unix_ms"])
                except (Problem, NoAnswer, ValueError, KeyError):
                    return None
                after = time.time()
                self._offset_ms = unix_ms - (before + after) * 500
                self._clock_error_ms = (after - before) * 500
                self._clock_read_at = time.monotonic()
        return self._offset_ms - self._clock_error_ms


def retry_delay(error: Exception, repeatable: bool, attempt: int) -> float | None:
    """Seconds before the next attempt, or None if there must be none."""
    if not _is_transient(error, repeatable):
        return None
    requested = (error.retry_after or 0) if isinstance(error, Problem) else 0
    if requested > LONGEST_RETRY_AFTER:
        return None
    return requested + random.random() * min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (attempt - 1))


def _is_transient(error: Exception, repeatable: bool) -> bool:
    if not isinstance(error, Problem):
        return repeatable
    if error.code == "idempotency_in_progress":
        return repeatable
    # Rate limits apply before the call has any effect.
    if error.status == 429:
        return error.code != "login_throttled"
    if error.code == "withdrawals_paused":
        return False
    if error.status == 503 and error.body.outcome == "none":
        return True
    return repeatable and error.status in (502, 503, 504)
