"""One decoder of events, whether from a socket, the event log or a webhook."""

import json
import unittest
from datetime import UTC, datetime

import httpx2
from standardwebhooks import Webhook
from test_client import EVENT, client_of

from rfq_custody import decode_event
from rfq_custody.models import Event, MatchCreated
from rfq_custody.webhooks import WebhookVerificationError, verify_webhook


class Events(unittest.IsolatedAsyncioTestCase):
    async def test_an_event_is_the_same_from_a_body_a_row_and_the_event_log(self) -> None:
        text = json.dumps(EVENT)
        event = decode_event(text)
        assert isinstance(event, MatchCreated)
        self.assertEqual((event.data.usdc_amount, event.at.tzinfo), (650_000, UTC))
        page = {"items": [EVENT], "next_since": 7, "last_seq": 7}
        log = await client_of(lambda _: httpx2.Response(200, json=page)).account_events()
        self.assertEqual([decode_event(text.encode()), decode_event(EVENT)], [event, event])
        self.assertEqual(log.items, [event])

    def test_a_webhook_is_an_event_if_its_signature_is_right(self) -> None:
        secret, body, now = "whsec_bmV3ZXItc2VjcmV0", json.dumps(EVENT), datetime.now(UTC)
        headers = {
            "Webhook-Id": "account:1:7",
            "Webhook-Timestamp": str(int(now.timestamp())),
            "Webhook-Signature": Webhook(secret).sign("account:1:7", now, body),
        }
        self.assertEqual(verify_webhook(secret, body.encode(), headers), decode_event(EVENT))
        with self.assertRaises(WebhookVerificationError):
            verify_webhook(secret, body + " ", headers)

    def test_a_newer_type_is_an_event_and_other_json_is_none(self) -> None:
        newer = decode_event(EVENT | {"type": "webhook.test", "data": {}})
        self.assertIsInstance(newer, Event)
        for wrong in ("[]", "{}", "5", "null", "x", json.dumps(EVENT | {"data": None})):
            with self.assertRaises(ValueError, msg=wrong):
                decode_event(wrong)
