"""What both clients do alike. The TypeScript client has the same tests, by the same cases.json."""

import asyncio
import json
import os
import time
import unittest
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

from rfq_custody import Client, Disconnected, NoAnswer, NotSent, Problem, Stream
from rfq_custody._stream import _reconnect_delay
from rfq_custody._wire import encode
from rfq_custody.models import SeveralQuotesItem

ROOT = Path(__file__).parents[3]
# The release run has all cases: test/support/depth.ts.
FULL = os.environ.get("TEST_DEPTH") == "full"
CASES = json.loads((ROOT / "test/client/cases.json").read_text())
PATHS = json.loads((ROOT / "docs/openapi.json").read_text())["paths"]
ONE: Any = {"request_id": "r", "price": 650_000}
MANY: Any = {"quotes": [SeveralQuotesItem(request_id="r", price=650_000)]}
TERMS: Any = {"venue_id": "venue_one", "asset_id": "0x1", "side": "Bid", "amount": 1}
Quoted = Callable[..., Awaitable[Any]]


def example(path: str, status: str) -> Any:
    return PATHS[path]["post"]["responses"][status]["content"]["application/json"]["example"]


class Venue:
    """A service within the process. It answers quotes, and nothing else that trades."""

    def __init__(self) -> None:
        self.ahead = time.time() - time.monotonic()
        self.answer_secs = 0.0
        self.limits: dict[str, int] | None = None
        self.instead: Callable[[str], httpx2.Response | None] = lambda _: None
        self.upgrade: Callable[[], Response | None] = lambda: None
        self.held: list[float] = []
        self.received: list[tuple[str, Any]] = []
        self.sockets: list[ServerConnection] = []
        self.unanswered = self.most_unanswered = 0

    def now(self) -> float:
        return time.monotonic() + self.ahead

    def quotes(self) -> list[Any]:
        return [body for path, body in self.received if "quote" in path]

    async def serve(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        body = json.loads(request.content or b"{}")
        self.received.append((path, body))
        other = self.instead(path)
        if other is not None:
            return other
        if path == "/time":
            return httpx2.Response(200, json={"unix_ms": self.now() * 1_000})
        if path == "/config":
            return httpx2.Response(404) if self.limits is None else self.config()
        if path.startswith("/auth/"):
            ticket = {"ticket": "t", "expires_at": "2030-01-01T00:00:00Z", "scopes": []}
            return httpx2.Response(200, json=ticket)
        if path == "/rfq/request":
            return httpx2.Response(201, json=example(path, "201"))
        ok, answer = await self.carry_out(body)
        return httpx2.Response(200, json=answer) if ok else refusal(answer)

    def config(self) -> httpx2.Response:
        return httpx2.Response(200, json={"limits": self.limits})

    def deadline_passed(self) -> dict[str, Any]:
        at = encode(datetime.fromtimestamp(self.now(), UTC))
        rest = {"type": "u", "title": "t", "detail": "d", "request_id": "r"}
        return {"code": "deadline_passed", "status": 409, "server_time": at, **rest}

    async def carry_out(self, terms: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        until = terms.get("not_after", "2030-01-01T00:00:00Z")
        late = self.now() >= datetime.fromisoformat(until).timestamp()
        refused = self.deadline_passed()
        self.unanswered += 1
        self.most_unanswered = max(self.most_unanswered, self.unanswered)
        await asyncio.sleep(self.answer_secs)
        self.unanswered -= 1
        if "quotes" in terms:
            result = {"quote": None, "problem": refused if late else None, "replayed": False}
            return True, {"results": [result for _ in terms["quotes"]]}
        return not late, refused if late else example("/rfq/quote", "201")

    async def socket(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        at = encode(datetime.fromtimestamp(self.now(), UTC))
        data = {"server_time": at, "scopes": [], "cancel_on_disconnect": False}
        hello = {"type": "hello", "stream": "s", "seq": 0, "at": at, "data": data}
        await socket.send(json.dumps(hello))
        if self.held:
            await asyncio.sleep(self.held.pop(0))
            return
        running = set()
        try:
            async for text in socket:
                if text == "ping":
                    await socket.send(json.dumps({"type": "pong", "seq": 0}))
                    continue
                running.add(asyncio.create_task(self.command(socket, json.loads(text))))
        except ConnectionClosed:
            pass

    async def command(self, socket: ServerConnection, terms: dict[str, Any]) -> None:
        self.received.append((f"socket {terms['op']}", terms))
        ok, data = await self.carry_out(terms)
        try:
            kind = "result" if ok else "error"
            await socket.send(json.dumps({"type": kind, "id": terms["id"], "data": data}))
        except ConnectionClosed:
            pass


def refusal(problem: dict[str, Any]) -> httpx2.Response:
    headers = {"content-type": "application/problem+json"}
    return httpx2.Response(problem["status"], json=problem, headers=headers)


def page(status: int, **headers: str) -> httpx2.Response:
    given = {"content-type": CASES["pages"]["type"], **headers}
    return httpx2.Response(status, text=CASES["pages"]["body"], headers=given)


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.patches = self.enterContext(ExitStack())
        asyncio.get_running_loop().set_debug(False)
        # The service that a test waits for is there again at once.
        for name in ("_transport.FIRST_DELAY", "_stream.FIRST_DELAY"):
            self.set(name, 0.001)
        self.set("_stream.LONGEST_DELAY", 0.01)
        await self.begin()

    async def begin(self) -> None:
        self.venue = venue = Venue()
        self.server: Server = await self.enterAsyncContext(
            serve(venue.socket, "127.0.0.1", 0, process_request=lambda *_: venue.upgrade())
        )
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(venue.serve))
        port = self.server.sockets[0].getsockname()[1]
        self.client = Client(f"http://127.0.0.1:{port}", "token", http=http)

    def set(self, name: str, value: Any) -> None:
        self.patches.enter_context(patch(f"rfq_custody.{name}", value))

    async def open(self, **settings: Any) -> Stream:
        stream = self.client.account_stream(**settings)
        self.addAsyncCleanup(stream.close)
        await stream.ready()
        return stream

    async def ways(self) -> dict[str, Quoted]:
        stream = await self.open()
        ways: dict[str, Quoted] = {}
        for name, of in (("REST", self.client.rfq), ("socket", stream)):
            ways[name] = lambda of=of, **more: of.quote(**ONE, **more)
            ways[f"several by {name}"] = lambda of=of, **more: of.quote_many(**MANY, **more)
        return ways

    @staticmethod
    async def ended(call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (Problem, NoAnswer) as error:
            return error

    def left_ms(self) -> float:
        at = datetime.fromisoformat(self.venue.quotes()[-1]["not_after"]).timestamp()
        return (at - self.venue.now()) * 1_000


class Word(Case):
    async def test_only_a_problem_with_a_code_is_the_service_s_word(self) -> None:
        for case in CASES["answers"]:
            with self.subTest(case["name"]):
                headers = {"content-type": case["type"]}
                answer = httpx2.Response(409, text=case["body"], headers=headers)
                self.venue.instead = lambda _, answer=answer: answer  # type: ignore[misc]
                error = await self.ended(self.client.rfq.reset_protection())
                self.assertIsInstance(error, Problem if case["problem"] else NoAnswer)
                self.assertEqual(error.status, 409)
                if not case["problem"]:
                    self.assertIn(case["body"][:20], str(error))

    async def test_a_page_is_no_rejection_whether_the_call_had_its_effect_or_not(self) -> None:
        pages = 0

        def instead(path: str) -> httpx2.Response | None:
            nonlocal pages
            pages -= 1
            return page(status) if pages >= 0 else None

        self.venue.instead = instead
        for status in CASES["pages"]["statuses"]:
            with self.subTest(status):
                for given, count in ((1, 2), (9, 5)):
                    pages = given
                    self.venue.received.clear()
                    end = await self.ended(self.client.rfq.request(**TERMS))
                    keys = [body["idempotency_key"] for _, body in self.venue.received]
                    self.assertEqual((len(keys), len(set(keys))), (count, 1))
                self.assertIsInstance(end, NoAnswer)
                self.assertEqual(end.status, status)
                self.assertIn(f"{status}", str(end))
                self.assertIn("<title>Blocked</title>", str(end))
                self.venue.received.clear()
                pages = 9
                end = await self.ended(self.client.custody.create_deposit_address())
                self.assertIsInstance(end, NoAnswer)
                self.assertEqual(len(self.venue.received), 1)

    async def test_a_page_ends_no_stream(self) -> None:
        for status in CASES["pages"]["statuses"]:
            with self.subTest(status):
                pages, upgrades = 12, 3
                lost: list[Disconnected] = []

                def instead(_: str, status: int = status) -> httpx2.Response | None:
                    nonlocal pages
                    pages -= 1
                    return page(status) if pages >= 0 else None

                def upgrade(status: int = status) -> Response | None:
                    nonlocal upgrades
                    upgrades -= 1
                    headers = Headers({"Content-Type": CASES["pages"]["type"]})
                    body = CASES["pages"]["body"].encode()
                    return Response(status, "page", headers, body) if upgrades >= 0 else None

                self.venue.instead, self.venue.upgrade = instead, upgrade
                stream = await self.open(on_disconnect=lost.append)
                self.assertGreaterEqual(len(lost), 5)
                for each in lost:
                    self.assertIsInstance(each.error, NoAnswer)
                await stream.close()

    async def test_a_429_page_keeps_its_retry_after(self) -> None:
        for case in CASES["retry_after"]:
            with self.subTest(case["header"]):
                at: list[float] = []

                def instead(
                    _: str, at: list[float] = at, header: str = case["header"]
                ) -> httpx2.Response | None:
                    at.append(time.monotonic())
                    return page(429, **{"retry-after": header}) if len(at) == 1 else None

                self.venue.instead = instead
                end = await self.ended(self.client.rfq.request(**TERMS))
                self.assertEqual(len(at), 2 if case["repeated"] else 1)
                if case["repeated"]:
                    self.assertGreaterEqual(at[1] - at[0], case["waits_secs"] or 0)
                else:
                    self.assertEqual((end.status, end.retry_after), (429, case["waits_secs"]))


class Time(Case):
    async def test_a_wall_clock_that_is_set_changes_nothing(self) -> None:
        real = time.time
        for step in CASES["wall_clock_steps_ms"]:
            # At first wrong, and then corrected.
            shift = step / 1_000
            with patch("time.time", lambda: real() + shift):  # noqa: B023
                await self.begin()
                self.venue.ahead -= shift
                for name, quote in (await self.ways()).items():
                    for shift in (step / 1_000, 0, 2 * step / 1_000):
                        with self.subTest(f"{name}, {step}, {shift}"):
                            self.assertNotIn("deadline_passed", str(await self.ended(quote())))
                            self.assertGreater(self.left_ms(), 700)
                            self.assertLessEqual(self.left_ms(), 1_100)

    async def test_an_anchor_that_is_wrong_is_found_by_a_passed_deadline(self) -> None:
        for case in CASES["wrong_anchors"]:
            for name in await self.ways():
                with self.subTest(f"{case['name']}, {name}"):
                    await self.begin()
                    quote = (await self.ways())[name]
                    await quote()
                    instant = datetime.fromtimestamp(self.venue.now(), UTC) + timedelta(seconds=1)
                    given = {"not_after": instant} if case["given"] else {}
                    self.venue.ahead += case["step_ms"] / 1_000
                    self.venue.received.clear()
                    end = await self.ended(quote(**given))
                    self.assertEqual("deadline_passed" in str(end), not case["placed"])
                    self.assertEqual(len(self.venue.quotes()), case["sent"])
                    self.assertNotIn("deadline_passed", str(await self.ended(quote())))
                    self.assertEqual(len(self.venue.quotes()), case["sent"] + 1)

    async def test_the_clocks_are_compared_again_every_ten_minutes(self) -> None:
        self.set("_clock.LIFE", 0.3)
        ways = await self.ways()
        for drift in (0.2, -0.4):
            self.venue.ahead += drift
            await asyncio.sleep(1.3)
            # A socket has compared them without a call.
            for name in sorted(ways, key=lambda name: "socket" not in name):
                with self.subTest(name):
                    await ways[name]()
                    self.assertAlmostEqual(self.left_ms(), 1_000, delta=150)

    async def test_a_quote_whose_machine_slept_meanwhile_is_not_sent_again(self) -> None:
        await self.client.rfq.quote(**ONE)
        real, shift = time.time, 0.0

        def instead(path: str) -> httpx2.Response | None:
            nonlocal shift
            if path != "/rfq/quote":
                return None
            # The monotonic clock stood still.
            self.venue.ahead += 3_600
            shift += 3_600
            return refusal(self.venue.deadline_passed())

        self.venue.instead = instead
        with patch("time.time", lambda: real() + shift), self.assertRaises(Problem):
            await self.client.rfq.quote(**ONE)
        self.assertEqual(len(self.venue.quotes()), 2)


class Reconnections(Case):
    async def test_only_a_connection_that_held_begins_the_count_again(self) -> None:
        self.set("_stream.HELD", 0.6)
        for case in CASES["reconnections"]:
            with self.subTest(case["name"]):
                # The last connection of the case before it would take one of these.
                await self.begin()
                seen: list[int] = []
                self.venue.held = [secs / 50 for secs in case["held_secs"]]
                stream = await self.open(
                    on_disconnect=lambda lost, seen=seen: seen.append(lost.attempt)
                )
                async with asyncio.timeout(60):
                    while len(seen) < len(case["attempts"]):
                        await asyncio.sleep(0.01)
                await stream.close()
                self.assertEqual(seen, case["attempts"])

    def test_a_day_of_cut_connections_needs_fewer_tickets_than_it_has(self) -> None:
        attempts, secs = 0, 0.0
        with patch("random.random", return_value=0.5):
            while secs < 86_400:
                secs += _reconnect_delay(None, attempts)
                attempts += 1
        self.assertLess(attempts, CASES["tickets_per_day"])


class Bursts(Case):
    async def place(self, case: Any, ways: list[tuple[int, Quoted]], most: int) -> None:
        self.venue.limits = case["limits"]
        self.venue.answer_secs = case["answer_ms"] / 1_000
        age = {"max_age_ms": case["max_age_ms"]}
        calls = [self.ended(quote(**age)) for count, quote in ways for _ in range(count)]
        ends = await asyncio.gather(*calls)
        # On a busy machine some that were sent arrive late.
        kinds = NotSent if case["all"] else (NotSent, Problem)
        late = [end for end in ends if isinstance(end, kinds)]
        placed = [end for end in ends if not isinstance(end, Exception)]
        self.assertEqual(len(placed) + len(late), len(calls))
        self.assertEqual(bool(late), not case["all"])
        self.assertGreater(len(placed), 0)
        sent = len(placed) + sum(not isinstance(end, NotSent) for end in late)
        self.assertEqual(len(self.venue.quotes()), sent)
        self.assertEqual(self.venue.most_unanswered, most)

    async def test_200_quotes_at_once_are_placed_or_say_that_they_waited_too_long(self) -> None:
        for case in CASES["bursts"] if FULL else CASES["bursts"][:1]:
            most = case["most"]
            plans: dict[str, tuple[list[tuple[int, str]], int]] = {
                "a socket": ([(200, "socket")], most["socket"]),
                "REST": ([(200, "REST")], most["rest"]),
                "several": ([(20, "several by REST"), (20, "several by socket")], most["several"]),
            }
            for name, (plan, limit) in plans.items():
                with self.subTest(f"{case['name']}, {name}"):
                    await self.begin()
                    ways = await self.ways()
                    await self.place(case, [(count, ways[way]) for count, way in plan], limit)
            with self.subTest(f"{case['name']}, three sockets and REST"):
                await self.begin()
                sockets = [(await self.ways())["socket"] for _ in range(3)]
                rest = (await self.ways())["REST"]
                await self.place(case, [(50, way) for way in (*sockets, rest)], most["rest"])

    async def test_a_command_gives_its_place_only_when_the_service_has_answered(self) -> None:
        stream = await self.open()
        self.venue.answer_secs = 1.0
        left = [self.ended(stream.quote(**ONE, timeout=0.1)) for _ in range(30)]
        for end in await asyncio.gather(*left):
            self.assertIsInstance(end, NoAnswer)
        self.assertEqual(self.venue.most_unanswered, 8)
        await stream.quote(**ONE, max_age_ms=5_000)
        self.assertEqual(self.venue.most_unanswered, 8)

    async def test_a_lost_connection_and_a_cancelled_caller_leave_no_place_taken(self) -> None:
        stream = await self.open()
        self.venue.answer_secs = 60.0
        lost = [asyncio.create_task(self.ended(stream.quote(**ONE))) for _ in range(20)]
        rest = [asyncio.create_task(self.client.rfq.quote(**ONE)) for _ in range(40)]
        await asyncio.sleep(0.2)
        for task in (*rest, *lost):
            task.cancel()
        await self.venue.sockets[0].close()
        await asyncio.wait({*rest, *lost})
        await asyncio.sleep(0.2)
        self.venue.answer_secs = 0.0
        again = [self.client.rfq.quote(**ONE, max_age_ms=20_000) for _ in range(60)]
        self.assertEqual(len(await asyncio.gather(*again)), 60)


class Use(unittest.TestCase):
    def test_what_every_call_would_fail_with_is_an_error_at_once(self) -> None:
        for url in ("rfq.test", "localhost:8787", "ws://rfq.test", "", "http://"):
            with self.subTest(url), self.assertRaisesRegex(ValueError, "http"):
                Client(url)
        given: Any
        for given in (("id", "secret"), {"api_key_id": "x"}, 7, b"token"):
            with self.subTest(given), self.assertRaises(ValueError):
                Client("https://rfq.test", given)


if __name__ == "__main__":
    unittest.main()
