"""The client without asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self, Unpack

import httpx2

from ._auth import Auth
from ._client import Client, StreamSettings
from ._limits import RateLimit
from ._stream import Stream
from ._sync import Loop, iterate, waits
from ._transport import ATTEMPTS, Login
from .models import StreamMessage
from .sync_operations import (
    SyncAuthCalls,
    SyncCommands,
    SyncCustodyCalls,
    SyncRfqCalls,
    SyncServiceCalls,
)


class SyncClient(SyncServiceCalls):
    """`Client` without asyncio: `with SyncClient(url, Auth(key_id, secret)) as client: …`

    Its methods have the arguments, results and exceptions of `Client`, and block until they are
    done. It works from several threads, and within a notebook. An asyncio loop in a thread of its
    own does the work, which also calls `on_disconnect` and `totp`.

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
        client = Client(base_url, credential, attempts=attempts, http=http)
        loop = Loop()
        super().__init__(client, loop)
        self._client = client
        self.auth = SyncAuthCalls(client.auth, loop)
        self.custody = SyncCustodyCalls(client.custody, loop)
        self.rfq = SyncRfqCalls(client.rfq, loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the streams, and the connections unless `http` was given."""
        if not self._loop.closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def rate_limits(self) -> list[RateLimit]:
        """The rate limits that the service has reported, and what is left of them."""
        return self._client.rate_limits()

    def book_stream(
        self, *, venue_id: str, asset_id: str, **settings: Unpack[StreamSettings]
    ) -> SyncStream:
        """As `Client.book_stream`, with its `venue_id`, `asset_id` and `settings`."""
        stream = self._client.book_stream(venue_id=venue_id, asset_id=asset_id, **settings)
        return SyncStream(stream, self._loop)

    def venue_stream(
        self,
        *,
        venue_id: str,
        assets: Sequence[str] | None = None,
        **settings: Unpack[StreamSettings],
    ) -> SyncStream:
        """As `Client.venue_stream`, with its `venue_id`, `assets` and `settings`."""
        stream = self._client.venue_stream(venue_id=venue_id, assets=assets, **settings)
        return SyncStream(stream, self._loop)

    def account_stream(
        self, *, snapshot: bool = False, **settings: Unpack[StreamSettings]
    ) -> SyncStream:
        """As `Client.account_stream`, with its `snapshot` and `settings`."""
        stream = self._client.account_stream(snapshot=snapshot, **settings)
        return SyncStream(stream, self._loop)


class SyncStream(SyncCommands):
    """`Stream` without asyncio: `with client.account_stream() as stream: for message in …`"""

    ready = waits(Stream.ready)
    close = waits(Stream.close)

    def __init__(self, stream: Stream, loop: Loop) -> None:
        super().__init__(stream, loop)
        self._stream = stream

    def __enter__(self) -> Self:
        self._loop.run(self._stream.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[StreamMessage]:
        return iterate(self._stream, self._loop)
