"""Configs that start from another one, and the configs that are shipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from recnas.cli.main import main
from recnas.cli.shipped import settings_class, shipped_configs
from recnas.config import check_settings, read_yaml
from recnas.errors import ConfigError
from recnas.tasks.registry import load_search
from recnas.tasks.settings import CtrSearchConfig

SHIPPED = shipped_configs()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_base_beside_the_file_is_read_from_wherever_one_stands(tmp_path: Path, monkeypatch):
    write(tmp_path / "deep" / "first.yaml", "seed: 1\nwarmup: {data_share: 0.5, least_steps: 9}\nscore: {batches: 2}\n")
    write(tmp_path / "second.yaml", "base: deep/first.yaml\nwarmup: {data_share: 0.25}\n")
    mine = write(tmp_path / "own" / "mine.yaml", "base: ../second.yaml\ndata: ads\nscore: {batch_size: 64}\n")
    expected = {
        "seed": 1,
        "data": "ads",
        "warmup": {"data_share": 0.25, "least_steps": 9},
        "score": {"batches": 2, "batch_size": 64},
    }
    for folder in (tmp_path, tmp_path / "own", Path("/")):
        monkeypatch.chdir(folder)
        assert read_yaml(os.path.relpath(mine)) == expected
    config = load_search(mine, ["warmup.least_steps=3"])
    assert isinstance(config, CtrSearchConfig)
    assert (config.warmup.data_share, config.warmup.least_steps, config.seed) == (0.25, 3, 1)


def test_a_shipped_config_can_be_the_base_by_its_name(tmp_path: Path):
    mine = write(tmp_path / "mine.yaml", "base: synthetic/laptop\nfinal: {candidates: 2}\n")
    shipped, found = read_yaml(SHIPPED["synthetic/laptop"]), read_yaml(mine)
    assert found == {**shipped, "final": {**shipped["final"], "candidates": 2}}
    # A file beside it goes first.
    write(tmp_path / "synthetic" / "laptop", "seed: 9\n")
    assert read_yaml(mine) == {"seed": 9, "final": {"candidates": 2}}


def test_a_value_replaces_what_the_base_has_and_null_takes_it_away(tmp_path: Path):
    write(tmp_path / "base.yaml", "score: {proxies: [sigeo, naswot]}\nlimits: {params: 1000}\n")
    mine = write(tmp_path / "mine.yaml", "base: base.yaml\nscore: {proxies: [zico]}\nlimits: {params: null}\n")
    assert read_yaml(mine) == {"score": {"proxies": ["zico"]}, "limits": {"params": None}}


def test_another_method_replaces_the_section_and_the_same_one_adds_to_it(tmp_path: Path):
    write(tmp_path / "base.yaml", "data: ads\nsearch: {method: evolution, population: 8, tournament: 4}\n")
    same = write(tmp_path / "same.yaml", "base: base.yaml\nsearch: {population: 16}\n")
    assert load_search(same).search.model_dump()["population"] == 16
    assert load_search(same).search.model_dump()["tournament"] == 4
    other = write(tmp_path / "other.yaml", "base: base.yaml\nsearch: {method: random, candidates: 5}\n")
    assert read_yaml(other)["search"] == {"method": "random", "candidates": 5}
    assert load_search(other).search.model_dump()["candidates"] == 5


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.yaml": "base: a.yaml"}, "is its own base"),
        ({"a.yaml": "base: b.yaml", "b.yaml": "base: c.yaml", "c.yaml": "base: ./a.yaml"}, "is its own base"),
        ({"a.yaml": "base: nowhere.yaml"}, "There is no file .*nowhere.yaml"),
        ({"a.yaml": "base: [b.yaml]"}, "base must be the name of a config"),
        ({"a.yaml": "base: b.yaml", "b.yaml": "- 1"}, "b.yaml must hold `key: value` lines"),
    ],
)
def test_bases_that_cannot_be(tmp_path: Path, files: dict[str, str], said: str):
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=said) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert caught.value.what


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_config_is_one_of_its_settings(name: str):
    data = read_yaml(SHIPPED[name])
    settings = check_settings(settings_class(data), data, name)
    # Everything the file says has arrived, and nothing of it is the name of something older.
    assert _within(data, settings.model_dump(mode="json")) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_a_copy_stands_alone(name: str, tmp_path: Path, capsys):
    copy = tmp_path / "copy.yaml"
    assert main(["configs", "cp", name, str(copy)]) == 0
    data = yaml.safe_load(copy.read_text())
    assert "base" not in data
    assert data == read_yaml(SHIPPED[name])
    assert copy.read_text().splitlines()[0] == SHIPPED[name].read_text().splitlines()[0]
    capsys.readouterr()
    assert main(["configs", "show", name, "--json"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert check_settings(settings_class(data), shown, "shown") == check_settings(settings_class(data), data, "copy")


def test_a_copy_does_not_overwrite(tmp_path: Path, capsys):
    mine = write(tmp_path / "mine.yaml", "seed: 4\n")
    assert main(["configs", "cp", "synthetic/laptop", str(mine)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert mine.read_text() == "seed: 4\n"


def test_a_comparison_has_no_rate_of_a_supernets_head(criteo_data, tmp_path: Path, capsys):
    argv = [
        "compare",
        "--data",
        str(criteo_data.path),
        "--models",
        "lr",
        "--out",
        str(tmp_path / "r"),
        "head_lr_share=0.05",
    ]
    assert main(argv) == 2
    assert "unknown key 'head_lr_share'" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def _within(data: object, settings: object, where: str = "") -> list[str]:
    """Keys whose value in `data` is not the one in `settings`."""
    if isinstance(data, dict) and isinstance(settings, dict):
        return [
            wrong
            for key, value in data.items()
            for wrong in (_within(value, settings[key], f"{where}.{key}") if key in settings else [f"{where}.{key}"])
        ]
    if isinstance(data, list) and isinstance(settings, list):
        return [] if data == settings else [where]
    return [] if data is None or data == settings else [where]
