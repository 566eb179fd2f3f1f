"""Kubernetes quantities, exactly: ``80Gi``, ``500m``, ``1e3``.

The rules are those of the API's own parser: decimal suffixes n u m k M G T P E, binary
suffixes Ki to Ei, or a decimal exponent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering

from labkit.errors import BadInput

_DECIMAL = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
_BINARY = {
    suffix: Fraction(1024**power)
    for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?"
)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount, compared by value: ``Quantity.parse("1Gi") == Quantity.parse("1024Mi")``.

    Attributes:
        value: the exact amount, in units (bytes, cores, ...).
        binary: whether it was written with a binary suffix, and is shown with one.
    """

    value: Fraction
    binary: bool = False

    @classmethod
    def parse(cls, text: str | int) -> Quantity:
        """Read a quantity as it stands in a manifest.

        Raises:
            BadInput: it is none.
        """
        match = _FORM.fullmatch(str(text))
        if not match:
            raise BadInput(
                f"{text!r} is not a quantity",
                hint="write a number with one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, e.g. 80Gi",
            )
        suffix = match["suffix"] or ""
        number = Fraction(match["number"])
        if suffix in _BINARY:
            return cls(number * _BINARY[suffix], binary=True)
        if suffix in _DECIMAL:
            return cls(number * _DECIMAL[suffix])
        return cls(number * Fraction(10) ** int(suffix[1:]))

    def __str__(self) -> str:
        """The shortest exact form with a whole number before the suffix."""
        if self.binary and self.value.denominator == 1 and abs(self.value) >= _BINARY["Ki"]:
            return _written(self.value, _BINARY)
        return _written(self.value, _DECIMAL)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value


def _written(value: Fraction, suffixes: dict[str, Fraction]) -> str:
    if value == 0:
        return "0"
    for suffix, factor in reversed(suffixes.items()):
        if (value / factor).denominator == 1:
            return f"{value / factor}{suffix}"
    if suffixes is _BINARY:
        return str(value)
    # Finer than a nano: the API rounds up, so nothing asked for is lost.
    return f"{-(-value // _DECIMAL['n'])}n"
