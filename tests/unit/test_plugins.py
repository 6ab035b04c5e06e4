"""Plugins: how they are found, what is refused, and with which words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import recnas
from recnas import plugins
from recnas.baselines.zoo import get_entry
from recnas.cli.main import main
from recnas.config import check_settings, load_settings, read_yaml
from recnas.data.raw.recipe import load_recipe
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RunError
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.runs.folder import RunDir
from recnas.searchers.registry import searcher_names
from recnas.space.registry import get_space
from recnas.tasks.settings import CtrSearchConfig
from recnas.train.settings import WarmupConfig
from tests.plugin_state import no_plugins_left  # noqa: F401

pytestmark = pytest.mark.usefixtures("no_plugins_left")

PROXY = """
from recnas.proxies.base import Proxy, Score
from recnas.proxies.registry import register


@register
class Mine(Proxy):
    name = "{name}"

    def score(self, stats):
        return Score(1.0)
"""
SEARCHER = """
from typing import Literal
from pydantic import Field
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.settings import SearcherSettings
from recnas.searchers.registry import register


class MineSettings(SearcherSettings):
    method: Literal["mine"] = "mine"
    candidates: int = Field(7, ge=1)
    block: int = 3


@register
class Mine(RandomSearch):
    name = "mine"
    settings_class = MineSettings
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def proxy(folder: Path, name: str = "mine", file: str = "mine.py") -> Path:
    return write(folder / file, PROXY.format(name=name))


def test_a_file_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = proxy(tmp_path)
    with pytest.raises(ConfigError, match="no proxy is called 'mine'"):
        get_proxies(["mine"])
    recnas.load_plugin(path)
    monkeypatch.chdir(tmp_path)
    recnas.load_plugin("mine.py")
    assert get_proxies(["params", "mine"])[1].name == "mine"
    assert proxy_names().count("mine") == 1
    (one,) = plugins.carried()
    assert one.name == "mine.py"
    assert one.version.startswith("sha256:")


def test_names_that_are_taken_are_refused_with_both_places(tmp_path: Path):
    recnas.load_plugin(proxy(tmp_path))
    other = proxy(tmp_path, file="other.py")
    with pytest.raises(
        ConfigError, match=rf"'mine' is registered twice: at {tmp_path}/mine.py line 6 and at {other} line 6"
    ):
        recnas.load_plugin(other)
    with pytest.raises(ConfigError, match=r"own.py line 6 registers 'sigeo', and recnas has a proxy of that name"):
        recnas.load_plugin(proxy(tmp_path, "sigeo", "own.py"))
    assert get_proxies(["sigeo"])[0].__class__.__module__ == "recnas.proxies.sigeo"
    recnas.load_plugin(proxy(tmp_path, "another", "other.py"))  # corrected: what it left behind is gone
    assert get_proxies(["mine", "another"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x = 1\nimport no_such_library\n",
            r"broken.py line 2: ModuleNotFoundError: No module named 'no_such_library'",
        ),
        ("def f(:\n", r"broken.py line 1: SyntaxError"),
        ("import sys\n\nsys.exit(3)\n", r"broken.py line 3: SystemExit: 3"),
        (
            "from recnas.proxies.registry import register\nregister(int)\n",
            "is no class derived from recnas.proxies.base",
        ),
        (
            "from recnas.searchers.registry import register\nregister(int)\n",
            "is no class derived from recnas.searchers",
        ),
        ("from recnas.baselines.zoo import register\nregister('a', 3)\n", "Give a recnas.baselines.zoo.Entry"),
        ("from recnas.data.raw.recipe import register_recipe\nregister_recipe('a', 'b.yaml')\n", "which is not there"),
    ],
)
def test_plugins_that_do_not_import(text: str, said: str, tmp_path: Path, capsys):
    path = write(tmp_path / "broken.py", text)
    assert main(["doctor", "--plugin", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "fault of recnas" not in shown
    assert re.search(said, shown), shown
    assert not plugins.carried()


def test_what_is_no_plugin(tmp_path: Path, capsys):
    for arguments, said in (
        (["--plugin", str(tmp_path / "no.py")], f"There is no plugin file {tmp_path}/no.py"),
        (["--plugin", "no_such_module"], "There is no plugin no_such_module: no file of that name"),
        (["--plugin", str(tmp_path)], "is a folder without an __init__.py"),
        (["--plugin"], "--plugin needs a file or a module"),
    ):
        assert main(["doctor", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_the_environment_and_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RECNAS_PLUGINS", str(proxy(tmp_path, "by-environment", "env.py")))
    package = tmp_path / "site"
    (package / "somebodys_parts").mkdir(parents=True)
    proxy(package / "somebodys_parts", "installed", "__init__.py")
    about = package / "somebodys-3.1.dist-info"
    about.mkdir()
    write(about / "METADATA", "Metadata-Version: 2.1\nName: somebodys\nVersion: 3.1\n")
    write(about / "top_level.txt", "somebodys_parts\n")
    write(about / "entry_points.txt", "[recnas.proxies]\nparts = somebodys_parts\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(plugins, "_asked_entry_points", False)
    get_proxies(["sigeo"])
    assert not plugins.carried(), "recnas's own names need no plugin"
    assert len(get_proxies(["installed", "by-environment"])) == 2
    assert {(one.name, one.version) for one in plugins.carried()} >= {("somebodys_parts", "3.1")}
    sys.modules.pop("somebodys_parts")


def test_settings_of_a_searcher_are_checked_like_others(tmp_path: Path):
    recnas.load_plugin(write(tmp_path / "mine.py", SEARCHER))
    data = {"data": "x", "search": {"method": "mine", "block": 2}}
    config = check_settings(CtrSearchConfig, data, "the test")
    assert config.search.proposals == 7
    assert config.identity()["search"] == {"method": "mine", "redraws": 100, "seeds": [], "candidates": 7, "block": 2}
    assert check_settings(CtrSearchConfig, config.model_dump(mode="json"), "again") == config
    assert "mine" in searcher_names()
    for search, said in (
        (
            {"method": "mine", "candidates": 0},
            r"search.candidates: input should be greater than or equal to 1 \(got 0\)",
        ),
        ({"method": "mine", "candidate": 3}, r"unknown key 'search.candidate'; did you mean 'candidates'"),
        ({"method": "mien"}, r"search.method: there is no 'mien'"),
    ):
        with pytest.raises(ConfigError, match=said):
            check_settings(CtrSearchConfig, {"data": "x", "search": search}, "the test")
    with pytest.raises(ConfigError, match="needs a settings_class whose `method` says the same"):
        recnas.load_plugin(write(tmp_path / "wrong.py", SEARCHER.replace('name = "mine"', 'name = "other"')))


def test_a_config_names_plugins_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "configs"
    folder.mkdir()
    text = 'from recnas.space.nasrec.rules import NasrecRules\nfrom recnas.space.registry import register_nasrec\nregister_nasrec(NasrecRules("wide", ("fc",), ("efc",), dense_dims=(512,)))\n'
    write(folder / "space.py", text)
    path = write(folder / "a.yaml", "plugins: [space.py]\ndata: x\nspace: {name: wide}\n")
    write(folder / "b.yaml", "base: a.yaml\nseed: 4\n")
    monkeypatch.chdir(tmp_path)
    config = load_settings(WarmupConfig, folder / "b.yaml")
    assert config.space.blocks == 7  # a space of the family has its defaults
    assert get_space("wide").rules.dense_dims == (512,)
    write(path, "plugins: mine.py\ndata: x\n")
    with pytest.raises(ConfigError, match="plugins must be a list of files and modules"):
        load_settings(WarmupConfig, path)


def test_a_recipe_of_a_plugin_but_no_plugin_of_a_recipe(tmp_path: Path):
    write(tmp_path / "log.yaml", (Path(__file__).parents[2] / "datasets/csv/recipe.yaml").read_text())
    write(
        tmp_path / "mine.py",
        f"from recnas.data.raw.recipe import register_recipe\nregister_recipe('our-log', {str(tmp_path / 'log.yaml')!r})\n",
    )
    recnas.load_plugin(tmp_path / "mine.py")
    assert load_recipe("our-log") == load_recipe("csv")
    proxy(tmp_path, "by-a-recipe", "evil.py")
    recipe = write(tmp_path / "bad.yaml", (tmp_path / "log.yaml").read_text() + "\nplugins: [evil.py]\n")
    assert read_yaml(recipe)["plugins"]
    with pytest.raises(ConfigError, match="unknown key 'plugins'"):
        load_recipe(str(recipe))
    assert [one.name for one in plugins.carried()] == ["mine.py"]


def test_a_run_keeps_the_plugins_it_uses_and_wants_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recnas.load_plugin(proxy(tmp_path))
    unused = RunDir.create(tmp_path / "unused", "search", config={"proxies": ["sigeo"]})
    assert "plugins" not in unused.manifest()
    used = RunDir.create(tmp_path / "used", "search", config={"objectives": {"mine": "max"}})
    (version,) = used.manifest()["plugins"].values()
    assert (
        RunDir.create(tmp_path / "used", "search", config={"objectives": {"mine": "max"}}).manifest() == used.manifest()
    )
    monkeypatch.setattr(plugins._loaded["mine.py"], "version", "sha256:other")
    with pytest.raises(RunError, match=rf"made with the plugin mine.py {version}, and now it is sha256:other"):
        RunDir.create(tmp_path / "used", "search", config={"objectives": {"mine": "max"}})
    with pytest.raises(RunError, match=r"begun without the plugin mine\.py"):
        RunDir.create(tmp_path / "unused", "search", config={"proxies": ["sigeo"]}, names=["mine"])
    carried = [plugins.Carried(one.spec, one.name, version) for one in plugins.carried()]
    with pytest.raises(RunError, match=r"mine.py is sha256:other here"):
        plugins.take(carried)


class AskForAProxy:
    """Work of a worker that must know the plugin; what it is made of may be the plugin's own."""

    def __init__(self, maker: type) -> None:
        self.maker = maker

    def open(self):
        return lambda name: (get_proxies([name])[0].name, self.maker.name)


@pytest.mark.spawns
@pytest.mark.parametrize("engine", ["pool", "ray"])
def test_workers_know_the_plugins_of_the_process_that_started_them(engine: str, tmp_path: Path):
    if engine == "ray":
        pytest.importorskip("ray", reason="needs the extra ray")
    recnas.load_plugin(proxy(tmp_path))
    maker = type(get_proxies(["mine"])[0])
    with Execution(workers=2, engine=engine).open(AskForAProxy(maker)) as engine:
        assert list(engine.map(["mine", "sigeo"])) == [("mine", "mine"), ("sigeo", "mine")]


@pytest.mark.spawns
def test_what_recnas_new_writes_passes_its_suite(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("proxy", "searcher", "space", "model"):
        assert main(["new", kind, f"my_{kind}.py"]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 50
    recnas.load_plugin("my_model.py")
    assert get_entry("my-model").title == "MyModel"
    for arguments, said in (
        (["proxy", "my_proxy.py"], "exists already; it is not overwritten"),
        (["proxy", "sigeo.py"], "There is a proxy called sigeo already"),
        (["model", "dnn.py"], "There is a model called dnn already"),
        (["searcher", "Best One.py"], "its name becomes the name of the part"),
        (["space", "mine"], "recnas new space my_space.py"),
    ):
        assert main(["new", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.glob("*.py")) == sorted(
        f"{start}my_{kind}.py" for start in ("", "test_") for kind in ("proxy", "searcher", "space", "model")
    )
