"""How much a value holds, of which as little is looked at as says so."""

import pytest

from holdfast.client.operation import MOST_AT_ONCE, is_large


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        ("x" * 1000, False),
        ("x" * 1_000_000, True),
        (["x" * 200] * 100, False),
        (["x" * 200] * 600, True),
        ([0] * (MOST_AT_ONCE - 1), False),
        ([0] * MOST_AT_ONCE, True),
        ({str(n): n for n in range(100)}, False),
        ({str(n): n for n in range(MOST_AT_ONCE)}, True),
        ([[[[]]]] * 5, False),
        ([[[[n]]] for n in range(MOST_AT_ONCE // 4)], True),
    ],
)
def test_a_value_is_large_by_all_that_it_holds(value, large):
    assert is_large(value) is large


def test_a_value_that_holds_itself_is_large():
    endless = []
    endless.append(endless)
    assert is_large(endless)
