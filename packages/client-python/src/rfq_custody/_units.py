"""Amounts and prices as people write them. All arithmetic is on integers."""

from __future__ import annotations

import re
from decimal import Decimal

DECIMALS = 6
"""Of USDC, of outcome tokens and of prices."""
MAX_PRICE = 1_000_000


def parse_units(amount: str | Decimal, decimals: int = DECIMALS) -> int:
    """Native units of an amount in decimal: `parse_units("1.5")` is 1_500_000.

    Args:
        amount: Text or a Decimal of at least 0. A float is not exact, so it raises `TypeError`.
        decimals: Of the token. Default: 6, as USDC and outcome tokens have.
    """
    match = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", _text(amount))
    if match is None or len(match[2] or "") > decimals:
        raise ValueError(f'"{amount}" is not an amount with at most {decimals} decimals')
    return int(match[1] + (match[2] or "").ljust(decimals, "0"))


def format_units(units: int, decimals: int = DECIMALS) -> str:
    """An amount of native units in decimal, without trailing zeros.

    Args:
        units: Native units, negative ones included.
        decimals: Of the token. Default: 6, as USDC and outcome tokens have.
    """
    if not isinstance(units, int):
        raise TypeError(f"native units are an int, not {type(units).__name__}: {units!r}")
    digits = str(abs(units)).rjust(decimals + 1, "0")
    whole, fraction = digits[:-decimals], digits[-decimals:].rstrip("0")
    return ("-" if units < 0 else "") + whole + (f".{fraction}" if fraction else "")


def price(usdc: str | Decimal) -> int:
    """A price as the service takes it, scaled by 1e6: `price("0.65")` is 650_000.

    Args:
        usdc: Text or a Decimal above 0, at most 1, with at most six decimals.
    """
    scaled = parse_units(usdc)
    if not 1 <= scaled <= MAX_PRICE:
        raise ValueError(f"{usdc} is not a price above 0 and at most 1")
    return scaled


def cost(amount: int, price: int) -> int:
    """USDC that `amount` costs at `price`, rounded up as the service rounds."""
    return -(-amount * price // MAX_PRICE)


def _text(amount: str | Decimal) -> str:
    if isinstance(amount, Decimal):
        whole, _, fraction = f"{amount:f}".partition(".")
        return f"{whole}.{fraction}".rstrip("0").rstrip(".") if fraction else whole
    if not isinstance(amount, str):
        raise TypeError(f"give text or a Decimal, not {type(amount).__name__}: {amount!r}")
    return amount
