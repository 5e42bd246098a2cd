"""Receipts that the service signed, and proofs of liabilities. Needs `pip install "rfq-custody[receipts]"`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from jwt import InvalidTokenError, PyJWK, get_unverified_header
from jwt.api_jws import PyJWS

from . import models as m
from ._wire import decode

__all__ = [
    "InvalidTokenError",
    "ProvenLiability",
    "Receipt",
    "verify_liability",
    "verify_receipt",
]

_KINDS: dict[str, type[m.Match | m.Withdrawal | m.Liabilities]] = {
    "match": m.Match,
    "withdrawal": m.Withdrawal,
    "liabilities": m.Liabilities,
}


@dataclass(frozen=True)
class Receipt:
    """What the service held at an instant."""

    kind: Literal["match", "withdrawal", "liabilities"]
    record: m.Match | m.Withdrawal | m.Liabilities
    deployment: str
    """Name of the deployment that signed it."""
    user_id: str | None
    """The user whose record it is. None: it is everyone's."""
    at: datetime
    """When the service held this, to the second."""
    key_id: str


def verify_receipt(receipt: str, keys: m.SigningKeys) -> Receipt:
    """A receipt that is verified without a call. Compare `deployment` with the one you know.

    Args:
        receipt: The text that `match_receipt` or `withdrawal_receipt` returned.
        keys: The result of `signing_keys`, which you keep.

    Raises:
        InvalidTokenError: No key of `keys` signed it, or it was altered.
    """
    head = get_unverified_header(receipt)
    kind, _, rest = str(head.get("typ")).partition("-")
    record = _KINDS.get(kind) if rest == "receipt+jws" else None
    known = next((key for key in keys.keys if key.kid == head.get("kid")), None)
    if record is None or known is None:
        raise InvalidTokenError("This is no receipt of one of these keys.")
    key = PyJWK({"kty": known.kty, "crv": known.crv, "x": known.x}, algorithm="EdDSA")
    payload = PyJWS().decode(receipt, key, algorithms=["EdDSA"])
    return Receipt(
        kind=cast("Literal['match', 'withdrawal', 'liabilities']", kind),
        record=decode(record, json.loads(payload)),
        deployment=head["iss"],
        user_id=head.get("sub"),
        at=datetime.fromtimestamp(head["iat"], UTC),
        key_id=head["kid"],
    )


@dataclass(frozen=True)
class ProvenLiability:
    """A record of which a proof was verified."""

    record: m.Liabilities
    asset: m.AssetLiability
    deployment: str


def verify_liability(
    proof: m.LiabilityProof, receipt: str, keys: m.SigningKeys
) -> ProvenLiability:
    """Verifies without a call that `proof.amount` is in the tree whose root the service signed.

    Compare `receipt` with others, for whom it is the same, and `proof.amount` with your ledger up
    to `record.entry_id`.

    Args:
        proof: The result of `custody.get_liability_proof`.
        receipt: The text that `liabilities_receipt` returned for the proof's day.
        keys: The result of `signing_keys`, which you keep.

    Raises:
        InvalidTokenError: No key of `keys` signed the receipt, or it was altered.
        ValueError: The proof does not lead to the record.
    """
    signed = verify_receipt(receipt, keys)
    record = signed.record
    if not isinstance(record, m.Liabilities) or record.day != proof.day:
        raise ValueError("The receipt is not the record of the proof's day.")
    token = (proof.venue_id, proof.asset_id)
    asset = next((each for each in record.owed if (each.venue_id, each.asset_id) == token), None)
    if asset is None:
        raise ValueError("The record does not have the proof's asset.")
    name = "usdc" if proof.venue_id is None else f"{proof.venue_id}:{proof.asset_id}"
    total = proof.amount
    user = _bytes(proof.user_id.replace("-", ""), 16)
    leaf = [b"\0", _bytes(proof.salt[2:], 32), user, _sum(total), name.encode()]
    node = hashlib.sha256(b"".join(leaf)).digest()
    for step in proof.path:
        own = _sum(total) + node
        other = _sum(step.sum) + _bytes(step.hash[2:], 32)
        # The sums of both sides are hashed, so that no other split of their total has this hash.
        both = other + own if step.side == "left" else own + other
        node = hashlib.sha256(b"\1" + both).digest()
        total += step.sum
    if total != asset.total or f"0x{node.hex()}" != asset.root:
        raise ValueError("The proof does not lead to the root of the record.")
    return ProvenLiability(record, asset, signed.deployment)


def _sum(units: int) -> bytes:
    if not 0 <= units < 1 << 127:
        raise ValueError("A sum of the proof is no sum of balances.")
    return units.to_bytes(16, "big")


def _bytes(text: str, length: int) -> bytes:
    if len(text) != 2 * length:
        raise ValueError("A hash of the proof is malformed.")
    return bytes.fromhex(text)
