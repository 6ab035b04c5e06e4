from __future__ import annotations

import pytest

from recnas.config import Settings, apply_overrides, check_settings, load_settings
from recnas.errors import ConfigError


class Inner(Settings):
    share: float = 0.01
    rows: int | None = None


class Outer(Settings):
    warmup: Inner = Inner()
    several: tuple[Inner, ...] = ()
    seed: int = 0


def test_file_and_overrides(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("warmup: {share: 0.1}\nseed: 3\n")
    settings = load_settings(Outer, path, ["warmup.rows=100", "seed=4"])
    assert settings == Outer(warmup=Inner(share=0.1, rows=100), seed=4)


def test_all_faults_at_once_with_nearest_names(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("warmup: {shar: 0.1, rows: many}\nsed: 3\nseveral: [{shaer: 1}]\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(Outer, path, ["seed", "warmup.share.deep=1", "seed=[1"])
    text = str(caught.value)
    for part in (
        "'warmup.shar'; did you mean 'share'",
        "warmup.rows",
        "'sed'; did you mean 'seed'",
        "'several.0.shaer'; did you mean 'share'",
        "'seed' must look like key=value",
        "not valid YAML",
    ):
        assert part in text, (part, text)


def test_an_override_below_a_value_is_a_fault():
    data = {"seed": 3}
    assert "has no keys of its own" in apply_overrides(data, ["seed.x=1"])[0]


def test_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match="no file"):
        load_settings(Outer, tmp_path / "absent.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1\nb: }")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_settings(Outer, tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="top level is a list"):
        load_settings(Outer, tmp_path / "list.yaml")


def test_settings_are_frozen():
    with pytest.raises(Exception, match="frozen"):
        check_settings(Outer, {}, "here").seed = 1


def test_too_few_batches_for_a_proxy_are_said_before_anything_is_computed():
    from recnas.tasks.settings import CtrSearchConfig

    few = {"data": "d", "score": {"batches": 1}}
    with pytest.raises(ConfigError, match=r"score\.batches is 1, and sigeo compares at least 2"):
        check_settings(CtrSearchConfig, few, "the test")
    assert check_settings(CtrSearchConfig, {**few, "evaluator": "none"}, "the test").score.batches == 1
    assert check_settings(CtrSearchConfig, {**few, "score": {"batches": 1, "proxies": ["naswot"]}}, "the test")
