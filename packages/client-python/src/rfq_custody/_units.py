"""Amounts and prices as people write them. All arithmetic is on integers."""

from __future__ import annotations

import re
from decimal import Decimal

DECIMALS = 6
"""Of USDC, of outcome tokens and of prices."""
MAX_PRICE = 1_000_000


def parse_units(text: str, decimals: int = DECIMALS) -> int:
    """Native units of an amount in decimal: `parse_units("1.5")` is 1_500_000."""
    match = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", text)
    if match is None or len(match[2] or "") > decimals:
        raise ValueError(f'"{text}" is not an amount with at most {decimals} decimals')
    return int(match[1] + (match[2] or "").ljust(decimals, "0"))


def format_units(units: int, decimals: int = DECIMALS) -> str:
    """An amount of native units in decimal, without trailing zeros."""
    digits = str(abs(units)).rjust(decimals + 1, "0")
    whole, fraction = digits[:-decimals], digits[-decimals:].rstrip("0")
    return ("-" if units < 0 else "") + whole + (f".{fraction}" if fraction else "")


def price(usdc: str | Decimal) -> int:
    """A price as the service takes it, scaled by 1e6: `price("0.65")` is 650_000."""
    scaled = parse_units(f"{usdc:f}" if isinstance(usdc, Decimal) else usdc)
    if not 1 <= scaled <= MAX_PRICE:
        raise ValueError(f"{usdc} is not a price above 0 and at most 1")
    return scaled


def cost(amount: int, price: int) -> int:
    """USDC that `amount` costs at `price`, rounded up as the service rounds."""
    return -(-amount * price // MAX_PRICE)
