"""Own records that the account stream keeps current: open requests and quotes, and balances."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, Literal, Self, TypeVar

from ._stream import Disconnected, Stream
from .models import (
    Balance,
    DepositMessage,
    Hello,
    Match,
    MatchCreated,
    Quote,
    QuoteClosed,
    QuoteClosedData,
    QuoteOpened,
    RequestClosed,
    RequestItem,
    RequestOpened,
    Resync,
    Snapshot,
    SnapshotData,
    StreamMessage,
    Withdrawal,
    WithdrawalMessage,
)

K = TypeVar("K")
V = TypeVar("V")

RELOAD_DELAY = 1.0
"""Seconds before a new snapshot, so that many gaps cost one."""
MOST_REQUESTS = 10_000

Order = RequestItem | Quote
"""An own open request or quote."""
Asset = tuple[str, str] | None
"""Venue and id of an outcome token. None is USDC."""
Applied = Literal["changed", "same", "reload"]
"""What a message changed. `reload`: the state is incomplete, so a new snapshot is needed."""


def asset_key(asset: Asset) -> Asset:
    """The service ignores the case and leading zeros of an asset id."""
    return asset and (asset[0], hex(int(asset[1], 16)))


def _asset_of(venue_id: str | None, asset_id: str | None) -> Asset:
    return None if venue_id is None or asset_id is None else asset_key((venue_id, asset_id))


class LiveAccount:
    """Open requests and quotes, unfinished withdrawals and balances. Pure."""

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}
        """By request or quote id."""
        self.balances: dict[Asset, Balance] = {}
        self._withdrawals: set[str] = set()
        self._own_requests: dict[str, None] = {}
        """Those of late, also if they have ended."""
        self._parts: list[SnapshotData] = []

    def apply(self, message: StreamMessage) -> Applied:
        match message:
            case Hello() | Resync():
                # A connection that ended within a snapshot receives it from the start.
                self._parts = []
            case Snapshot():
                self._parts.append(message.data)
                if not message.data.more:
                    self._replace()
                    return "changed"
            case RequestOpened():
                self._open_request(message.data)
                return "changed"
            case RequestClosed():
                closed = self.orders.pop(message.data.request_id, None)
                return "same" if closed is None else "changed"
            case QuoteOpened():
                return self._open_quote(message.data)
            case QuoteClosed():
                return self._close_quote(message.data)
            case MatchCreated():
                return self._settle(message.data)
            case DepositMessage(type="deposit.credited", data=deposit):
                asset = _asset_of(deposit.venue_id, deposit.asset_id)
                return self._move(asset, available=deposit.amount)
            case WithdrawalMessage():
                return self._withdraw(message.data)
        return "same"

    def _replace(self) -> None:
        parts, self._parts = self._parts, []
        self.orders = {}
        for part in parts:
            for request in part.requests:
                self._open_request(request)
            self.orders |= {quote.quote_id: quote for quote in part.quotes or []}
        balances = [balance for part in parts for balance in part.balances or []]
        self.balances = {_asset_of(each.venue_id, each.asset_id): each for each in balances}
        withdrawals = [each for part in parts for each in part.withdrawals or []]
        self._withdrawals = {each.withdrawal_id for each in withdrawals}

    def _open_request(self, request: RequestItem) -> None:
        # Without its quotes' count and prices, because a snapshot has no received quotes.
        plain = replace(request, best_price=None, best_prices=None, quote_count=None)
        self.orders[request.request_id] = plain
        self._own_requests[request.request_id] = None
        if len(self._own_requests) > MOST_REQUESTS:
            del self._own_requests[next(iter(self._own_requests))]

    def _open_quote(self, quote: Quote) -> Applied:
        self.orders[quote.quote_id] = quote
        return self._reserve(quote, 1)

    def _close_quote(self, closed: QuoteClosedData) -> Applied:
        quote = self.orders.pop(closed.quote_id, None)
        if not isinstance(quote, Quote):
            # An own quote whose opening was missed held a reserve that is not known here. A quote
            # on an own request is of somebody else.
            return "same" if closed.request_id in self._own_requests else "reload"
        # The match of an accepted quote moves its reserve.
        return "changed" if closed.reason == "accepted" else self._reserve(quote, -1)

    def _reserve(self, quote: Quote, sign: int) -> Applied:
        if quote.reserve is None:
            return "changed"
        moved = sign * quote.reserve.amount
        asset = _asset_of(quote.reserve.venue_id, quote.reserve.asset_id)
        return self._move(asset, available=-moved, pending=moved, promised=moved)

    def _settle(self, match: Match) -> Applied:
        """The maker gives what the quote reserved. The requester gives what is available."""
        token = _asset_of(match.venue_id, match.asset_id)
        buys = (match.side == "Bid") == (match.role == "requester")
        cost = match.usdc_amount + match.fee if buys else match.amount
        gain = match.amount if buys else match.usdc_amount - match.fee
        given, received = (None, token) if buys else (token, None)
        if match.role == "maker":
            self._move(given, pending=-cost, promised=-cost)
        else:
            self._move(given, available=-cost)
        return self._move(received, available=gain)

    def _withdraw(self, withdrawal: Withdrawal) -> Applied:
        asset = _asset_of(withdrawal.venue_id, withdrawal.asset_id)
        known = withdrawal.withdrawal_id in self._withdrawals
        if withdrawal.status in ("settled", "failed", "cancelled"):
            if not known:
                # A restore rebuilds a payment as settled, without the steps before. One that was
                # not paid has moved nothing in the end.
                return "reload" if withdrawal.status == "settled" else "same"
            self._withdrawals.remove(withdrawal.withdrawal_id)
            back = 0 if withdrawal.status == "settled" else withdrawal.amount
            return self._move(asset, available=back, pending=-withdrawal.amount)
        self._withdrawals.add(withdrawal.withdrawal_id)
        if known:
            return "same"
        return self._move(asset, available=-withdrawal.amount, pending=withdrawal.amount)

    def _move(
        self, asset: Asset, *, available: int = 0, pending: int = 0, promised: int = 0
    ) -> Applied:
        venue_id, asset_id = asset or (None, None)
        none = Balance(
            venue_id=venue_id, asset_id=asset_id, balance=0, pending_balance=0, promised=0
        )
        before = self.balances.get(asset, none)
        self.balances[asset] = replace(
            before,
            balance=before.balance + available,
            pending_balance=before.pending_balance + pending,
            promised=before.promised + promised,
        )
        return "changed"


OnDisconnect = Callable[[Disconnected], None]


class LiveSource:
    """The account stream that the live maps of a client share."""

    def __init__(self, open_stream: Callable[[OnDisconnect], Stream]) -> None:
        self._open = open_stream
        self._connection: Connection | None = None

    def join(self, listener: OnDisconnect | None) -> Connection:
        if self._connection is None or self._connection.task.done():
            self._connection = Connection(self._open)
        self._connection.uses.append(listener)
        return self._connection


class Connection:
    def __init__(self, open_stream: Callable[[OnDisconnect], Stream]) -> None:
        self.account = LiveAccount()
        self.uses: list[OnDisconnect | None] = []
        self.changes = 0
        """Of the account since it had its first snapshot."""
        self._open = open_stream
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(lambda _: self._changed.set())

    async def leave(self, listener: OnDisconnect | None) -> None:
        """The last map closes the stream."""
        self.uses.remove(listener)
        if not self.uses:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self.task

    async def change_after(self, changes: int) -> int:
        """Waits until there are more changes. Raises what has ended the stream."""
        while self.changes <= changes:
            if self.task.done():
                self.task.result()
            await self._changed.wait()
        return self.changes

    async def _run(self) -> None:
        while await self._follow():
            await asyncio.sleep(RELOAD_DELAY)
        raise RuntimeError("the account stream has ended")

    async def _follow(self) -> bool:
        """Applies messages until the stream ends. Returns whether a new snapshot is needed."""
        async with self._open(self._lost) as stream:
            async for message in stream:
                applied = self.account.apply(message)
                if applied == "reload":
                    return True
                if applied == "changed":
                    self.changes += 1
                    changed, self._changed = self._changed, asyncio.Event()
                    changed.set()
        return False

    def _lost(self, lost: Disconnected) -> None:
        for listener in self.uses:
            if listener is not None:
                listener(lost)


class Live(Generic[K, V]):
    """Own records, kept current by the account stream: `async with client.balances() as balances:`

    All maps of a client share one socket. While the connection is lost, they show the last known
    state; after the reconnection, they apply what was missed.
    """

    def __init__(
        self,
        source: LiveSource,
        key_of: Callable[[K], K],
        values_of: Callable[[LiveAccount], dict[K, V]],
        on_disconnect: OnDisconnect | None,
    ) -> None:
        self._source = source
        self._key_of = key_of
        self._values_of = values_of
        self._on_disconnect = on_disconnect
        self._connection: Connection | None = None
        self._seen = 0
        self._values: dict[K, V] | None = {}
        """None while the map is open."""

    async def __aenter__(self) -> Self:
        """Connects unless another map of the client has, and waits for the snapshot."""
        self._connection = self._source.join(self._on_disconnect)
        try:
            self._seen = await self._connection.change_after(0)
        except BaseException:
            await self.close()
            raise
        self._values = None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the map. The entries remain readable. The last map closes the stream."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._values = dict(self._values_of(connection.account))
            await connection.leave(self._on_disconnect)

    async def changed(self) -> None:
        """Waits for a change since the map was entered or this method has returned.

        Raises what ended the map, such as the `Problem` of a revoked key.
        """
        if self._connection is None:
            raise RuntimeError("the live map is closed")
        self._seen = await self._connection.change_after(self._seen)

    def get(self, key: K) -> V | None:
        """The entry of a key, or None."""
        return self._entries().get(self._key_of(key))

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[V]:
        """The entries of this moment."""
        return iter(list(self._entries().values()))

    def _entries(self) -> dict[K, V]:
        if self._connection is None or self._values is not None:
            return self._values or {}
        return self._values_of(self._connection.account)
