"""Receipts that the service signed. Needs `pip install "rfq-custody[receipts]"`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from jwt import InvalidTokenError, PyJWK, get_unverified_header
from jwt.api_jws import PyJWS

from . import models as m
from ._wire import decode

__all__ = ["InvalidTokenError", "Receipt", "verify_receipt"]

_KINDS = {"match-receipt+jws": m.Match, "withdrawal-receipt+jws": m.Withdrawal}


@dataclass(frozen=True)
class Receipt:
    """What the service held at an instant."""

    kind: Literal["match", "withdrawal"]
    record: m.Match | m.Withdrawal
    deployment: str
    """Name of the deployment that signed it."""
    user_id: str
    """The user whose record it is."""
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
    kind = _KINDS.get(str(head.get("typ")))
    known = next((key for key in keys.keys if key.kid == head.get("kid")), None)
    if kind is None or known is None:
        raise InvalidTokenError("This is no receipt of one of these keys.")
    key = PyJWK({"kty": known.kty, "crv": known.crv, "x": known.x}, algorithm="EdDSA")
    payload = PyJWS().decode(receipt, key, algorithms=["EdDSA"])
    return Receipt(
        kind="match" if kind is m.Match else "withdrawal",
        record=decode(kind, json.loads(payload)),
        deployment=head["iss"],
        user_id=head["sub"],
        at=datetime.fromtimestamp(head["iat"], UTC),
        key_id=head["kid"],
    )
