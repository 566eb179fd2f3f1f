import re
from html import unescape

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.showing import shown
from labkit.errors import BadInput

POD = {
    "kind": "Pod",
    "metadata": {"name": "a", "managedFields": [{}]},
    "status": {"containers": [{"name": "main"}]},
}

words = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn", "Zl", "Zp")), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_what_is_shown_is_the_value_and_the_page_says_the_same(value):
    seen = shown(value)
    assert yaml.safe_load(str(seen)) == value
    page = seen._repr_mimebundle_()["text/html"]
    assert unescape(re.sub(r"</?(?:pre|span)[^>]*>", "", page)) == str(seen)


def test_the_servers_bookkeeping_is_left_out_and_the_order_kept():
    assert str(shown(POD)).splitlines()[:3] == ["kind: Pod", "metadata:", "  name: a"]
    assert "managedFields" not in str(shown(POD))
    assert "managedFields" in POD["metadata"]


def test_a_part_is_found_by_its_path():
    assert str(shown(POD, "status.containers.0.name")) == "main\n"


@pytest.mark.parametrize("path", ["spec", "status.containers.1", "status.containers.x"])
def test_a_part_that_is_not_there_is_told_with_what_is(path):
    with pytest.raises(BadInput, match=r"there is no .* here; there is: "):
        shown(POD, path)
