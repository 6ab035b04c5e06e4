"""Settings name a space and only what it has; jobs on clicks take only NASRec."""

from __future__ import annotations

import pytest

from recnas.config import check_settings
from recnas.errors import ConfigError
from recnas.space.registry import space_names
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.settings import WarmupConfig


def read(**data: object) -> SpaceSettings:
    return check_settings(WarmupConfig, {"data": "x", "space": data}, "my.yaml").space


def test_defaults_are_nasrec_s_and_are_written_out():
    assert read().model_dump() == {"name": "nasrec-small", "blocks": 7, "connections": "binomial"}
    assert read(name="xlarge", blocks=3).model_dump() == {"name": "nasrec-full", "blocks": 3, "connections": "binomial"}
    assert SpaceSettings.model_validate(read(blocks=5).model_dump()) == read(blocks=5)
    assert make_ctr_space(read(blocks=5)).blocks == 5


@pytest.mark.parametrize("name", space_names())
def test_every_space_can_be_made_and_survives_a_manifest(name: str):
    settings = SpaceSettings.model_validate({"name": name})
    assert settings.make().name == name
    assert SpaceSettings.model_validate(settings.model_dump()) == settings


def test_options_reach_the_space():
    settings = read(name="mlp", layers=4, width=16)
    assert settings.model_dump() == {"name": "mlp", "layers": 4, "width": 16}
    space = settings.make()
    assert (space.layers, space.width) == (4, 16)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"name": "darts", "blocks": 5}, "space darts has no setting blocks; it has no settings"),
        ({"name": "nasbench201", "connections": "uniform"}, "nasbench201 has no setting connections"),
        ({"name": "nasrec-small", "layers": 4, "width": 8}, "no setting layers, width; it has blocks"),
        ({"name": "mlp", "blocks": 4}, "no setting blocks; it has layers, width"),
        ({"name": "nasrec-smal"}, "did you mean 'nasrec-small'"),
        ({"name": 3}, "space.name"),
        ({"depth": 3}, "unknown key 'space.depth'"),
    ],
)
def test_what_does_not_apply_is_refused_by_name(data: dict, said: str):
    with pytest.raises(ConfigError, match=said):
        read(**data)


def test_jobs_on_clicks_refuse_image_spaces():
    with pytest.raises(
        ConfigError, match=r"architectures of darts read images, not clicks\.\n.*space\.name to one of: nasrec-small"
    ):
        make_ctr_space(read(name="darts"))
