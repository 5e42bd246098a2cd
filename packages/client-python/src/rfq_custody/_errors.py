"""How calls fail: with a `Problem` that the service reports, or with `NoAnswer`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
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
        # A proxy may send a body without some members.
        given = {"type": "about:blank", "title": "", "status": status, **raw}
        given = {"code": "unexpected_answer", "detail": "", "request_id": "", **given}
        self.body = decode(ProblemBody, given)
        """All members of the body, with amounts as `int`, for example `available`."""
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
    """No usable response: the call may or may not have taken effect. Repeat it if it is repeatable.

    Also raised if a repetition was rejected without effect (`__cause__`), but an earlier attempt
    had no response.
    """

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"{call}: {reason}")


class WrongTerms(Exception):
    """The service queued a withdrawal on other terms than were sent.

    So something between this program and the payment is not to be trusted. Cancel the withdrawal,
    freeze the account, and tell the operator.
    """

    def __init__(self, difference: str, record: Any) -> None:
        super().__init__(difference)
        self.record = record
        """The withdrawal as the service reports it."""


def problem_of(status: int, headers: Mapping[str, str], body: bytes, call: str) -> Problem:
    """The problem of a response. A proxy may send one that is not JSON."""
    problem = partial(Problem, status=status, retry_after=retry_after(headers), call=call)
    try:
        raw = json.loads(body)
        if not isinstance(raw, dict):
            raise ValueError("not an object")
        return problem(raw)
    except (ValueError, TypeError, KeyError):
        return problem({"detail": body[:200].decode("utf-8", "replace")})


def retry_after(headers: Mapping[str, str]) -> int | None:
    """Seconds of a Retry-After header. A date, which the service does not send, is ignored."""
    text = headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() else None


def after_uncertain(call: str, error: Exception) -> Exception:
    """The error of a call, of which an earlier attempt may have taken effect.

    A rejection without effect does not end that doubt, because it comes before the idempotency key
    is looked up.
    """
    if not (isinstance(error, Problem) and error.had_no_effect):
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
