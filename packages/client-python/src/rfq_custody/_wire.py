"""How arguments are encoded, and records decoded, by the types of their fields."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

T = TypeVar("T")


class _Unset(enum.Enum):
    UNSET = "UNSET"


Unset = Literal[_Unset.UNSET]
UNSET: Final = _Unset.UNSET
"""An argument that is left out, where None has a meaning of its own."""

AMOUNT: Final = {"amount": True}
"""Metadata of a field that is an amount, which is text on the wire."""


def new_key() -> str:
    """An idempotency key, which makes a call repeatable."""
    return str(uuid.uuid4())


def amount_text(units: int | Unset | None) -> str | Unset | None:
    """An amount as it is sent. A float would lose units, so it is rejected."""
    if units is None or units is UNSET:
        return units
    if type(units) is not int or units < 0:
        raise TypeError(f"an amount is a non-negative int of native units, not {units!r}")
    return str(units)


def fields(
    values: Mapping[str, Any], keep_null: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    """The arguments that were given, as JSON values."""
    return {
        name: encode(value)
        for name, value in values.items()
        if value is not UNSET and (value is not None or name in keep_null)
    }


def encode(value: Any) -> Any:
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float; amounts and prices are ints")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a datetime needs a timezone")
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {
            each.name: amount_text(getattr(value, each.name))
            if each.metadata.get("amount")
            else getattr(value, each.name)
            for each in dataclasses.fields(value)
        }
        nullable = {each.name for each in dataclasses.fields(value) if each.default is UNSET}
        return fields(given, nullable)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [encode(item) for item in value]
    return value


def body_bytes(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def target_of(path: str, query: Mapping[str, Any] | None) -> str:
    """Path and query in a form that no HTTP client and no proxy rewrites."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, list) else str(value)

    pairs = [
        f"{quote(name)}={quote(text(value), safe='')}" for name, value in (query or {}).items()
    ]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


@functools.cache
def _hints(kind: type[Any]) -> dict[str, tuple[str, Any]]:
    """By the name on the wire: the field and its type. `from_` is `from` on the wire."""
    hints = typing.get_type_hints(kind)
    return {
        each.name.rstrip("_"): (each.name, hints[each.name]) for each in dataclasses.fields(kind)
    }


@functools.cache
def _by_type(messages: Any) -> dict[Any, Any]:
    """The classes of a union by their types. The last one is for all other types."""
    return {
        name: kind
        for kind in typing.get_args(messages)[:-1]
        for name in typing.get_args(_hints(kind)["type"][1])
    }


_AMOUNT_TEXT = re.compile(r"0x[0-9a-fA-F]+|-?[0-9]+")


def decode(kind: type[T], value: Any) -> T:
    """A record of this type. Fields that it does not know are dropped, as they may be newer."""
    # Its type is what `_decode` was asked for.
    return typing.cast(T, _decode(kind, value))


def _decode(kind: Any, value: Any) -> Any:
    if value is None or kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin is types.UnionType or origin is typing.Union:
        # A union is of None, literals and one other type, or of messages.
        rest = [each for each in typing.get_args(kind) if each is not types.NoneType]
        plain = [each for each in rest if typing.get_origin(each) is not Literal]
        if len(plain) > 1 and isinstance(value, Mapping):
            return _decode(_by_type(kind).get(value.get("type"), plain[-1]), value)
        return _decode(plain[0], value) if plain else value
    if origin is list:
        return [_decode(typing.get_args(kind)[0], item) for item in value]
    if origin is dict:
        return {key: _decode(typing.get_args(kind)[1], item) for key, item in value.items()}
    if kind is int and isinstance(value, str) and _AMOUNT_TEXT.fullmatch(value):
        return int(value, 0) if value.startswith("0x") else int(value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        known = _hints(kind)
        return kind(
            **{
                known[name][0]: _decode(known[name][1], item)
                for name, item in value.items()
                if name in known
            }
        )
    return value
