"""Numbers as text, rounded as the page rounds them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage; ties are rounded up, as JavaScript does.

    Examples
    --------
    >>> percent(0.0025), percent(0.5), percent(0.12345, 2)
    ('0.3 %', '50.0 %', '12.35 %')
    """
    return f"{_rounded(100 * share, digits)} %"


def fixed(value: float, digits: int = 1) -> str:
    """Return a number with this many digits after the point; ties are rounded up.

    Examples
    --------
    >>> fixed(11.25), fixed(2)
    ('11.3', '2.0')
    """
    return str(_rounded(value, digits))


def _rounded(value: float, digits: int) -> Decimal:
    return Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
