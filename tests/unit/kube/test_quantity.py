from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import BadInput
from labkit.kube import Quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("80Gi", 80 * 2**30), ("81559Mi", 81559 * 2**20), ("500m", Fraction(1, 2)),
        ("1e3", 1000), ("1E3", 1000), ("1E", 10**18), ("1.5Gi", 3 * 2**29), ("-2k", -2000),
        (".5", Fraction(1, 2)), ("100n", Fraction(1, 10**7)), (7, 7), ("+1", 1),
    ],
)  # fmt: skip
def test_the_forms_of_the_api_are_read_exactly(text, value):
    assert Quantity.parse(text).value == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1KiB", "0x10", "1,5", "--1", "1.2.3"])
def test_what_the_api_refuses_is_refused(text):
    with pytest.raises(BadInput, match="is not a quantity"):
        Quantity.parse(text)


def test_equal_amounts_are_equal_however_written():
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi")
    assert Quantity.parse("1Gi") > Quantity.parse("1G")


@given(st.integers(-(10**24), 10**24), st.sampled_from(["n", "m", "", "k", "G", "Ki", "Gi"]))
def test_what_is_written_reads_back_as_the_same_amount(number, suffix):
    quantity = Quantity.parse(f"{number}{suffix}")
    assert Quantity.parse(str(quantity)) == quantity


@pytest.mark.parametrize(
    ("text", "shown"), [("1024Mi", "1Gi"), ("1000m", "1"), ("1536Mi", "1536Mi"), ("1500", "1500")]
)
def test_the_shown_form_is_the_shortest_whole_one(text, shown):
    assert str(Quantity.parse(text)) == shown
