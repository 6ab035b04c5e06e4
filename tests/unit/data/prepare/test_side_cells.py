"""Users, items and interactions as three files give what one file with all columns gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.encoder import RawEncoder
from recnas.data.raw.serving import RowReader, Vocabularies
from recnas.errors import ConfigError, DataError
from recnas.serve.check_rows import real_rows, rebuilt_rows
from recnas.serve.manifest import describe_inputs, write_vocabularies

INPUTS = """
label: {column: y}
dense: [{columns: [age], transform: bucketise, indicator: true}]
sparse:
- {columns: [user], kind: int}
- {columns: [job], missing: [none]}
- {columns: [city], hash: 30}
- {columns: [signed_up], kind: time, format: iso, zone: "+00:00", derive: {signup_hour: hour}}
- {columns: [maker], min_count: 2}
"""
JOINS = """
joins:
- {file: users.txt, key: user, separator: "|", header: false, add: [age, job, city, signed_up]}
- {file: items.csv, key: item, add: [maker]}
"""
HEADER = "y,user,item,age,job,city,signed_up,maker"


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    users = {
        str(n): [str(rng.integers(15, 80)) if n % 5 else "", f"j{n % 4}" if n % 3 else "none", f"c, {n % 11}", f"2024-03-01T{n % 24:02}:00"]
        for n in range(40)
    }  # fmt: skip
    items = {f"i{n}": f"m{n % 6}" for n in range(25)}
    whole, bare = [HEADER], ["y,user,item"]
    for i in range(500):
        user, item = str(rng.integers(45)), f"i{rng.integers(28)}"  # some are in no side file
        bare.append(f"{i % 2},{user},{item}")
        age, job, city, at = users.get(user, [""] * 4)
        whole.append(f'{bare[-1]},{age},{job},"{city}",{at},{items.get(item, "")}')
    (folder / "users.txt").write_text("".join(f"{n}|{'|'.join(cells)}\n" for n, cells in users.items()))
    (folder / "items.csv").write_text("price,maker,item\n" + "".join(f"9,{maker},{n}\n" for n, maker in items.items()))
    (folder / "log.csv").write_text("\n".join(bare) + "\n")
    (folder / "whole.csv").write_text("\n".join(whole) + "\n")
    cells = [line.split(",") for line in bare[1:]]
    columns = {"y": [int(c[0]) for c in cells], "user": [int(c[1]) for c in cells], "item": [c[2] for c in cells]}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    text = "name: t\nseparator: ','\nquote: true\nheader: true\n"
    (folder / "t.yaml").write_text(text + INPUTS + JOINS)
    (folder / "w.yaml").write_text(text + INPUTS)
    (folder / "p.yaml").write_text("name: p\nformat: parquet\nseparator: ','\nheader: true\n" + INPUTS + JOINS)
    return folder


def test_joined_files_are_one_file(log: Path, tmp_path: Path):
    whole = prepare(str(log / "w.yaml"), [log / "whole.csv"], tmp_path / "w", threads=1)
    data = prepare(str(log / "t.yaml"), [log / "log.csv"], tmp_path / "t", threads=2)
    assert data.fingerprint == whole.fingerprint
    assert (
        prepare(str(log / "p.yaml"), [log / "log.parquet"], tmp_path / "p", threads=1).fingerprint == whole.fingerprint
    )
    (one,) = RawEncoder(data, [log / "log.csv"]).blocks()
    (two,) = RawEncoder(whole, [log / "whole.csv"]).blocks()
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_array_equal(one.dense, two.dense)
    write_vocabularies(data, tmp_path / "served")
    model = describe_inputs(data)
    reader = RowReader(model, Vocabularies(tmp_path / "served", model))
    objects, none = rebuilt_rows(data)
    assert none is real_rows(data) is None
    assert len(objects.lines) > 20
    assert [ids for _, ids in reader.rows("\n".join(objects.lines).encode())] == objects.ids.tolist()


def side(log: Path, tmp_path: Path, users: str) -> list[str]:
    (tmp_path / "users.txt").write_text(users)
    return [str(tmp_path / "users.txt"), str(log / "items.csv")]


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ("1|20|j1|c|\n2|21|j1|c\n", "users.txt line 2: 4 fields instead of 5"),
        ("1|20|j1|c|\n2|21|j1|c|\n1|30|j2|c|\n", "users.txt line 3: its user stands on an earlier line too"),
        ("".join(f"{n}|old|j|c|\n" for n in range(45)), "column age: not a number \\('old of users.txt'\\)"),
    ],
)
def test_faults_of_side_files_are_told(log: Path, tmp_path: Path, users: str, says: str):
    options = PrepareOptions(side=tuple(side(log, tmp_path, users)))
    with pytest.raises(DataError, match=says):
        prepare(str(log / "t.yaml"), [log / "log.csv"], tmp_path / "d", options, threads=1)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("joins", "says"),
    [
        ("{file: u.txt, key: user, add: [age], columns: [job]}", "give either add"),
        ("{file: u.txt, key: user}", "give either add"),
        ("{file: u.txt, key: user, columns: [job], header: true}", "go with add"),
        ("{file: u.txt, key: nobody, add: [age, job, city, signed_up, maker]}", "has no column nobody"),
    ],
)
def test_joins_that_cannot_be(log: Path, tmp_path: Path, joins: str, says: str):
    text = (log / "w.yaml").read_text().replace("name: t", "name: x")
    (tmp_path / "r.yaml").write_text(f"{text}joins: [{joins}]\n")
    with pytest.raises((ConfigError, DataError), match=says):
        prepare(str(tmp_path / "r.yaml"), [log / "log.csv"], tmp_path / "d", threads=1)
