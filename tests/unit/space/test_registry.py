"""Spaces by name, and the promise that none of this needs torch."""

import subprocess
import sys

import pytest

from recnas.errors import SpaceError
from recnas.space.registry import get_space, space_names


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("nasrec-small", "nasrec-small"),
        ("nasrec-full", "nasrec-full"),
        ("autoctr", "nasrec-small"),
        ("xlarge", "nasrec-full"),
    ],
)
def test_names_and_aliases(asked, name):
    assert get_space(asked).name == name
    assert name in space_names()


def test_options_reach_the_space():
    assert get_space("nasrec-small", blocks=3).blocks == 3


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(SpaceError, match=r"unknown search space 'nasrec-ful'\n.*did you mean 'nasrec-full'"):
        get_space("nasrec-ful")


def test_unknown_option_suggests_the_nearest():
    with pytest.raises(SpaceError, match=r"no option block\n.*did you mean 'blocks'"):
        get_space("nasrec-small", block=3)


@pytest.mark.spawns
def test_spaces_and_costs_load_no_torch():
    code = (
        "import sys, recnas.space.registry, recnas.space.nasrec.cost, recnas.testing.space_suite;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
