"""The one decoder of events, whether from a socket, the event log or a webhook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ._wire import decode
from .models import StreamMessage


def decode_event(raw: str | bytes | Mapping[str, Any]) -> StreamMessage:
    """The event of a webhook's body, a frame or a row of GET /account/events.

    Amounts become `int`, instants `datetime`. An event of a type that is newer than this package,
    and the `webhook.test`, is an `Event`.

    Args:
        raw: JSON text, or what it parses to. Verify the signature of a webhook before, or use
            `rfq_custody.webhooks.verify_webhook`.

    Raises:
        ValueError: It is no event of the service.
    """
    value = json.loads(raw) if isinstance(raw, str | bytes) else raw
    if not (isinstance(value, Mapping) and isinstance(value.get("data"), Mapping)):
        raise ValueError("it is no event of the service")
    try:
        # mypy takes no union for a type.
        return decode(cast(type[StreamMessage], StreamMessage), value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it is no event of the service: {error}") from error
