from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import pytest

import recnas
from recnas import api


def test_the_package_shows_what_there_is():
    assert dir(recnas) == sorted([*recnas.__all__, "__version__"])
    assert recnas.search is api.search
    assert list(inspect.signature(recnas.search).parameters)[:2] == ["config", "out"]
    assert "Run a search, or continue one" in pydoc.render_doc(recnas.search)
    text = pydoc.plain(pydoc.render_doc(recnas))
    for name in recnas.__all__:
        if name in ("space", "train"):  # folders that can be called: help(recnas.train) shows the folder
            assert inspect.signature(getattr(recnas, name)) == inspect.signature(getattr(api, name))
            assert f" {name} " in text
            continue
        assert f"    {name}(" in text or f"class {name}(" in text
    with pytest.raises(AttributeError, match="has no attribute 'serch'"):
        recnas.serch  # noqa: B018


@pytest.mark.spawns
def test_looking_loads_no_torch():
    code = "import recnas, sys; dir(recnas); recnas.search; help(recnas); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
