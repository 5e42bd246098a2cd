"""The client without asyncio: each operation as that of `Client`."""

import contextlib
import inspect
import json
import threading
import unittest
from collections.abc import Callable
from typing import Any

import httpx2
from test_client import EVENT, KEY, example, problem
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from rfq_custody import SyncClient, operations, problems, sync_operations
from rfq_custody.models import Hello, Match

Handler = Callable[[httpx2.Request], httpx2.Response]


def client_of(handler: Handler, url: str = "https://rfq.test") -> SyncClient:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return SyncClient(url, KEY, http=http)


class Sync(unittest.TestCase):
    def test_it_has_every_operation_with_its_signature_and_docstring(self) -> None:
        compared = 0
        for group in ("ServiceCalls", "AuthCalls", "CustodyCalls", "RfqCalls", "Commands"):
            of_async = getattr(operations, group)
            of_sync = getattr(sync_operations, f"Sync{group}")
            for name, method in inspect.getmembers(of_async, inspect.isfunction):
                if name.startswith("_"):
                    continue
                twin = getattr(of_sync, name)
                self.assertEqual(inspect.signature(twin), inspect.signature(method), name)
                self.assertEqual(inspect.getdoc(twin), inspect.getdoc(method), name)
                compared += 1
        self.assertGreater(compared, 65)

    def test_calls_and_lists_block_and_raise_as_those_of_the_client(self) -> None:
        def serve_http(request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/rfq/accept":
                return problem("quote_expired", 409)
            item = example("get", "/rfq/get-matches")["items"][0]
            following = None if "last_cursor" in request.url.params else "2"
            return httpx2.Response(200, json={"items": [item], "next_cursor": following})

        with client_of(serve_http) as client:
            with self.assertRaises(problems.QuoteExpired):
                client.rfq.accept(quote_id="q")
            matches = client.rfq.matches(limit=1)
            self.assertEqual([type(each) for each in matches], [Match, Match])
            self.assertEqual((len(matches.all()), len(matches.page().items)), (2, 1))
            self.assertIn("Pages(/rfq/get-matches", repr(matches))
        client.close()

    def test_a_stream_is_read_and_carries_commands(self) -> None:
        def connected(socket: Any) -> None:
            data = {"scopes": [], "server_time": EVENT["at"], "cancel_on_disconnect": False}
            socket.send(json.dumps(EVENT | {"type": "hello", "seq": 6, "data": data}))
            socket.send(json.dumps(EVENT))
            with contextlib.suppress(ConnectionClosed):
                for text in socket:
                    if text != "ping":
                        result = {"quote_id": "q", "status": "cancelled"}
                        frame = {"type": "result", "id": json.loads(text)["id"], "data": result}
                        socket.send(json.dumps(frame))

        def serve_http(request: httpx2.Request) -> httpx2.Response:
            path = request.url.path
            if path == "/time":
                return httpx2.Response(200, json={"unix_ms": 0, "iso": EVENT["at"]})
            return httpx2.Response(201, json=example("post", "/auth/ws-ticket"))

        with serve(connected, "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            port = server.socket.getsockname()[1]
            with client_of(serve_http, f"http://127.0.0.1:{port}") as client:
                with client.account_stream() as stream:
                    messages = iter(stream)
                    self.assertIsInstance(next(messages), Hello)
                    self.assertEqual(next(messages).seq, 7)
                    self.assertEqual(stream.cancel_quote(quote_id="q").status, "cancelled")
            server.shutdown()
