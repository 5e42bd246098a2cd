"""Every parameter is documented, in terms of Python."""

import inspect
import re
import unittest

import httpx2
from test_client import client_of

from rfq_custody import (
    Auth,
    Client,
    SyncClient,
    cost,
    decode_event,
    format_units,
    models,
    operations,
    parse_units,
    price,
)
from rfq_custody.webhooks import verify_webhook


class Documentation(unittest.TestCase):
    CALLS = (operations.ServiceCalls, operations.AuthCalls, operations.CustodyCalls)
    WIRE = re.compile(r"hexadec|\b(decimal|JSON|RFC 3339|[Nn]ull|string|commas)\b|`(true|false)`")

    def test_every_parameter_is_in_the_docstring_in_terms_of_python(self) -> None:
        documented = 0
        for group in (*self.CALLS, operations.RfqCalls, operations.Commands):
            for name, method in inspect.getmembers(group, inspect.isfunction):
                if name.startswith("_"):
                    continue
                text = " ".join((inspect.getdoc(method) or "").split())
                self.assertIsNone(self.WIRE.search(text), name)
                for parameter in list(inspect.signature(method).parameters)[1:]:
                    self.assertIn(f" {parameter}: ", text, name)
                    documented += 1
        self.assertGreater(documented, 250)
        quote = inspect.getdoc(operations.RfqCalls.quote) or ""
        self.assertIn("It is firm until then. 1 to 300. Default: 30.", " ".join(quote.split()))

    def test_amounts_and_instants_are_not_described_as_text(self) -> None:
        source = inspect.getsource(models)
        # Not those of the limits, some of which are of the wire.
        kind = r"(?!dict).*\b(?:int|datetime)\b.*"
        fields = re.findall(rf'^ *\w+(?:: | = )({kind})\n *"""([^"]*)', source, re.MULTILINE)
        self.assertGreater(len(fields), 100)
        wrong = [text for _, text in fields if self.WIRE.search(text)]
        self.assertEqual(wrong, [])

    def test_parameters_that_are_not_generated_are_in_a_docstring_too(self) -> None:
        functions = (cost, decode_event, format_units, parse_units, price, verify_webhook)
        documented = [(inspect.getdoc(each), each) for each in functions]
        for owner in (Auth, Client, SyncClient):
            for name, method in inspect.getmembers(owner, inspect.isfunction):
                if name in vars(owner) and (name == "__init__" or not name.startswith("_")):
                    documented.append((f"{owner.__doc__} {method.__doc__}", method))
        for text, each in documented:
            for name in inspect.signature(each).parameters:
                is_own = name not in ("self", "request")
                self.assertTrue(not is_own or re.search(rf"\b{name}\b", text or ""), (each, name))

    def test_objects_show_what_they_are_without_secrets(self) -> None:
        client = client_of(lambda _: httpx2.Response(500))
        shown = repr((client, client.rfq.matches(limit=5), client.venue_stream(venue_id="v")))
        self.assertEqual(
            shown,
            "(Client('https://rfq.test', Auth('key')), Pages(/rfq/get-matches?limit=5), "
            "Stream(/rfq/stream?venue_id=v, since=None))",
        )
        self.assertNotIn("token", repr(Client("https://rfq.test", "token")))
