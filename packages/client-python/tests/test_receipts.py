"""Receipts are verified without a call. The example of the description is one."""

import json
import unittest
from dataclasses import replace

import httpx2
from jwt import InvalidTokenError
from test_client import DESCRIPTION, ROOT, client_of, example

from rfq_custody._wire import decode
from rfq_custody.models import LiabilityProof, Match, SigningKeys
from rfq_custody.receipts import verify_liability, verify_receipt

CONTENT = DESCRIPTION["paths"]["/rfq/get-match"]["get"]["responses"]["200"]["content"]
RECEIPT: str = CONTENT["application/jose"]["example"]
KEYS = decode(SigningKeys, example("get", "/.well-known/jwks.json"))
LIABILITIES = json.loads((ROOT / "test/client/liability-cases.json").read_text())


class Receipts(unittest.IsolatedAsyncioTestCase):
    async def test_a_receipt_is_asked_for_by_its_media_type(self) -> None:
        asked: list[str] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked.append(request.headers["accept"])
            return httpx2.Response(200, text=RECEIPT)

        self.assertEqual(await client_of(answer).rfq.match_receipt(match_id="m"), RECEIPT)
        self.assertEqual(asked, ["application/jose"])

    def test_a_receipt_is_the_record_if_a_key_signed_it(self) -> None:
        receipt = verify_receipt(RECEIPT, KEYS)
        self.assertEqual(receipt.record, decode(Match, example("get", "/rfq/get-match")))
        self.assertEqual((receipt.kind, receipt.deployment), ("match", "test"))
        head, body, signature = RECEIPT.split(".")
        for altered in (f"{head}.{body[:-4]}AAAA.{signature}", f"{head}.{body}.", RECEIPT[:-9]):
            with self.assertRaises(InvalidTokenError):
                verify_receipt(altered, KEYS)
        other = replace(KEYS, keys=[replace(key, kid="other") for key in KEYS.keys])
        with self.assertRaises(InvalidTokenError):
            verify_receipt(RECEIPT, other)

    def test_a_proof_leads_to_the_record_by_the_table_of_both_clients(self) -> None:
        keys = decode(SigningKeys, LIABILITIES["keys"])
        for case in LIABILITIES["cases"]:
            with self.subTest(case["name"]):
                proof = decode(LiabilityProof, case["proof"])
                if "error" in case:
                    with self.assertRaisesRegex(ValueError, case["error"]):
                        verify_liability(proof, LIABILITIES["receipt"], keys)
                else:
                    proven = verify_liability(proof, LIABILITIES["receipt"], keys)
                    self.assertEqual(proven.record.day, proof.day)
