"""What needs no service. test/client/python.node.test.ts runs it: python -m unittest."""

import asyncio
import base64
import json
import unittest
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2

from rfq_custody import (
    Auth,
    Client,
    Login,
    NoAnswer,
    Problem,
    WrongTerms,
    cost,
    decode_event,
    format_units,
    parse_units,
    price,
    problems,
)
from rfq_custody._order import StreamOrder
from rfq_custody._wire import decode, encode
from rfq_custody.models import (
    Match,
    NewKeyLimits,
    SeveralQuotesItem,
    StreamMessage,
)

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "test/auth/hmac-vectors.json").read_text())
DESCRIPTION = json.loads((ROOT / "docs/openapi.json").read_text())
KEY = Auth("key", "c2VjcmV0")
Handler = Callable[[httpx2.Request], httpx2.Response]


def example(method: str, path: str) -> Any:
    responses = DESCRIPTION["paths"][path][method]["responses"]
    found = next(answer for status, answer in responses.items() if status.startswith("2"))
    return found["content"]["application/json"]["example"]


EVENT = {
    "type": "match.created",
    "stream": "account:1",
    "seq": 7,
    "at": "2026-11-20T10:00:00.000Z",
    "data": example("post", "/rfq/accept"),
}


def client_of(handler: Handler, credential: Any = KEY, **options: Any) -> Client:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return Client("https://rfq.test", credential, http=http, **options)


def problem(code: str, status: int, **more: Any) -> httpx2.Response:
    body = {"code": code, "detail": "x", "request_id": "r", "title": "t", "type": "u", **more}
    headers = {"retry-after": "0", "content-type": "application/problem+json"}
    return httpx2.Response(status, json={"status": status, **body}, headers=headers)


class Signing(unittest.TestCase):
    def test_auth_gives_the_golden_vectors(self) -> None:
        auth = Auth("key", VECTORS["secret"])
        for vector in VECTORS["vectors"]:
            body = base64.b64decode(vector["body_base64"])
            target, at = vector["path_and_query"], int(vector["timestamp"])
            if str(at) != vector["timestamp"]:
                continue  # Ours have no leading zeros.
            headers = auth.headers(vector["method"], target, body, timestamp_ms=at)
            self.assertEqual(headers["X-Hmac-Signature"], vector["signature"], vector["name"])

    def test_auth_signs_for_an_http_client_of_ones_own(self) -> None:
        def serve(request: httpx2.Request) -> httpx2.Response:
            at = int(request.headers["X-Hmac-Timestamp"])
            target = request.url.raw_path.decode()
            own = KEY.headers(request.method, target, request.content, timestamp_ms=at)
            same = own["X-Hmac-Signature"] == request.headers["X-Hmac-Signature"]
            return httpx2.Response(200 if same else 401)

        with httpx2.Client(transport=httpx2.MockTransport(serve), auth=KEY) as http:
            response = http.post("https://rfq.test/rfq/accept?q=a%2Fb", json={"quote_id": "é"})
        self.assertEqual(response.status_code, 200)

    def test_secrets_are_in_no_representation(self) -> None:
        texts = repr((KEY, Login("a@b.c", "password")))
        self.assertNotIn("c2VjcmV0", texts)
        self.assertNotIn("password", texts)


class Values(unittest.TestCase):
    def test_amounts_are_ints_and_instants_have_a_zone(self) -> None:
        match = decode(Match, example("post", "/rfq/accept") | {"newer": 1})
        self.assertEqual((match.usdc_amount, match.price), (650_000, 650_000))
        self.assertEqual(match.created_at.tzinfo, UTC)
        self.assertEqual(encode(match.created_at), example("post", "/rfq/accept")["created_at"])

    def test_a_float_is_no_amount_and_no_price(self) -> None:
        async def run() -> None:
            client = client_of(lambda _: httpx2.Response(500))
            with self.assertRaises(TypeError):
                terms: Any = {"amount": 1.5, "side": "Bid", "venue_id": "v", "asset_id": "0x1"}
                await client.rfq.request(**terms)
            with self.assertRaises(TypeError):
                await client.rfq.quote(request_id="r", price=0.65)  # type: ignore[arg-type]

        asyncio.run(run())

    def test_nested_arguments_omit_what_is_unset_and_keep_null(self) -> None:
        limits = NewKeyLimits(max_usdc_per_day=10, max_usdc_per_trade=None)
        self.assertEqual(encode(limits), {"max_usdc_per_day": "10", "max_usdc_per_trade": None})
        item = encode(SeveralQuotesItem(request_id="r", price=1))
        self.assertEqual(set(item), {"request_id", "price", "idempotency_key"})

    def test_units_convert_exactly(self) -> None:
        self.assertEqual(parse_units(Decimal("1.5") * Decimal("1.0000000")), 1_500_000)
        self.assertEqual(parse_units(Decimal("2E+1")), 20_000_000)
        for imprecise in (0.65, 1, None):
            for convert in (parse_units, price):
                with self.assertRaisesRegex(TypeError, type(imprecise).__name__):
                    convert(imprecise)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "float"):
            format_units(1.5)  # type: ignore[arg-type]
        self.assertEqual(parse_units("1.5"), 1_500_000)
        self.assertEqual(format_units(-1_500_000), "-1.5")
        self.assertEqual([price("0.65"), price(Decimal("1E-6"))], [650_000, 1])
        self.assertEqual(cost(1_000_001, 650_000), 650_001)
        for wrong in (Decimal("NaN"), Decimal("1E-7"), "", "1.0000001", "-1", "1e3", "²"):
            with self.assertRaises(ValueError):
                parse_units(wrong)
        for wrong in ("0", "1.000001"):
            with self.assertRaises(ValueError):
                price(wrong)

    def test_a_naive_datetime_is_rejected(self) -> None:
        with self.assertRaises(ValueError):
            encode(datetime(2026, 11, 20))


class Calls(unittest.IsolatedAsyncioTestCase):
    async def test_a_write_is_repeated_with_its_key_after_a_lost_response(self) -> None:
        bodies: list[Any] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            bodies.append(json.loads(request.content))
            if len(bodies) == 1:
                raise httpx2.ReadError("lost")
            return httpx2.Response(201, json=example("post", "/rfq/request"))

        terms: Any = {"venue_id": "venue_one", "asset_id": "0x1", "side": "Bid"}
        await client_of(serve).rfq.request(amount=10, **terms)
        self.assertEqual(len(bodies), 2)
        self.assertEqual(bodies[0], bodies[1])
        self.assertEqual(len(bodies[0]["idempotency_key"]), 36)
        self.assertEqual(bodies[0]["amount"], "10")

    async def test_a_call_that_is_not_repeatable_is_sent_once(self) -> None:
        sent = 0

        def serve(_: httpx2.Request) -> httpx2.Response:
            nonlocal sent
            sent += 1
            raise httpx2.ReadError("lost")

        with self.assertRaises(NoAnswer):
            await client_of(serve).rfq.cancel_quotes()
        self.assertEqual(sent, 1)

    async def test_a_rejection_after_a_lost_response_stays_uncertain(self) -> None:
        answers: list[Any] = [httpx2.ReadError("lost"), *[problem("rate_limited", 429)] * 4]

        def serve(_: httpx2.Request) -> httpx2.Response:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return httpx2.Response(answer.status_code, json=answer.json(), headers=answer.headers)

        with self.assertRaises(NoAnswer) as raised:
            await client_of(serve).rfq.accept(quote_id="q")
        self.assertIsInstance(raised.exception.__cause__, Problem)

    async def test_the_clock_follows_a_rejected_timestamp(self) -> None:
        stamps: list[int] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            stamps.append(int(request.headers["X-Hmac-Timestamp"]))
            if len(stamps) == 1:
                return problem("timestamp_outside_tolerance", 401, skew_ms=-60_000)
            return httpx2.Response(200, json=example("get", "/auth/whoami"))

        await client_of(serve, Auth("key", "s")).auth.whoami()
        self.assertAlmostEqual(stamps[1] - stamps[0], 60_000, delta=5_000)

    async def test_a_quote_is_not_sent_after_its_deadline(self) -> None:
        sent: list[Any] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/time":
                unix_ms = int(datetime.now(UTC).timestamp() * 1_000) + 3_600_000
                return httpx2.Response(200, json={"unix_ms": unix_ms})
            sent.append(json.loads(request.content))
            raise httpx2.ReadError("lost")

        before = datetime.now(UTC).timestamp()
        with self.assertRaises(NoAnswer):
            await client_of(serve, attempts=50).rfq.quote(request_id="r", price=1, max_age_ms=300)
        deadline = datetime.fromisoformat(sent[0]["not_after"]).timestamp()
        self.assertAlmostEqual(deadline - before, 3_600.3, delta=5)
        self.assertEqual(len({each["idempotency_key"] for each in sent}), 1)
        self.assertLess(datetime.now(UTC).timestamp() - before, 10)

    async def test_a_session_is_renewed_once_when_it_expires(self) -> None:
        logins = 0

        def serve(request: httpx2.Request) -> httpx2.Response:
            nonlocal logins
            if request.url.path == "/auth/login":
                logins += 1
                return httpx2.Response(200, json={"access_token": str(logins), "expires_in": 3600})
            if request.headers["authorization"] == "Bearer 1":
                return problem("session_expired", 401)
            return httpx2.Response(200, json=example("get", "/auth/whoami"))

        client = client_of(serve, Login("a@b.c", "password"))
        await asyncio.gather(client.auth.whoami(), client.auth.whoami())
        self.assertEqual(logins, 2)

    async def test_rate_limits_are_as_the_service_reports_them(self) -> None:
        headers = {
            "ratelimit-policy": '"read";q=1000;w=10, "read-credential";q=800;w=10',
            "ratelimit": '"read";r=7;t=10',
        }
        answer = httpx2.Response(200, json=example("get", "/auth/whoami"), headers=headers)
        client = client_of(lambda _: answer)
        await client.auth.whoami()
        read, other = client.rate_limits()
        self.assertEqual((read.name, read.quota, read.window_secs), ("read", 1000, 10))
        self.assertEqual((read.remaining, other.name), (7, "read-credential"))
        self.assertIsNone(other.remaining)
        later = client._transport.limits.current(datetime.now(UTC) + timedelta(seconds=11))
        self.assertIsNone(later[0].remaining)

    async def test_lists_and_booleans_of_a_query_are_values_of_python(self) -> None:
        targets: list[str] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            targets.append(request.url.raw_path.decode())
            return httpx2.Response(200, json={"items": [], "next_cursor": None})

        client = client_of(serve)
        await client.markets(test=True).all()
        await client.custody.ledger(reasons=["trade", "fee"]).all()
        self.assertIn("test=true", targets[0])
        self.assertIn("reasons=trade%2Cfee", targets[1])

    def test_a_venue_stream_takes_a_list_of_assets(self) -> None:
        client = client_of(lambda _: httpx2.Response(500))
        client.venue_stream(venue_id="v", assets=["0x1", "0xAB"])
        for wrong in ([], ["1"], ["0x1"] * 201, "0x1"):
            with self.assertRaises(ValueError):
                client.venue_stream(venue_id="v", assets=wrong)

    async def test_pages_are_fetched_as_they_are_read(self) -> None:
        cursors: list[str | None] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            cursors.append(request.url.params.get("last_cursor"))
            item = example("get", "/rfq/get-matches")["items"][0]
            following = "next" if len(cursors) < 3 else None
            return httpx2.Response(200, json={"items": [item], "next_cursor": following})

        matches = await client_of(serve).rfq.matches(limit=1).all()
        self.assertEqual((len(matches), cursors), (3, [None, "next", "next"]))

    async def test_a_withdrawal_on_other_terms_is_an_error(self) -> None:
        def serve(request: httpx2.Request) -> httpx2.Response:
            sent = json.loads(request.content)
            usdc = {"venue_id": None, "asset_id": None}
            address = other or sent["to_address"].lower()
            record = example("post", "/custody/withdraw") | sent | usdc
            return httpx2.Response(202, json=record | {"amount": "0x64", "to_address": address})

        terms: Any = {"client_withdrawal_id": "w", "amount": 100, "to_address": "0x" + "AB" * 20}
        other = ""
        self.assertEqual((await client_of(serve).custody.withdraw(**terms)).amount, 100)
        other = "0x" + "00" * 20
        with self.assertRaises(WrongTerms):
            await client_of(serve).custody.withdraw(**terms)

    async def test_a_problem_is_caught_by_its_cause_and_by_its_family(self) -> None:
        for code, each in DESCRIPTION["components"]["examples"].items():
            known = Problem(each["value"], status=each["value"]["status"])
            self.assertEqual(type(known).__name__, code.title().replace("_", ""))
        newer = Problem({"code": "newer"}, status=409)
        self.assertIs(type(newer), problems.Conflict)
        self.assertIs(type(Problem({}, status=418)), Problem)
        answer = problem("insufficient_funds", 409)
        with self.assertRaises(problems.InsufficientFunds) as raised:
            await client_of(lambda _: answer).rfq.accept(quote_id="q")
        self.assertIsInstance(raised.exception, problems.Conflict)

    async def test_a_problem_has_its_members_typed(self) -> None:
        answer = problem("insufficient_funds", 409, available="0x30d40", required="0x9eb10")
        with self.assertRaises(Problem) as raised:
            await client_of(lambda _: answer).rfq.accept(quote_id="q")
        self.assertEqual(raised.exception.body.available, 200_000)

    async def test_an_incomplete_statement_is_no_statement(self) -> None:
        whole = "entry_id\r\n1\r\n# end,1\r\n"
        for text, complete in ((whole, True), (whole[:-9], False)):
            answer = httpx2.Response(200, text=text)
            client = client_of(lambda _, answer=answer: answer)  # type: ignore[misc]
            if complete:
                self.assertEqual(await client.custody.statement(usdc=True), whole)
            else:
                with self.assertRaises(NoAnswer):
                    await client.custody.statement()


class Order(unittest.TestCase):
    @staticmethod
    def message(kind: str, seq: int, **data: Any) -> StreamMessage:
        raw = {"type": kind, "stream": "s", "seq": seq, "at": "2026-11-20T10:00:00Z", "data": data}
        return decode_event(raw)

    def seqs(self, order: StreamOrder, *given: tuple[str, int]) -> list[int]:
        more: dict[str, dict[str, Any]] = {
            "snapshot": {"requests": [], "more": False},
            "resync": {"reason": "r"},
        }
        messages = [self.message(kind, seq, **more.get(kind, {})) for kind, seq in given]
        return [each.seq for message in messages for each in order.take(message)]

    def test_events_come_once_and_in_order(self) -> None:
        order = StreamOrder(has_snapshot=True, since=None)
        got = self.seqs(order, ("x", 6), ("snapshot", 4), ("x", 4), ("x", 7), ("x", 5), ("x", 7))
        self.assertEqual((got, order.since), ([4, 5, 6, 7], 7))

    def test_numbers_have_gaps_with_chosen_assets(self) -> None:
        order = StreamOrder(has_snapshot=True, since=1, filtered=True)
        order.pong(9)
        self.assertEqual((self.seqs(order, ("x", 5), ("x", 3)), order.has_gap), ([5], False))

    def test_a_gap_shows_by_what_waits_or_by_a_pong(self) -> None:
        order = StreamOrder(has_snapshot=False, since=1)
        self.assertFalse(order.has_gap)
        order.pong(2)
        self.assertTrue(order.has_gap)
        order.disconnected()
        self.seqs(order, ("x", 3))
        self.assertTrue(order.has_gap)

    def test_a_resync_continues_from_its_number_or_from_a_snapshot(self) -> None:
        plain = StreamOrder(has_snapshot=False, since=1)
        self.assertEqual(self.seqs(plain, ("resync", 9), ("x", 10)), [9, 10])
        whole = StreamOrder(has_snapshot=True, since=1)
        self.assertEqual(self.seqs(whole, ("resync", 9), ("x", 10), ("snapshot", 9)), [9, 9, 10])


if __name__ == "__main__":
    unittest.main()
