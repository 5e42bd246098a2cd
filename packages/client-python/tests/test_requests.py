"""What the live map of requests quotes next, by cases that the TypeScript client passes, too."""

import asyncio
import json
import unittest
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

from rfq_custody import Problem
from rfq_custody._requests import From, VenueRequests
from rfq_custody.models import (
    Hello,
    Quote,
    QuoteClosed,
    QuoteOpened,
    RequestClosed,
    RequestOpened,
    Resync,
    Snapshot,
)

CASES = json.loads((Path(__file__).parents[3] / "test/client/venue-requests.json").read_text())


def request_of(text: str) -> Any:
    request_id, _, side = text.partition(":")
    return Record(request_id=request_id, side=side)


def quote_of(text: str, label: str | None = None) -> Any:
    quote_id, _, request = text.partition("=")
    return Record(**vars(request_of(request)), quote_id=quote_id, status="open", label=label)


def message(kind: Any, data: Any = None) -> Any:
    return kind(type="", stream="", seq=0, at=None, data=data)


class Run:
    def __init__(self) -> None:
        self.requests = VenueRequests()
        self.results: list[asyncio.Future[Quote]] = []
        self.tracking: list[Any] = []

    def snapshot(self, source: From, records: list[str]) -> None:
        quotes = [quote_of(text) for text in records if "=" in text]
        own = [request_of(text) for text in records if "=" not in text]
        # In two parts, the first of which changes nothing.
        for requests, some, more in ((own[:1], [], True), (own[1:], quotes, False)):
            data = Record(requests=requests, quotes=some, more=more)
            self.requests.apply(source, message(Snapshot, data))

    async def track(self, request_id: str) -> None:
        self.results.append(asyncio.get_running_loop().create_future())
        try:
            await self.requests.track(request_id, self.results[-1])
        except Problem:
            pass

    async def step(self, text: str) -> str:
        apply = self.requests.apply
        match text.split(" "):
            case ["label", label]:
                self.requests = VenueRequests(label)
            case ["both", *records]:
                apply("account", message(Hello))
                self.snapshot("account", [])
                apply("market", message(Hello))
                self.snapshot("market", records)
            case ["lost", ("market" | "account") as source]:
                self.requests.lost(source)
            case ["sent", request]:
                self.tracking.append(
                    asyncio.create_task(self.track(request_of(request).request_id))
                )
            case ["placed", quote]:
                self.results.pop().set_result(quote_of(quote))
            case ["failed", _, code]:
                self.results.pop().set_exception(Problem({"code": code}, status=409))
            case ["settled", request, at]:
                settled = request_of(request)
                self.requests.settled((settled.request_id, settled.side), int(at) / 1_000)
            case ["take", at, *_]:
                taken = self.requests.take(int(at) / 1_000, 8)
                return " ".join(["take", at, "->", *(":".join(key) for key in taken)])
            case [("market" | "account") as source, verb, *rest]:
                self.receive(source, verb, rest)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return text

    def receive(self, source: From, verb: str, rest: list[str]) -> None:
        apply = self.requests.apply
        match verb:
            case "snapshot":
                self.snapshot(source, rest)
            case "hello":
                apply(source, message(Hello))
            case "resync":
                apply(source, message(Resync))
            case "opened":
                apply(source, message(RequestOpened, request_of(rest[0])))
            case "closed":
                apply(source, message(RequestClosed, request_of(rest[0])))
            case "quoted":
                apply(source, message(QuoteOpened, quote_of(*rest)))
            case "ended":
                data = Record(**vars(quote_of(rest[0])), reason=rest[1])
                apply(source, message(QuoteClosed, data))


class Requests(unittest.IsolatedAsyncioTestCase):
    async def test_every_case_of_the_typescript_client(self) -> None:
        for name, steps in CASES.items():
            with self.subTest(name):
                run = Run()
                self.assertEqual([await run.step(text) for text in steps], steps)
