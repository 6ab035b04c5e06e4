"""Generated rows against the real formats, read by pandas rather than by our own readers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recnas.data.synthetic import generate

ROWS = 40_000


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for layout in ("criteo", "avazu", "kdd12"):
        generate(layout, ROWS, 11, folder / f"{layout}.txt")
    return folder


@pytest.fixture(scope="module")
def criteo(raw: Path) -> pd.DataFrame:
    names = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    return pd.read_csv(raw / "criteo.txt", sep="\t", header=None, names=names, dtype=str, keep_default_na=False)


@pytest.fixture(scope="module")
def avazu(raw: Path) -> pd.DataFrame:
    return pd.read_csv(raw / "avazu.txt", dtype=str, keep_default_na=False)


@pytest.fixture(scope="module")
def kdd12(raw: Path) -> pd.DataFrame:
    names = ["clicks", "impressions", "url", "ad", "advertiser", "depth", "position",
             "query", "keyword", "title", "description", "user"]  # fmt: skip
    return pd.read_csv(raw / "kdd12.txt", sep="\t", header=None, names=names, dtype=np.uint64)


def test_criteo_cells(criteo: pd.DataFrame) -> None:
    assert len(criteo) == ROWS
    assert set(criteo.label) == {"0", "1"}
    for i in range(1, 27):
        assert criteo[f"C{i}"].str.fullmatch(r"[0-9a-f]{8}|").all()
    for i in range(1, 14):
        assert criteo[f"I{i}"].str.fullmatch(r"-?(0|[1-9][0-9]*)|").all()
    assert set(criteo.I2[criteo.I2.str.startswith("-")]) == {"-1", "-2"}
    assert pd.to_numeric(criteo.I5).max() > 1_000_000
    assert pd.to_numeric(criteo.drop(columns="I2").filter(like="I").stack(), errors="coerce").min() == 0


def test_criteo_rates(criteo: pd.DataFrame) -> None:
    assert (criteo.label == "1").mean() == pytest.approx(0.256, abs=0.01)
    empty = (criteo == "").mean()
    wanted = {"C22": 0.80, "I12": 0.77, "I6": 0.24, "I3": 0.21, "I4": 0.21, "I13": 0.21, "C6": 0.13}
    wanted |= dict.fromkeys(["I1", "I10", "C19", "C20", "C25", "C26"], 0.45)
    wanted |= dict.fromkeys(["I2", "C1", "C2", "C9", "C14", "C17", "C23"], 0.0)
    for column, rate in wanted.items():
        assert empty[column] == pytest.approx(rate, abs=0.01), column
    cells = empty.drop("label").mean()
    assert cells == pytest.approx(0.141, abs=0.01)  # the share of empty cells in the real log
    assert ((criteo.C19 == "") == (criteo.C26 == "")).all()  # missing together


def test_criteo_frequencies(criteo: pd.DataFrame) -> None:
    assert criteo.C9.nunique() == 4
    assert criteo.C20.nunique() == 6  # five values and the empty cell
    counts = criteo.C3[criteo.C3 != ""].value_counts()
    assert 10_000 < len(counts) < 25_000
    assert (counts == 1).mean() > 0.7
    assert counts.iloc[0] / counts.sum() == pytest.approx(0.049, abs=0.01)
    # The first rows of the real log show 386, 2084 and 5520 distinct values of C2, C11 and C3.
    head = criteo.head(10_000)
    for column, distinct in (("C2", 386), ("C11", 2084), ("C3", 5520)):
        assert head[column].nunique() == pytest.approx(distinct, rel=0.1)


def test_avazu_cells(avazu: pd.DataFrame) -> None:
    assert " ".join(avazu.columns) == (
        "id click hour C1 banner_pos site_id site_domain site_category app_id app_domain app_category device_id "
        "device_ip device_model device_type device_conn_type C14 C15 C16 C17 C18 C19 C20 C21"
    )
    assert len(avazu) == ROWS
    assert not (avazu == "").any(axis=None)
    for column in avazu.filter(regex=r"^(site|app)_|device_(id|ip|model)"):
        assert avazu[column].str.fullmatch("[0-9a-f]{8}").all(), column
    assert avazu.id.str.fullmatch("[0-9]{1,20}").all()
    assert (avazu.id.str.len() == 20).any()
    assert avazu.id.is_unique
    numbers = avazu.drop(columns=["C20"]).filter(regex="^C1|^C2|banner|type")
    assert numbers.apply(lambda column: column.str.fullmatch("0|[1-9][0-9]*").all()).all()


def test_avazu_time_and_rates(avazu: pd.DataFrame) -> None:
    assert avazu.hour.is_monotonic_increasing
    assert (avazu.hour.iloc[0], avazu.hour.iloc[-1]) == ("14102100", "14103023")
    assert avazu.hour.nunique() == 240
    assert (avazu.click == "1").mean() == pytest.approx(0.17, abs=0.01)
    assert (avazu.C20 == "-1").mean() == pytest.approx(0.62, abs=0.01)
    assert (avazu.device_id == "a99f214a").mean() == pytest.approx(0.87, abs=0.01)
    no_site, no_app = avazu.site_id == "85f751fd", avazu.app_id == "ecad2386"
    assert no_site.mean() == pytest.approx(0.22, abs=0.01)
    assert (no_site ^ no_app).all()  # every row is either site or app
    for parent, child in (("site_id", "site_domain"), ("app_id", "app_category"), ("C14", "C17")):
        assert (avazu.groupby(parent)[child].nunique() == 1).all()


def test_kdd12_cells(kdd12: pd.DataFrame) -> None:
    assert len(kdd12) == ROWS
    assert (kdd12.clicks > 0).mean() == pytest.approx(0.044, abs=0.005)
    assert (kdd12.clicks <= kdd12.impressions).all()
    assert kdd12.clicks.max() > 1
    assert kdd12.impressions.max() > 1
    assert kdd12.clicks.sum() / kdd12.impressions.sum() == pytest.approx(0.035, abs=0.005)
    assert (kdd12.position <= kdd12.depth).all()
    assert set(kdd12.depth) == set(kdd12.position) == {1, 2, 3}
    assert kdd12.url.max() > 2**63  # needs an unsigned type
    assert (kdd12.user == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert (kdd12.groupby("ad")["advertiser"].nunique() == 1).all()
