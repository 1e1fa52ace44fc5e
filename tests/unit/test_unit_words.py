"""What a unit file says of its command is read as it was meant, whatever had to be escaped in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.overview.status import row
from roles.overview.summary import summary
from roles.service.command import HANDED_OVER, escaped, words_of
from roles.service.reasons import changes, options
from roles.service.unit import wanted_unit
from tests.unit import hosts

PATH = '/home/dev/my models/50% "$HOME" it\'s.gguf'


@given(st.lists(st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" $%\\\"'#;"))))
def test_words_come_back_as_they_were(words: list[str]) -> None:
    assert words_of(" ".join(map(escaped, words))) == words


def test_what_systemd_hands_over_stays_its_name() -> None:
    assert words_of(escaped(HANDED_OVER)) == [HANDED_OVER]


def test_a_line_of_somebody_elses_that_is_no_good_is_read_all_the_same() -> None:
    assert options('ExecStart=/bin/llama-server -m "half -c 4096')["-c"] == "4096"


def test_a_model_with_blanks_in_its_path_is_named_whole() -> None:
    wishes = hosts.wishes(model_path=PATH)
    unit = wanted_unit(wishes, hosts.converged(wishes, model={"path": PATH})).text
    seen = hosts.converged(wishes, model={"path": PATH}, service={"unit": unit})
    assert options(unit)["-m"] == PATH
    name = PATH.rpartition("/")[2]
    assert row(wishes, seen)[0].splitlines()[0] == name
    assert summary(wishes, seen).startswith(f"serving {name} at ")


@pytest.mark.parametrize(("before", "after"), [("-1", "7"), ("-0.5", "-2")])
def test_a_number_below_zero_is_a_value(before: str, after: str) -> None:
    one, two = (
        wanted_unit(hosts.wishes(server_args=["--seed", value]), hosts.converged(hosts.wishes())).text
        for value in (before, after)
    )
    assert changes(one, two) == f"--seed {before} -> {after}"
