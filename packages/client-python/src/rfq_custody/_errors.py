"""How calls fail: with a `Problem` that the service reports, or with `NoAnswer`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, TypeVar

from ._wire import UNSET, decode
from .models import ProblemBody, ProblemCode

T = TypeVar("T")


class Problem(Exception):
    """The service rejected a call. Catch it by cause, as `problems.InsufficientFunds`, or by its
    family, as `problems.Conflict`, to which codes belong that are newer than this package.
    """

    _kinds: ClassVar[dict[str | int, type[Problem]]] = {}
    """By code, and by the status of a family."""

    def __init_subclass__(cls, *, kind: str | int | None = None) -> None:
        if kind is not None:
            Problem._kinds[kind] = cls

    def __new__(cls, raw: Mapping[str, Any], *, status: int, **_: object) -> Problem:
        kind = Problem._kinds.get(raw.get("code", ""), Problem._kinds.get(status, cls))
        return super().__new__(kind if issubclass(kind, cls) else cls)

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        status: int,
        retry_after: int | None = None,
        call: str = "",
    ) -> None:
        given = {"type": "about:blank", "title": "", "status": status, **raw}
        given = {"code": "unexpected_answer", "detail": "", "request_id": "", **given}
        self.body = decode(ProblemBody, given)
        """All members of the body, with amounts as `int`, for example `available`."""
        self.raw = raw
        """The body as it was received."""
        self.code: ProblemCode = self.body.code
        """A code that is newer than this package is none of the type."""
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait before a retry, from the header Retry-After, if it was sent."""
        prefix = f"{call}: " if call else ""
        super().__init__(f"{prefix}{status} {self.code}: {self.body.detail or self.body.title}")

    @property
    def request_id(self) -> str:
        """The `x-request-id` of the response. Quote it when you ask the operator for help."""
        return self.body.request_id

    @property
    def had_no_effect(self) -> bool:
        """Whether it was rejected before it had any effect. Rate limits apply first."""
        return self.status == 429 or self.body.outcome == "none"


class NoAnswer(Exception):
    """No answer of the service: the call may or may not have taken effect.

    The connection broke, the call timed out, or what came is not the service's word, such as a page
    of a proxy. Also raised if a repetition was rejected without effect (`__cause__`), but an
    earlier attempt had no answer. Repeat the call if it is repeatable.
    """

    def __init__(
        self,
        call: str,
        reason: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{call}: {reason}")
        self.status = status
        """The HTTP status of what came instead of an answer."""
        self.retry_after = retry_after
        """Seconds to wait before a retry, from the header Retry-After of what came."""


class NotSent(NoAnswer):
    """The client did not send the call, so it has no effect.

    Its deadline or `timeout` ended while it waited: for its turn, as the service limits unanswered
    commands, or for a connection.
    """

    def __init__(self, call: str) -> None:
        super().__init__(call, "its deadline passed before it was sent")


class WrongTerms(Exception):
    """The service queued a withdrawal on other terms than were sent.

    So something between this program and the payment is not to be trusted. Cancel the withdrawal,
    freeze the account, and tell the operator.
    """

    def __init__(self, difference: str, record: Any) -> None:
        super().__init__(difference)
        self.record = record
        """The withdrawal as the service reports it."""


def problem_of(
    status: int, headers: Mapping[str, str], body: bytes, call: str, now: float
) -> Problem | NoAnswer:
    """The error of a response. It is the service's word if it is a problem with a code."""
    after = retry_after(headers.get("retry-after", ""), now)
    try:
        raw = json.loads(body) if _PROBLEM.match(headers.get("content-type", "")) else None
        if isinstance(raw, dict) and isinstance(raw.get("code"), str):
            return Problem(raw, status=status, retry_after=after, call=call)
    except (ValueError, TypeError, KeyError):
        pass
    start = " ".join(body[:200].decode("utf-8", "replace").split())
    reason = f"{status}, which is not from the service: {start}"
    return NoAnswer(call, reason, status=status, retry_after=after)


_PROBLEM = re.compile(r"application/problem\+json\s*(;|$)", re.IGNORECASE)


def retry_after(text: str, now: float) -> int | None:
    """Seconds of a Retry-After header, which is a number or a date (RFC 9110)."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return max(0, math.ceil(parsedate_to_datetime(text).timestamp() - now))
    except ValueError:
        return None


def after_uncertain(call: str, error: Exception) -> Exception:
    """The error of a call, of which an earlier attempt may have taken effect.

    A rejection without effect does not end that doubt, because it comes before the idempotency key
    is looked up.
    """
    if not (isinstance(error, NotSent) or (isinstance(error, Problem) and error.had_no_effect)):
        return error
    doubt = NoAnswer(call, "an earlier attempt may have taken effect")
    doubt.__cause__ = error
    return doubt


def check_echo(sent: Mapping[str, Any] | None, record: T) -> T:
    """The record, if each field that was sent is in it with the same value. Else `WrongTerms`."""

    def same(value: Any) -> Any:
        text = str(value)
        return int(text, 0) if re.fullmatch(r"0x[0-9a-fA-F]+|0|[1-9][0-9]*", text) else text

    for name in ("venue_id", "asset_id", *(sent or {})):
        asked, got = (sent or {}).get(name), getattr(record, name, UNSET)
        if got is not UNSET and same(asked) != same(got):
            raise WrongTerms(f"the response names {name} {got} instead of {asked}", record)
    return record
