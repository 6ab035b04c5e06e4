"""pytest TESTFILE: what every hand-crafted model promises."""

from pathlib import Path

from recnas.plugins import load_plugin
from recnas.testing.model_suite import ModelConformance

load_plugin(Path(__file__).with_name("FILE"))


class TestMine(ModelConformance):
    name = "MINE"
