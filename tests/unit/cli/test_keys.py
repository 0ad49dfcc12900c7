"""Times as `holdfast keys create --expires` takes them."""

import pytest

from holdfast.cli.keys import seconds_of
from holdfast.errors import InvalidInput


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("15m", 900), ("5s", 5), ("2w", 1_209_600)])
def test_a_time_is_a_number_and_a_unit(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "1 d", "1y", "²d", "9999999d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidInput, match="is no time"):
        seconds_of(text)
