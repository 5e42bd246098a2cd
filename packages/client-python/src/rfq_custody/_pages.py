"""A list that is read page by page, or item by item."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ._transport import NDJSON, Call, Transport
from ._wire import decode, target_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page. The list ends where `next_cursor` is None. Some pages with filters are short."""

    items: list[T]
    next_cursor: str | None


class Pages(Generic[T]):
    """A list that has not been read yet: `async for match in client.rfq.matches(): …`"""

    def __init__(self, transport: Transport, call: Call, kind: type[T]) -> None:
        self._transport = transport
        self._call = call
        self._kind = kind

    def __repr__(self) -> str:
        return f"Pages({target_of(self._call.path, self._call.query)})"

    async def page(self, last_cursor: str | None = None) -> Page[T]:
        """The page at `last_cursor`, by default the first page."""
        query = dict(self._call.query or {})
        if last_cursor is not None:
            query["last_cursor"] = last_cursor
        call = replace(self._call, query=query)
        transport = self._transport
        raw = await (transport.lines(call) if call.accept == NDJSON else transport.json(call))
        return Page([decode(self._kind, item) for item in raw["items"]], raw["next_cursor"])

    async def __aiter__(self) -> AsyncIterator[T]:
        page = await self.page()
        while True:
            for item in page.items:
                yield item
            # With `limit=0` every page is empty and has a cursor.
            if page.next_cursor is None or (self._call.query or {}).get("limit") == 0:
                return
            page = await self.page(page.next_cursor)

    async def all(self) -> list[T]:
        """All items. Use it only for lists that are known to be short."""
        return [item async for item in self]
