#!/usr/bin/env python3
"""Quotes every request of a venue over a websocket until Ctrl-C or SIGTERM:

    pip install websockets          (12 or later)
    python3 examples/maker.py <venue>

GET /config lists the venues.

RFQ_URL, RFQ_API_KEY_ID and RFQ_SECRET come from the environment. It sells at FAIR_PRICE plus
HALF_SPREAD and buys at FAIR_PRICE minus HALF_SPREAD, both scaled by 1e6. It buys only while its
balance and its open buying quotes together stay within MAX_POSITION, in millionths of a token. With
INVENTORY_SKEW it moves both prices down by that much at MAX_POSITION, and in proportion below it.
After a trade it replaces its open quotes on the asset.

Its quotes end with it: when its account stream ends (cancel on disconnect), or 30 s after its last
heartbeat (cancel-after). MAX_MATCHES a minute trip the protection of the account. It reports only
the trades of its own quotes, which carry the label of this run.
"""

import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable

from sign import call, setting

try:
    from websockets.exceptions import ConnectionClosed, WebSocketException
    from websockets.sync.client import ClientConnection, connect
except ImportError:
    sys.exit("pip install websockets first (12 or later).")

QUOTE_LIFE_SECS = 60
PING_SECS = 15
RETRY_SECS = 2
HEARTBEAT_SECS = 10
TIMEOUT_SECS = 30
KEY_REVOKED = 4401
LABEL = f"maker-{secrets.token_hex(4)}"
"""Names this run on its quotes. Other programs may quote with the same account."""


def whole(name: str, fallback: int, most: int, least: int = 1) -> int:
    """A setting that is a whole number."""
    text = os.environ.get(name) or str(fallback)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        sys.exit(f'{name} is "{text}"; it must be {least} to {most}.')
    return int(text)


def price(name: str, fallback: int) -> int:
    """A setting that is a price: 1 to 1000000, scaled by 1e6."""
    text = os.environ.get(name) or str(fallback)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000_000):
        sys.exit(f'{name} is "{text}"; a price is 1 to 1000000, scaled by 1e6.')
    return int(text)


FAIR_PRICE = price("FAIR_PRICE", 500_000)
HALF_SPREAD = price("HALF_SPREAD", 10_000)
MAX_MATCHES = whole("MAX_MATCHES", 100, 1_000_000)
# A million tokens, ten times what the maker of `npm run dev` starts with.
MAX_POSITION = whole("MAX_POSITION", 1_000_000_000_000, 2**62)
INVENTORY_SKEW = whole("INVENTORY_SKEW", 0, 1_000_000, least=0)


def order(method: str, path: str, body: dict | None = None) -> str:
    """Makes a call until it gets through. A 5xx or 429 is temporary. Others need a change of key or
    settings."""
    while True:
        try:
            status, text = call(method, path, b"" if body is None else json.dumps(body).encode())
        except OSError as error:
            status, text = 503, str(error)
        if status < 300:
            return text
        if status < 500 and status != 429:
            sys.exit(text)
        print(f"no connection: {text}", flush=True)
        time.sleep(RETRY_SECS)


def beat() -> None:
    """Moves the instant at which the service cancels the quotes of this key."""
    while True:
        order("POST", "/rfq/cancel-after", {"timeout_secs": TIMEOUT_SECS})
        time.sleep(HEARTBEAT_SECS)


class Connection:
    """A stream that reconnects. Gives `hear` each message once and in order."""

    def __init__(self, path: str, query: str, hear: Callable[[ClientConnection, dict], None]):
        self.path = path
        self.query = query
        self.hear = hear
        self.seen: int | None = None
        """Number of the last message of the stream. A new connection continues after it."""
        self.ready = threading.Event()

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
        ticket = json.loads(order("POST", "/auth/ws-ticket/signed"))["ticket"]
        url = setting("RFQ_URL").replace("http", "ws", 1)
        since = "" if self.seen is None else f"&since={self.seen}"
        return f"{url}{self.path}?ticket={ticket}&{self.query}{since}"

    def listen(self, socket: ClientConnection) -> None:
        # A first message from us, so that proxies between us and the service pass on its close.
        socket.send("ping")
        pinged = heard = time.monotonic()
        while True:
            # On time also while messages arrive: silence of ours would cancel the quotes.
            if time.monotonic() - pinged >= PING_SECS:
                if heard < pinged:
                    raise OSError("no answer to ping")
                socket.send("ping")
                pinged = time.monotonic()
            try:
                text = socket.recv(timeout=max(0, pinged + PING_SECS - time.monotonic()))
            except TimeoutError:
                continue
            heard = time.monotonic()
            self.take(socket, json.loads(text))

    def take(self, socket: ClientConnection, message: dict) -> None:
        kind, seq = message["type"], message.get("seq")
        if kind == "pong":
            return
        if kind == "snapshot" and not message["data"]["more"]:
            self.seen = seq
        elif kind in ("hello", "resync"):
            # Without a snapshot, only new messages follow.
            if self.path == "/account/stream" and (kind == "resync" or self.seen is None):
                self.seen = seq
            self.ready.set()
        elif kind not in ("snapshot", "result", "error"):
            if self.seen is not None and seq <= self.seen:
                return
            self.seen = seq
        self.hear(socket, message)


class Maker:
    def __init__(self, venue: str):
        self.venue = venue
        self.failure: str | None = None
        # Both streams have a thread, and two decisions at once could both pass the limit.
        self.lock = threading.RLock()
        self.placed: dict[str, dict] = {}
        """Open quotes of this run by id, as the account stream reports them."""
        self.sent: dict[str, tuple[str, int]] = {}
        """Asset and amount of buying quotes that were sent but not reported, by command."""

    def run(self) -> None:
        # A restart begins without open quotes.
        order("DELETE", f"/rfq/quotes?venue_id={self.venue}")
        limits = {"window_secs": 60, "max_matches": MAX_MATCHES, "cooldown_secs": 60}
        order("POST", "/rfq/protection", limits)
        order("POST", "/rfq/cancel-after", {"timeout_secs": TIMEOUT_SECS})
        account = Connection("/account/stream", "cancel_on_disconnect=true", self.hear_account)
        self.start(account.run)
        self.start(beat)
        account.ready.wait()
        Connection("/rfq/stream", f"venue_id={self.venue}", self.hear_market).run()

    def start(self, work: Callable[[], None]) -> None:
        """Runs it in a thread whose failure stops the program."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failure = str(error)
                os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=guarded, daemon=True).start()

    def stop(self) -> None:
        # The market's socket is closed, but a quote may still be in flight. The account's is open,
        # so that this counts the quotes that it cancels.
        time.sleep(1)
        cancelled = order("DELETE", f"/rfq/quotes?venue_id={self.venue}")
        order("POST", "/rfq/cancel-after", {"timeout_secs": 0})
        print(f"stopped: {cancelled}", flush=True)

    def hear_account(self, socket: ClientConnection, message: dict) -> None:
        kind, data = message["type"], message["data"]
        with self.lock:
            if kind == "quote.opened" and data["label"] == LABEL:
                self.placed[data["quote_id"]] = data
                self.sent.pop(command_id(data["request_id"], data["side"]), None)
                amount, asset = int(data["amount"], 16), data["asset_id"]
                print(f"quoted: {data['side']} {amount} of {asset} at {data['price']}", flush=True)
            elif kind == "quote.closed":
                self.placed.pop(data["quote_id"], None)
            elif kind == "match.created" and data["label"] == LABEL:
                amount = int(data["amount"], 16)
                print(f"traded: {data['side']} {amount} at {data['price']}", flush=True)
                self.replace_quotes(socket, data["asset_id"])
            elif kind == "resync":
                # The missed messages are lost, so quotes that we count may be closed. Start again.
                order("DELETE", f"/rfq/quotes?venue_id={self.venue}")
                self.placed.clear()
            elif kind == "error":
                self.passed(data)

    def hear_market(self, socket: ClientConnection, message: dict) -> None:
        kind, data = message["type"], message["data"]
        with self.lock:
            if kind == "hello":
                # What was in flight is sent again for the requests of the snapshot.
                self.sent.clear()
                print(f"quoting {self.venue} at {FAIR_PRICE} ± {HALF_SPREAD}", flush=True)
            elif kind == "snapshot":
                for request in data["requests"]:
                    self.quote(socket, request)
            elif kind == "request.opened":
                self.quote(socket, data)
            elif kind == "error":
                self.sent.pop(message["id"] or "", None)
                self.passed(data)

    def passed(self, problem: dict) -> None:
        """A request may close before the quote arrives, and funds may run out."""
        print(f"passed: {problem['code']}", flush=True)

    def quote(self, socket: ClientConnection, request: dict) -> None:
        request_id, asset = request["request_id"], request["asset_id"]
        for side in ("Bid", "Ask") if request["side"] == "TwoWay" else (request["side"],):
            if any(
                own["request_id"] == request_id and own["side"] == side
                for own in self.placed.values()
            ):
                continue
            held = self.position(asset) if side == "Ask" or INVENTORY_SKEW > 0 else 0
            own_price = price_of(side, held)
            if side == "Ask":
                amount = amount_of(request, own_price)
                if held + self.buying(asset) + amount > MAX_POSITION:
                    print(f"passed: {amount} of {asset} is over the inventory limit", flush=True)
                    continue
                self.sent[command_id(request_id, side)] = (asset, amount)
            # A snapshot after a lost connection names requests again. Each is quoted once.
            key = f"{LABEL}-{request_id}-{side}"
            self.send(socket, request_id, side, own_price, {"idempotency_key": key})

    def replace_quotes(self, socket: ClientConnection, asset: str) -> None:
        """Moves the open quotes to the price of the new position."""
        if INVENTORY_SKEW == 0:
            return
        held = self.position(asset)
        for quote_id, own in self.placed.items():
            own_price = price_of(own["side"], held)
            if own["asset_id"] == asset and own["price"] != own_price:
                replaces = {"replaces": quote_id}
                self.send(socket, own["request_id"], own["side"], own_price, replaces)

    def send(
        self, socket: ClientConnection, request_id: str, side: str, own_price: int, more: dict
    ) -> None:
        command = {
            "id": command_id(request_id, side),
            "op": "quote",
            "request_id": request_id,
            "side": side,
            "price": own_price,
            "expires_in_secs": QUOTE_LIFE_SECS,
            "label": LABEL,
            **more,
        }
        socket.send(json.dumps(command))

    def position(self, asset: str) -> int:
        path = f"/custody/get-balance?venue_id={self.venue}&asset_id={asset}"
        balance = json.loads(order("GET", path))
        return int(balance["balance"], 16) + int(balance["pending_balance"], 16)

    def buying(self, asset: str) -> int:
        """What our open buying quotes, and those in flight, may still add."""
        opened = sum(
            int(own["amount"], 16)
            for own in self.placed.values()
            if own["side"] == "Ask" and own["asset_id"] == asset
        )
        return opened + sum(amount for of, amount in self.sent.values() if of == asset)


def command_id(request_id: str, side: str) -> str:
    return f"{request_id}-{side}"


def price_of(side: str, held: int) -> int:
    """Both prices fall while we hold much of the asset, so that we sell more and buy less."""
    # A Bid buys from us, an Ask sells to us.
    sign = 1 if side == "Bid" else -1
    return max(1, FAIR_PRICE + sign * HALF_SPREAD - held * INVENTORY_SKEW // MAX_POSITION)


def amount_of(request: dict, own_price: int) -> int:
    """The size in tokens. One in USDC is what it buys at our price."""
    if "amount" in request:
        return int(request["amount"], 16)
    return int(request["usdc_amount"], 16) * 1_000_000 // own_price


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    # SIGTERM stops the program as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    maker = Maker(sys.argv[1])
    try:
        maker.run()
    except KeyboardInterrupt:
        # A second signal must not interrupt the cancels.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        maker.stop()
        sys.exit(maker.failure)
