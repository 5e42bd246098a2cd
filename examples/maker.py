#!/usr/bin/env python3
"""Quotes every request of a venue over a websocket until Ctrl-C or SIGTERM:

    pip install packages/client-python
    python3 examples/maker.py <venue>

GET /config lists the venues.

RFQ_URL, RFQ_API_KEY_ID and RFQ_SECRET come from the environment. It sells at FAIR_PRICE plus
HALF_SPREAD and buys at FAIR_PRICE minus HALF_SPREAD, both scaled by 1e6. It buys only while its
balance and its open buying quotes together stay within MAX_POSITION, in millionths of a token. With
INVENTORY_SKEW it moves both prices down by that much at MAX_POSITION, and in proportion below it.
After a trade it replaces its open quotes on the asset.

It quotes a request again when its quote has expired or ended with a lost connection. Its quotes end
with it: when its account stream ends (cancel on disconnect), or 30 s after its last heartbeat
(cancel-after). MAX_MATCHES a minute trip the protection of the account. It reports only the trades
of its own quotes, which carry the label of this run.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections import defaultdict

try:
    from rfq_custody import Auth, Client, NoAnswer, Problem
    from rfq_custody.models import MatchCreated, RequestItem, Side, StreamMessage
except ImportError:
    sys.exit("pip install packages/client-python first (Python 3.11 or later).")

RETRY_SECS = 1
HEARTBEAT_SECS = 10
TIMEOUT_SECS = 30
LABEL = f"maker-{secrets.token_hex(4)}"
"""Names this run on its quotes. Other programs may quote with the same account."""


def whole(name: str, fallback: int, most: int, least: int = 1) -> int:
    """A setting that is a whole number."""
    text = os.environ.get(name) or str(fallback)
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        sys.exit(f'{name} is "{text}"; it must be {least} to {most}.')
    return int(text)


FAIR_PRICE = whole("FAIR_PRICE", 500_000, 1_000_000)
HALF_SPREAD = whole("HALF_SPREAD", 10_000, 1_000_000)
MAX_MATCHES = whole("MAX_MATCHES", 100, 1_000_000)
# A million tokens, ten times what the maker of `npm run dev` starts with.
MAX_POSITION = whole("MAX_POSITION", 1_000_000_000_000, 2**62)
INVENTORY_SKEW = whole("INVENTORY_SKEW", 0, 1_000_000, least=0)


class Maker:
    def __init__(self, client: Client, venue: str) -> None:
        self.client = client
        self.venue = venue
        self.deciding: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By asset, because two decisions at once could both pass the limit."""
        self.replacing: set[asyncio.Task[None]] = set()
        self.printed: dict[str, str] = {}
        """What was printed of a request that is tried again and again."""

    async def run(self) -> None:
        rfq = self.client.rfq
        # A restart begins without open quotes.
        await rfq.cancel_quotes(venue_id=self.venue)
        await rfq.save_protection(window_secs=60, max_matches=MAX_MATCHES, cooldown_secs=60)
        await rfq.cancel_after(timeout_secs=TIMEOUT_SECS)
        beating = asyncio.create_task(self.beat())
        try:
            async with self.client.requests(
                venue_id=self.venue, label=LABEL, cancel_on_disconnect=True, on_message=self.report
            ) as self.requests:
                print(f"quoting {self.venue} at {FAIR_PRICE} ± {HALF_SPREAD}", flush=True)
                try:
                    await self.requests.keep_quoted(self.quote)
                finally:
                    # Before the sockets end, so that it counts the quotes that it cancels.
                    ended = await rfq.cancel_quotes(venue_id=self.venue)
                    print(f"stopped: {ended.cancelled} quotes cancelled", flush=True)
        finally:
            beating.cancel()
            await rfq.cancel_after(timeout_secs=0)

    async def beat(self) -> None:
        """Moves the instant at which the service cancels the quotes of this key."""
        pause = HEARTBEAT_SECS
        while True:
            await asyncio.sleep(pause)
            try:
                await self.client.rfq.cancel_after(timeout_secs=TIMEOUT_SECS)
                pause = HEARTBEAT_SECS
            except (Problem, NoAnswer) as missed:
                print(f"no heartbeat: {missed}", flush=True)
                pause = RETRY_SECS

    def report(self, message: StreamMessage) -> None:
        if not isinstance(message, MatchCreated) or message.data.label != LABEL:
            return
        match = message.data
        print(f"traded: {match.side} {match.amount} at {match.price}", flush=True)
        if INVENTORY_SKEW > 0:
            for entry in self.requests:
                for own in entry.quotes:
                    if own.asset_id == match.asset_id:
                        self.replace(entry.request, own.side, own.quote_id)

    def replace(self, request: RequestItem, side: Side, quote_id: str) -> None:
        """Moves an open quote to the price of the new position."""
        task = asyncio.create_task(self.quote(request, side, quote_id))
        self.replacing.add(task)
        task.add_done_callback(self.replacing.discard)

    async def quote(self, request: RequestItem, side: Side, replaces: str | None = None) -> None:
        try:
            async with self.deciding[request.asset_id]:
                await self.decide(request, side, replaces)
        except (Problem, NoAnswer) as failed:
            # The request may close before the quote arrives, and funds may run out.
            self.passed(request, failed.code if isinstance(failed, Problem) else str(failed))

    async def decide(self, request: RequestItem, side: Side, replaces: str | None) -> None:
        asset = request.asset_id
        held = await self.position(asset) if side == "Ask" or INVENTORY_SKEW > 0 else 0
        price = price_of(side, held)
        if replaces is None and side == "Ask":
            amount = amount_of(request, price)
            if held + self.buying(asset) + amount > MAX_POSITION:
                return self.passed(request, f"{amount} of {asset} is over the inventory limit")
        if replaces is not None and not self.is_open_at_other_price(request, replaces, price):
            return None
        own = await self.requests.quote(
            request_id=request.request_id,
            side=side,
            price=price,
            replaces=replaces,
        )
        print(f"quoted: {side} {own.amount} of {asset} at {price}", flush=True)

    def is_open_at_other_price(self, request: RequestItem, quote_id: str, price: int) -> bool:
        entry = self.requests.get(request.request_id)
        quotes = [] if entry is None else entry.quotes
        return any(own.quote_id == quote_id and own.price != price for own in quotes)

    def passed(self, request: RequestItem, why: str) -> None:
        if self.printed.get(request.request_id) != why:
            print(f"passed: {why}", flush=True)
        if len(self.printed) > 10_000:
            self.printed.clear()
        self.printed[request.request_id] = why

    async def position(self, asset: str) -> int:
        balance = await self.client.custody.balance(venue_id=self.venue, asset_id=asset)
        return balance.balance + balance.pending_balance

    def buying(self, asset: str) -> int:
        """What our open buying quotes may still add."""
        quotes = [own for entry in self.requests for own in entry.quotes]
        return sum(own.amount for own in quotes if own.side == "Ask" and own.asset_id == asset)


def price_of(side: Side, held: int) -> int:
    """Both prices fall while we hold much of the asset, so that we sell more and buy less."""
    # A Bid buys from us, an Ask sells to us.
    sign = 1 if side == "Bid" else -1
    return max(1, FAIR_PRICE + sign * HALF_SPREAD - held * INVENTORY_SKEW // MAX_POSITION)


def amount_of(request: RequestItem, own_price: int) -> int:
    """The size in tokens. One in USDC is what it buys at our price."""
    return request.amount or (request.usdc_amount or 0) * 1_000_000 // own_price


def setting(name: str) -> str:
    return os.environ.get(name) or sys.exit(f"Set {name}. examples/README.md says how.")


async def main(venue: str) -> None:
    key = Auth(setting("RFQ_API_KEY_ID"), setting("RFQ_SECRET"))
    async with Client(setting("RFQ_URL"), key) as client:
        quoting = asyncio.create_task(Maker(client, venue).run())
        for each in (signal.SIGINT, signal.SIGTERM):
            # A second signal must not interrupt the cancels.
            asyncio.get_running_loop().add_signal_handler(
                each, lambda: quoting.cancelling() or quoting.cancel()
            )
        try:
            await quoting
        except asyncio.CancelledError:
            pass
        except Problem as problem:
            sys.exit(str(problem))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    asyncio.run(main(sys.argv[1]))
