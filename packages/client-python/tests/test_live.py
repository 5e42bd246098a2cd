"""Live maps, with a stream that the test feeds."""

import asyncio
import unittest
from collections.abc import AsyncIterator
from typing import Any, Self

from test_client import example

from rfq_custody import Live, Problem, decode_event
from rfq_custody import _live as live
from rfq_custody.models import Balance

TOKEN = {"venue_id": "venue_one", "asset_id": "0x1"}
USDC = {"venue_id": None, "asset_id": None}
QUOTE = example("post", "/rfq/quote") | TOKEN
MATCH = example("post", "/rfq/accept") | TOKEN
WITHDRAWAL = example("post", "/custody/withdraw") | USDC | {"amount": "0x5"}
REQUEST = example("post", "/rfq/request") | TOKEN


def frame(kind: str, data: Any, seq: int = 1) -> Any:
    at = "2026-11-20T10:00:00.000Z"
    return {"type": kind, "stream": "account:1", "seq": seq, "at": at, "data": data}


def balance(asset: dict[str, Any], available: int) -> Any:
    return asset | {"balance": hex(available), "pending_balance": "0x0", "promised": "0x0"}


def snapshot(**more: Any) -> Any:
    balances = [balance(USDC, 1_000_000), balance(TOKEN, 10_000_000)]
    parts = {"requests": [], "quotes": [], "withdrawals": [], "balances": balances, "more": False}
    return frame("snapshot", parts | more)


def ended_by(reason: str) -> dict[str, str]:
    return {"close_reason": reason, "reason": reason}


class FakeStream:
    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (item := await self.inbox.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield decode_event(item)


class Account(unittest.TestCase):
    def setUp(self) -> None:
        self.account = live.LiveAccount()
        self.assertEqual(self.apply(snapshot()), "changed")

    def apply(self, raw: Any) -> live.Applied:
        return self.account.apply(decode_event(raw))

    def sums(self, asset: live.Asset = None) -> tuple[int, int, int]:
        entry: Balance = self.account.balances[asset]
        return entry.balance, entry.pending_balance, entry.promised

    def test_a_quote_sets_aside_its_reserve_until_it_ends(self) -> None:
        quote = QUOTE | {"reserve": USDC | {"amount": "0x64"}}
        self.apply(frame("quote.opened", quote))
        self.assertEqual(self.sums(), (999_900, 100, 100))
        closed = {"quote_id": quote["quote_id"], "request_id": "r", **ended_by("expired")}
        self.assertEqual(self.apply(frame("quote.closed", closed)), "changed")
        self.assertEqual((self.sums(), self.account.orders), ((1_000_000, 0, 0), {}))

    def test_a_match_moves_what_each_side_gives_and_gets(self) -> None:
        terms = {"side": "Bid", "amount": "0xa", "usdc_amount": "0x6", "fee": "0x1"}
        self.apply(frame("match.created", MATCH | terms | {"role": "requester"}))
        self.assertEqual(self.sums(), (1_000_000 - 7, 0, 0))
        self.assertEqual(self.sums(("venue_one", "0x1")), (10_000_010, 0, 0))

    def test_a_quote_that_was_missed_needs_a_snapshot_but_not_one_on_an_own_request(self) -> None:
        closed = {"quote_id": "q", "request_id": "other", **ended_by("cancelled")}
        self.assertEqual(self.apply(frame("quote.closed", closed)), "reload")
        self.apply(frame("request.opened", REQUEST))
        ended = {"request_id": REQUEST["request_id"], "reason": "cancelled"}
        self.apply(frame("request.closed", ended))
        on_own = closed | {"request_id": REQUEST["request_id"]}
        self.assertEqual(self.apply(frame("quote.closed", on_own)), "same")

    def test_a_withdrawal_is_set_aside_and_paid_or_given_back(self) -> None:
        for end, available in (("settled", 999_995), ("failed", 1_000_000)):
            self.apply(snapshot())
            for status in ("queued", "submitted", end):
                self.apply(frame(f"withdrawal.{status}", WITHDRAWAL | {"status": status}))
            self.assertEqual(self.sums(), (available, 0, 0))
        unknown = WITHDRAWAL | {"status": "settled", "withdrawal_id": "restored"}
        self.assertEqual(self.apply(frame("withdrawal.settled", unknown)), "reload")

    def test_a_deposit_is_credited_to_an_asset_in_any_spelling(self) -> None:
        deposit = example("get", "/custody/get-deposits")["items"][0]
        credited = deposit | {"venue_id": "venue_one", "asset_id": "0x01", "amount": "0x2"}
        self.apply(frame("deposit.credited", credited))
        self.assertEqual(self.sums(live.asset_key(("venue_one", "0x001")))[0], 10_000_002)

    def test_a_snapshot_in_parts_counts_once_it_is_whole(self) -> None:
        self.assertEqual(self.apply(snapshot(more=True, balances=[balance(USDC, 5)])), "same")
        self.assertEqual(self.sums()[0], 1_000_000)
        self.apply(snapshot(balances=[balance(TOKEN, 6)]))
        self.assertEqual((self.sums()[0], len(self.account.balances)), (5, 2))


class Maps(unittest.IsolatedAsyncioTestCase):
    def source(self) -> live.LiveSource:
        self.streams: list[FakeStream] = []

        def open_stream(_: live.OnDisconnect) -> Any:
            self.streams.append(FakeStream())
            self.streams[-1].inbox.put_nowait(snapshot())
            return self.streams[-1]

        return live.LiveSource(open_stream)

    @staticmethod
    def balances(source: live.LiveSource) -> Live[live.Asset, Balance]:
        return Live(source, live.asset_key, lambda account: account.balances, None)

    async def test_maps_share_a_stream_and_tell_of_changes(self) -> None:
        source = self.source()
        async with self.balances(source) as one, self.balances(source) as two:
            self.assertEqual((len(self.streams), len(one)), (1, 2))
            changed = asyncio.create_task(two.changed())
            await asyncio.sleep(0)
            self.streams[0].inbox.put_nowait(frame("match.created", MATCH))
            await asyncio.wait_for(changed, 5)
            # Also if it came before the call.
            await asyncio.wait_for(one.changed(), 5)
            self.assertEqual(one.get(None), two.get(None))
        self.assertTrue(self.streams[0].closed)
        self.assertEqual(len(one), 2)

    async def test_a_gap_brings_a_new_snapshot(self) -> None:
        live.RELOAD_DELAY, before = 0.0, live.RELOAD_DELAY
        self.addCleanup(setattr, live, "RELOAD_DELAY", before)
        async with self.balances(self.source()) as balances:
            closed = {"quote_id": "q", "request_id": "r", **ended_by("cancelled")}
            self.streams[0].inbox.put_nowait(frame("quote.closed", closed))
            await asyncio.wait_for(balances.changed(), 5)
            self.assertEqual((len(self.streams), self.streams[0].closed), (2, True))

    async def test_what_ends_the_stream_ends_the_map(self) -> None:
        async with self.balances(self.source()) as balances:
            self.streams[0].inbox.put_nowait(Problem({"code": "api_key_revoked"}, status=401))
            with self.assertRaises(Problem):
                await asyncio.wait_for(balances.changed(), 5)
            self.assertIsNotNone(balances.get(None))
