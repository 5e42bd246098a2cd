"""Webhooks whose signature is verified. Needs `pip install "rfq-custody[webhooks]"`."""

from __future__ import annotations

from collections.abc import Mapping

from standardwebhooks import Webhook, WebhookVerificationError

from ._events import decode_event
from .models import StreamMessage

__all__ = ["WebhookVerificationError", "verify_webhook"]


def verify_webhook(secret: str, body: str | bytes, headers: Mapping[str, str]) -> StreamMessage:
    """The event of a delivery, if its signature is right and it is at most five minutes old.

    Args:
        secret: The secret that `create_webhook` or `rotate_webhook_secret` returned.
        body: The body as it arrived, before it is parsed.
        headers: The headers of the delivery, in any case.

    Raises:
        WebhookVerificationError: Somebody else sent it, or too long ago. Answer 400.
    """
    Webhook(secret).verify(body, dict(headers), json_parse=False)
    return decode_event(body)
