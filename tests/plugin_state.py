"""What a test has loaded is gone after it: the other tests of the process have no plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from recnas import plugins
from recnas.space.nasrec.rules import RULES


@pytest.fixture
def no_plugins_left() -> Iterator[None]:
    yield from _restored()


@pytest.fixture(scope="module")
def no_plugins_left_by_the_module() -> Iterator[None]:
    yield from _restored()


def _restored() -> Iterator[None]:
    kept = [(parts, dict(parts._parts)) for parts in plugins._all_parts]
    loaded, by_spec, rules = dict(plugins._loaded), dict(plugins._by_spec), dict(RULES)
    asked, modules = plugins._asked_entry_points, set(sys.modules)
    yield
    for parts, before in kept:
        parts._parts = before
    for now, before in ((plugins._loaded, loaded), (plugins._by_spec, by_spec), (RULES, rules)):
        now.clear()
        now.update(before)  # type: ignore[arg-type]
    plugins._asked_entry_points = asked
    for name in [name for name in set(sys.modules) - modules if name.startswith("recnas_plugin_")]:
        del sys.modules[name]
