"""What the client without asyncio consists of: a loop in a thread, and methods that wait for it."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ._pages import Page, Pages

P = ParamSpec("P")
T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, which does the work of a client."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="rfq_custody", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # After Ctrl-C the call ends, too.
            future.cancel()
            raise

    def close(self) -> None:
        if self.closed:
            return
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Calls:
    """Methods that wait for those of an object of the asynchronous client."""

    def __init__(self, calls: Any, loop: Loop) -> None:
        self._calls = calls
        self._loop = loop

    def __repr__(self) -> str:
        return f"Sync{self._calls!r}"


class waits(Generic[P, T]):
    """A method that waits for one of the asynchronous client, with its arguments and result."""

    def __init__(self, call: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._call = call

    def __get__(self, calls: Calls, owner: object = None) -> Callable[P, T]:
        if calls is None:
            return self._call  # The signature and docstring, for help().

        @functools.wraps(self._call)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return calls._loop.run(self._call(calls._calls, *args, **kwargs))

        return call


class lists(Generic[P, T]):
    """A method that returns a list of the asynchronous client, to be read without asyncio."""

    def __init__(self, call: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self._call = call

    def __get__(self, calls: Calls, owner: object = None) -> Callable[P, SyncPages[T]]:
        if calls is None:
            return self._call

        @functools.wraps(self._call)
        def call(*args: P.args, **kwargs: P.kwargs) -> SyncPages[T]:
            return SyncPages(self._call(calls._calls, *args, **kwargs), calls._loop)

        return call


_END = object()


def iterate(items: Any, loop: Loop) -> Iterator[Any]:
    async def following(iterator: Any) -> Any:
        return await anext(iterator, _END)

    iterator = aiter(items)
    try:
        while (item := loop.run(following(iterator))) is not _END:
            yield item
    finally:
        if not loop.closed:
            loop.run(iterator.aclose())


class SyncPages(Generic[T]):
    """A list that has not been read yet: `for match in client.rfq.matches(): …`"""

    def __init__(self, pages: Pages[T], loop: Loop) -> None:
        self._pages = pages
        self._loop = loop

    def __repr__(self) -> str:
        return f"Sync{self._pages!r}"

    def page(self, last_cursor: str | None = None) -> Page[T]:
        """The page at `last_cursor`, by default the first page."""
        return self._loop.run(self._pages.page(last_cursor))

    def __iter__(self) -> Iterator[T]:
        return iterate(self._pages, self._loop)

    def all(self) -> list[T]:
        """All items. Use it only for lists that are known to be short."""
        return self._loop.run(self._pages.all())
