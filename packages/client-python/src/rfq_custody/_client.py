"""The whole service as one object."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Self, TypedDict, Unpack

import httpx2

from ._auth import Auth
from ._limits import RateLimit
from ._live import Asset, Live, LiveSource, Order, asset_key
from ._requests import From, LiveRequests, VenueRequests
from ._stream import Disconnected, Stream
from ._transport import ATTEMPTS, Login, Transport
from .models import Balance, StreamMessage
from .operations import AuthCalls, CustodyCalls, RfqCalls, ServiceCalls

_ASSETS = re.compile(r"0x[0-9a-fA-F]{1,64}(,0x[0-9a-fA-F]{1,64}){0,199}")


class StreamSettings(TypedDict, total=False):
    """Options of a stream."""

    since: int
    """Resume after this message. Default: a snapshot, or only new events of the account."""
    cancel_on_disconnect: bool
    """Cancel the open quotes of the key when the connection ends or is silent for 30 s."""
    on_disconnect: Callable[[Disconnected], None]
    """Called when the connection is lost or cannot be made, before the next attempt."""


class Client(ServiceCalls):
    """A client of the service: `async with Client(url, Auth(key_id, secret)) as client: …`

    It signs its requests, retries those that are safe to retry, and raises `Problem` if the service
    rejects one, or `NoAnswer` if there is no usable response.

    Args:
        base_url: Where the service is, as `https://rfq.example.com`.
        credential: An `Auth`, a `Login`, the access token of a session, or None for the public
            operations. Default: None.
        attempts: Most attempts of a call, at least 1. Default: 5.
        http: An own client of httpx2, which the caller closes. Default: a new one.
    """

    def __init__(
        self,
        base_url: str,
        credential: Auth | Login | str | None = None,
        *,
        attempts: int = ATTEMPTS,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        transport = Transport(base_url, credential, attempts=attempts, http=http)
        super().__init__(transport)
        self.auth = AuthCalls(transport)
        self.custody = CustodyCalls(transport)
        self.rfq = RfqCalls(transport)
        self._live = LiveSource(lambda lost: self.account_stream(snapshot=True, on_disconnect=lost))

    def __repr__(self) -> str:
        credential = self._transport.credential
        named = "a session" if isinstance(credential, str) else repr(credential)
        return f"Client({self._transport.base_url!r}, {named})"

    def orders(
        self, *, on_disconnect: Callable[[Disconnected], None] | None = None
    ) -> Live[str, Order]:
        """Own open requests and quotes by id, kept current: `async with client.orders() as orders:`

        A quote that has expired stays until the service has closed it, which releases its reserve.

        Args:
            on_disconnect: Called when the connection is lost, before the next attempt.
        """
        return Live(self._live, lambda id_: id_, lambda account: account.orders, on_disconnect)

    def balances(
        self, *, on_disconnect: Callable[[Disconnected], None] | None = None
    ) -> Live[Asset, Balance]:
        """All balances, kept current. The key is `(venue_id, asset_id)`, or None for USDC.

        Args:
            on_disconnect: Called when the connection is lost, before the next attempt.
        """
        return Live(self._live, asset_key, lambda account: account.balances, on_disconnect)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def rate_limits(self) -> list[RateLimit]:
        """The rate limits that the service has reported, and what is left of them."""
        return self._transport.limits.current()

    async def close(self) -> None:
        """Closes the connections, unless `http` was given."""
        await self._transport.close()

    def book_stream(
        self, *, venue_id: str, asset_id: str, **settings: Unpack[StreamSettings]
    ) -> Stream:
        """The public stream of one book: its open requests, then every change.

        Args:
            venue_id: A venue of `config()`.
            asset_id: An outcome token of the venue, as 0x hex.
            settings: Those of `StreamSettings`.
        """
        query = {"venue_id": venue_id, "asset_id": asset_id}
        return Stream(self._transport, "/rfq/stream", query, **settings)

    def venue_stream(
        self,
        *,
        venue_id: str,
        assets: Sequence[str] | None = None,
        **settings: Unpack[StreamSettings],
    ) -> Stream:
        """The public stream of all books of a venue, or of some of its assets.

        Args:
            venue_id: A venue of `config()`.
            assets: 1 to 200 ids, as 0x hex. The numbers then have gaps, where events of others
                were left out. Default: all assets.
            settings: Those of `StreamSettings`.
        """
        query = {"venue_id": venue_id}
        if assets is not None:
            query["assets"] = "" if isinstance(assets, str) else ",".join(assets)
            # Checked here, because the service would reject every upgrade with them.
            if not _ASSETS.fullmatch(query["assets"]):
                raise ValueError("`assets` is a list of 1 to 200 asset ids")
        return Stream(self._transport, "/rfq/stream", query, **settings)

    def account_stream(
        self, *, snapshot: bool = False, **settings: Unpack[StreamSettings]
    ) -> Stream:
        """The stream of your own events. After a `Resync` without a snapshot, read your records.

        Args:
            snapshot: Whether the balances, open requests and quotes and unfinished withdrawals come
                first. Default: False.
            settings: Those of `StreamSettings`.
        """
        query = {"snapshot": "true"} if snapshot else {}
        return Stream(self._transport, "/account/stream", query, **settings)

    def requests(
        self,
        *,
        venue_id: str,
        assets: Sequence[str] | None = None,
        label: str | None = None,
        cancel_on_disconnect: bool = False,
        on_message: Callable[[StreamMessage], None] | None = None,
        on_disconnect: Callable[[Disconnected], None] | None = None,
    ) -> LiveRequests:
        """The open requests of a venue, each with your own open quotes on it, for makers.

        Needs a key with the scopes read and trade, and two sockets.

        Args:
            venue_id: A venue of `config()`.
            assets: 1 to 200 ids, as 0x hex. Default: all assets.
            label: Put on each quote. Only quotes with it count as your own. Default: none.
            cancel_on_disconnect: Cancel the open quotes of the key when the account stream ends.
                Default: False.
            on_message: Receives each message of that stream, for example `MatchCreated`.
            on_disconnect: Called when a connection is lost, before the next attempt.
        """
        requests = VenueRequests(label)

        def lost(source: From) -> Callable[[Disconnected], None]:
            def report(event: Disconnected) -> None:
                requests.lost(source)
                if on_disconnect is not None:
                    on_disconnect(event)

            return report

        account = self.account_stream(
            snapshot=True,
            cancel_on_disconnect=cancel_on_disconnect,
            on_disconnect=lost("account"),
        )
        market = self.venue_stream(venue_id=venue_id, assets=assets, on_disconnect=lost("market"))
        streams: dict[From, Stream] = {"account": account, "market": market}
        return LiveRequests(requests, streams, label, on_message)
