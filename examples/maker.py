#!/usr/bin/env python3
"""Quotes every request of a venue over a websocket until Ctrl-C or SIGTERM:

    pip install websockets          (12 or later)
    python3 examples/maker.py <venue_one|venue_two|venue_three>

RFQ_URL, RFQ_API_KEY_ID and RFQ_SECRET come from the environment. It sells at FAIR_PRICE plus
HALF_SPREAD and buys at FAIR_PRICE minus HALF_SPREAD, both scaled by 1e6. It misses no message, but
has no inventory limit: see market-maker.ts for one.
"""

import json
import os
import signal
import sys
import time

from sign import call, setting

try:
    from websockets.exceptions import ConnectionClosed, WebSocketException
    from websockets.sync.client import ClientConnection, connect
except ImportError:
    sys.exit("pip install websockets first (12 or later).")

QUOTE_LIFE_SECS = 60
PING_SECS = 15
RETRY_SECS = 2
KEY_REVOKED = 4401


def price(name: str, fallback: int) -> int:
    """A setting that is a price: 1 to 1000000, scaled by 1e6."""
    text = os.environ.get(name) or str(fallback)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000_000):
        sys.exit(f'{name} is "{text}"; a price is 1 to 1000000, scaled by 1e6.')
    return int(text)


FAIR_PRICE = price("FAIR_PRICE", 500_000)
HALF_SPREAD = price("HALF_SPREAD", 10_000)


class Maker:
    def __init__(self, venue: str):
        self.venue = venue
        self.seen: int | None = None
        """Number of the last message of the stream. A new connection continues after it."""

    def run(self) -> None:
        while True:
            try:
                with connect(self.address()) as socket:
                    self.listen(socket)
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code == KEY_REVOKED:
                    sys.exit(f"closed: {closed.rcvd.reason or 'the key was revoked'}")
                print(f"connection lost: {closed}", flush=True)
            except (OSError, WebSocketException) as error:
                print(f"no connection: {error}", flush=True)
            time.sleep(RETRY_SECS)

    def address(self) -> str:
        """A ticket opens one socket within 30 s, so each connection takes a new one."""
        status, text = call("POST", "/auth/ws-ticket/signed")
        if status != 201:
            # A 5xx or 429 is temporary. Others need a change of key or settings.
            if status >= 500 or status == 429:
                raise OSError(text)
            sys.exit(text)
        url = setting("RFQ_URL").replace("http", "ws", 1)
        since = "" if self.seen is None else f"&since={self.seen}"
        return f"{url}/rfq/stream?ticket={json.loads(text)['ticket']}&venue_id={self.venue}{since}"

    def listen(self, socket: ClientConnection) -> None:
        waiting = False
        while True:
            try:
                text = socket.recv(timeout=PING_SECS)
            except TimeoutError:
                if waiting:
                    raise OSError("no answer to ping") from None
                socket.send("ping")
                waiting = True
                continue
            waiting = False
            self.hear(socket, json.loads(text))

    def hear(self, socket: ClientConnection, message: dict) -> None:
        kind, data = message["type"], message.get("data", {})
        if kind == "hello":
            print(f"quoting {self.venue} at {FAIR_PRICE} ± {HALF_SPREAD}", flush=True)
            # A first message from us, so that proxies between us and the service pass on its close.
            socket.send("ping")
        elif kind == "snapshot":
            for request in data["requests"]:
                self.quote(socket, request)
            if not data["more"]:
                self.seen = message["seq"]
        elif kind == "result":
            amount = int(data["amount"], 16)
            asset = data["asset_id"]
            print(f"quoted: {data['side']} {amount} of {asset} at {data['price']}", flush=True)
        elif kind == "error":
            # A request may close before the quote arrives, and funds may run out.
            print(f"passed: {data['code']}", flush=True)
        elif kind not in ("pong", "resync") and (self.seen is None or message["seq"] > self.seen):
            # A snapshot follows a resync, as at the start.
            self.seen = message["seq"]
            if kind == "request.opened":
                self.quote(socket, data)

    def quote(self, socket: ClientConnection, request: dict) -> None:
        request_id = request["request_id"]
        for side in ("Bid", "Ask") if request["side"] == "TwoWay" else (request["side"],):
            # A Bid buys from us, an Ask sells to us.
            sign = 1 if side == "Bid" else -1
            command = {
                "id": f"{request_id}-{side}",
                "op": "quote",
                "request_id": request_id,
                "side": side,
                "price": FAIR_PRICE + sign * HALF_SPREAD,
                "expires_in_secs": QUOTE_LIFE_SECS,
                # A snapshot after a lost connection names requests again. Each is quoted once.
                "idempotency_key": f"maker-{request_id}-{side}",
            }
            socket.send(json.dumps(command))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("venue_one", "venue_two", "venue_three"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    # SIGTERM stops the program as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        Maker(sys.argv[1]).run()
    except KeyboardInterrupt:
        # The socket is closed, but a quote may still be in flight.
        time.sleep(1)
        print(f"stopped: {call('DELETE', '/rfq/quotes?venue_id=' + sys.argv[1])[1]}", flush=True)
