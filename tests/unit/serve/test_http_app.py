"""`recnas serve` without a port: its answers are `predict`'s, and what it refuses it names."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.errors import BackendMissing, ConfigError, RunError
from recnas.serve.export import export
from recnas.serve.http import served as served_module
from recnas.serve.http.app import Limits, make_app
from recnas.serve.http.body import answer
from recnas.serve.http.served import Served, open_served
from recnas.serve.predict import predict
from recnas.serve.program import ONNX_PACKAGES

needs_onnx = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ONNX_PACKAGES)), reason="the packages of recnas[export] are not installed"
)
EVERY_KIND = """
name: kinds
separator: ","
quote: true
header: true
label: {column: clicked}
dense:
- {columns: [seen]}
- {columns: [price], transform: quantile, embed: true, buckets: 5, indicator: true, missing: ["-1"], fill: 0.25}
- {columns: [age], transform: log-squared, standardise: true}
- {columns: [views], transform: bucketise, buckets: 4}
sparse:
- {columns: [city], missing: ["?"]}
- {columns: [tag], kind: hex}
- {columns: [item], kind: int, suffix: ":1"}
- {columns: [hour], kind: int, derive: {hour_of_day: yymmddhh-hour, weekday: yymmddhh-weekday}}
- {columns: [at], kind: time, format: iso, zone: "+02:00", derive: {h: hour, d: weekday}}
- {columns: [word], hash: 64, hashes: 2, missing: [w3]}
"""


def random_rows(count: int) -> list[dict[str, str]]:
    rng = np.random.default_rng(5)
    pick = lambda *texts: str(rng.choice(texts))  # noqa: E731
    return [
        {
            "clicked": pick("0", "1"),
            "seen": pick("", "3", "17"),
            "price": pick("-1", "", f"{rng.normal():.3f}"),
            "age": pick("", "20", "61.5"),
            "views": str(rng.integers(0, 90)),
            "city": pick("London, UK", "?", "", "Paris", "Rome"),
            "tag": pick("1F", "0000001f", "", "beef"),
            "item": pick("7:1", "", f"{rng.integers(12)}:1"),
            "hour": pick("", "14102100", "14102317"),
            "at": pick("", "2026-01-02", "2026-01-02T23:30:00Z", "2026-01-03 04:00:00+09:00"),
            "word": pick("w1", "w2", "w3", ""),
        }
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return random_rows(600)


@pytest.fixture(scope="module")
def kinds(rows, train_small, tmp_path_factory) -> tuple[str, np.ndarray]:
    """A run trained on every kind of column, and what `predict` says of the raw file."""
    folder = tmp_path_factory.mktemp("kinds")
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (folder / "kinds.yaml").write_text(EVERY_KIND)
    data = prepare(str(folder / "kinds.yaml"), [folder / "rows.csv"], folder / "data", PrepareOptions(min_count=2))
    run = f"{train_small(data, folder / 'run')}:best"
    predict(run, [folder / "rows.csv"], folder / "out.csv")
    predicted = pd.read_csv(folder / "out.csv")["probability"].to_numpy()
    assert np.isfinite(predicted).all()
    assert predicted.std() > 1e-3
    return run, predicted


@pytest.fixture(scope="module")
def served(kinds) -> Served:
    return open_served(kinds[0], "torch")


def ask(served: Served, method: str, path: str, parts: list[bytes], limits: Limits | None = None, **headers: str):
    """One request, its body in parts: status, content and headers."""
    given = [{"type": "http.request", "body": part, "more_body": True} for part in parts[:-1]]
    given.append({"type": "http.request", "body": parts[-1] if parts else b"", "more_body": False})
    sent: list[dict[str, Any]] = []

    async def receive():
        if not given:
            await asyncio.sleep(60)
        return given.pop(0)

    async def send(message):
        sent.append(dict(message))

    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": named}
    asyncio.run(make_app(served, limits or Limits())(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"]), dict(sent[0]["headers"])


def post(served: Served, value: Any, **limits: Any):
    status, content, _ = ask(served, "POST", "/predict", [json.dumps(value).encode()], Limits(**limits))
    return status, content


@pytest.mark.parametrize("by", ["torch", pytest.param("onnx", marks=needs_onnx), "pt2"])
def test_probabilities_are_those_of_predict(by, kinds, rows, tmp_path, monkeypatch):
    run, predicted = kinds
    if by == "pt2":  # an export, which needs no prepared data
        monkeypatch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})  # which test_export.py is about
        export(run, "pt2", tmp_path / "served")
        served = open_served(str(tmp_path / "served"))
    else:
        served = open_served(run, by)
    with served.kept:
        assert served.computed_by == ("torch" if by == "pt2" else by)
        status, content = post(served, rows)
        assert status == 200
        np.testing.assert_allclose(content["probabilities"], predicted, atol=1e-6, rtol=0)
        alone = {name: cell or None for name, cell in rows[7].items() if name != "clicked"}
        status, content = post(served, alone)
        assert (status, list(content)) == (200, ["probability"])
        assert content["probability"] == pytest.approx(predicted[7], abs=1e-6)
        # Numbers as JSON's own.
        assert rows[0]["views"].isdigit()
        number = rows[0] | {"views": int(rows[0]["views"])}
        assert post(served, number)[1]["probability"] == pytest.approx(predicted[0], abs=1e-6)


def test_faults_are_named_by_row_and_field(served: Served, rows):
    good = rows[0]
    without = {name: cell for name, cell in good.items() if name not in ("tag", "city")}
    bad = [
        good | {"price": "many"},
        good,
        without,
        good | {"citty": "Paris"},
        good | {"item": "7"},
        good | {"at": "soon"},
        good | {"city": 3.5},
        [good],
        good | {"seen": 10**400},
    ]
    status, content = post(served, bad)
    assert status == 422
    assert content["error"] == "8 of 9 rows cannot be read"
    assert [(fault["row"], fault["fields"]) for fault in content["rows"]] == [
        (0, ["price"]),
        (2, ["city", "tag"]),
        (3, ["citty"]),
        (4, ["item"]),
        (5, ["at"]),
        (6, ["city"]),
        (7, []),
        (8, ["seen"]),
    ]
    reasons = [fault["reason"] for fault in content["rows"]]
    assert reasons[0] == "column price: not a number ('many')"
    assert "did you mean 'city'" in reasons[2]
    status, content = post(served, [good | {"price": "x"}] * 30)
    assert (status, len(content["rows"]), content["error"]) == (422, 10, "at least 10 of 30 rows cannot be read")


def test_a_field_that_stands_twice_is_a_fault(served: Served, rows):
    twice = json.dumps(rows[0])[:-1] + ', "price": "2"}'
    status, content, _ = ask(served, "POST", "/predict", [f"[{json.dumps(rows[1])}, {twice}]".encode()])
    assert (status, content["rows"][0]["row"], content["rows"][0]["fields"]) == (422, 1, ["price"])


def test_a_row_for_which_the_model_has_no_number(served: Served, rows):
    broken = Served("m", 0, "torch", served.reader, lambda dense, ids: np.array([0.5, np.nan], np.float32), {})
    status, content = post(broken, rows[:2])
    assert (status, content["rows"][0]["row"]) == (422, 1)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,", b"\xff\xfe", b'{"price": NaN}', b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"]
)
def test_what_is_no_json(served: Served, body: bytes):
    status, content, _ = ask(served, "POST", "/predict", [body])
    assert (status, "not JSON" in content["error"]) == (400, True)


def test_bounds(served: Served, rows):
    assert post(served, rows[:5], rows=5)[0] == 200
    status, content = post(served, rows[:6], rows=5)
    assert (status, content["most_rows"]) == (413, 5)
    body = json.dumps(rows[0]).encode()
    just = Limits(bytes=len(body))
    assert ask(served, "POST", "/predict", [body[:9], body[9:]], just)[0] == 200
    # Said beforehand; or found out, before more than that is held.
    assert ask(served, "POST", "/predict", [], just, content_length=str(len(body) + 1))[0] == 413
    status, _, headers = ask(served, "POST", "/predict", [body, b" ", b" " * 10**6], just)
    assert (status, headers[b"connection"]) == (413, b"close")


def test_a_body_that_does_not_arrive(served: Served):
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": []}
    asyncio.run(make_app(served, Limits(seconds=0.01))(scope, receive, send))
    assert sent[0]["status"] == 408


def test_other_addresses_and_methods(served: Served):
    assert ask(served, "GET", "/health", [])[:2] == (
        200,
        {"status": "ok", "model": served.model, "seed": 0, "computed_by": "torch"},
    )
    assert ask(served, "GET", "/", [])[0] == 404
    status, _, headers = ask(served, "GET", "/predict", [])
    assert (status, headers[b"allow"]) == (405, b"POST")


def test_the_schema_says_what_a_row_must_have(served: Served, rows):
    status, schema, _ = ask(served, "GET", "/schema", [])
    assert status == 200
    assert schema["limits"] == {"rows": 1000, "bytes": 1 << 20}
    columns = {column["name"]: column for column in schema["columns"]}
    assert list(columns) == list(dict.fromkeys([*list(rows[0])[1:]]))
    assert schema["ignored"] == ["clicked"]
    assert columns["at"]["kinds"] == ["time"]
    assert columns["price"] == {
        "name": "price",
        "kinds": ["number"],
        "missing": columns["price"]["missing"],
        "inputs": ["price", "price_missing", "price_bucket"],
    }
    status, content = post(served, schema["examples"])
    assert (status, len(content["probabilities"])) == (200, 4)
    assert len(set(content["probabilities"])) > 1
    assert schema["examples"][0]["city"] in {row["city"] for row in rows}


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.lists(st.none()),
)
names = st.sampled_from([*random_rows(1)[0], "x", ""])


nested = st.recursive(
    cells, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)), max_leaves=6
)


@settings(max_examples=80)
@given(body=st.one_of(st.binary(max_size=30), nested.map(json.dumps).map(str.encode)))
def test_no_body_is_our_fault(served: Served, body: bytes):
    found = answer(served, body, 5)
    assert found.status in (200, 400, 413, 422)
    json.dumps(found.content, allow_nan=False)


@pytest.mark.parametrize("depth", range(50, 1100, 50))
def test_deep_cells(served: Served, depth: int):
    row = json.dumps(random_rows(1)[0] | {"price": "deep"}).replace('"deep"', "[" * depth + "]" * depth)
    found = answer(served, row.encode(), 5)
    assert found.status in (400, 422)
    assert len(json.dumps(found.content)) < 500


@settings(max_examples=150)
@given(changed=st.dictionaries(names, cells, min_size=1, max_size=3))
def test_a_row_with_odd_cells_is_answered_or_its_field_is_named(served: Served, changed: dict[str, Any]):
    row = random_rows(1)[0]
    found = answer(served, json.dumps([row, row | changed]).encode(), 5)
    assert found.status in (200, 422)
    if found.status == 422:
        (fault,) = found.content["rows"]
        assert fault["row"] == 1
        assert set(fault["fields"]) <= set(changed)
        assert fault["fields"]


def test_what_cannot_be_served(kinds, tmp_path: Path, monkeypatch):
    run, _ = kinds
    monkeypatch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})
    folder = tmp_path / "served"
    export(run, "pt2", folder)
    with pytest.raises(ConfigError, match="did you mean 'torch'"):
        open_served(run, "trch")
    with pytest.raises(ConfigError, match="at least 1"):
        open_served(run, threads=0)
    with pytest.raises(ConfigError, match=r"holds model\.pt2, which is for torch"):
        open_served(str(folder), "onnx")
    with pytest.raises(ConfigError, match="is an export"):
        open_served(str(folder), seed=1)
    monkeypatch.setattr("recnas.serve.program.missing_packages", lambda names: ["onnx"])
    with pytest.raises(BackendMissing, match="onnx"):
        open_served(run, "onnx")
    assert open_served(run).computed_by == "torch"
    with (folder / "vocab" / "city.json").open("a") as file:
        file.write(" ")
    monkeypatch.setattr(served_module, "_torch_program", lambda file: pytest.fail("it was loaded"))
    with pytest.raises(RunError, match=r"vocab/city\.json is missing, damaged or was changed"):
        open_served(str(folder))
    (folder / "model.json").write_text(json.dumps(json.loads((folder / "model.json").read_text()) | {"files": {}}))
    with pytest.raises(RunError, match="does not have its checksum"):
        open_served(str(folder))
