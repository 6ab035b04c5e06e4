"""What is installed: the wheel and the source distribution are built and looked into; and what the base does without."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from recnas.errors import BackendMissing, RecnasError
from recnas.jobs import doctor

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = "import sys; from hatchling.build import build_sdist, build_wheel; build_wheel(sys.argv[1]); build_sdist(sys.argv[1])"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True)
    return folder


def files(folder: str, pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern) if path.is_file()}


@pytest.mark.spawns
def test_the_wheel_has_the_package_its_types_and_its_resources(built: Path):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"recnas-{PROJECT['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"recnas-{PROJECT['version']}.dist-info/METADATA").decode())
        archive.extractall(built / "installed")
    assert files("recnas", "*.py") | {"recnas/py.typed"} <= names
    resources = files("configs", "*.yaml") | files("datasets", "*.yaml")
    assert {f"recnas/_resources/{name}" for name in resources} <= names
    assert len(resources) > 20
    outside = {name.split("/")[0] for name in names}
    assert outside == {"recnas", f"recnas-{PROJECT['version']}.dist-info"}
    assert not [name for name in names if "test_" in name and not name.startswith("recnas/testing/")]
    needed = metadata.get_all("Requires-Dist")
    base = {line.split()[0].partition("=")[0].partition(">")[0] for line in needed if "extra ==" not in line}
    assert "torch" in base
    assert not {"torchrec", "fbgemm-gpu", "ray", "pyspark"} & base  # nothing of theirs brings CUDA by surprise
    code = (
        "import recnas; from recnas.cli.shipped import shipped_configs; from recnas.data.raw.recipe import shipped_recipes;"
        "print(recnas.__file__, len(shipped_configs()), len(shipped_recipes()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(built / "installed")}
    done = subprocess.run([sys.executable, "-c", code], cwd=built, env=environment, capture_output=True, text=True)
    file, configs, recipes = done.stdout.split()
    assert Path(file).is_relative_to(built)
    assert (int(configs) > 20, int(recipes)) == (True, len(list((ROOT / "datasets").glob("*/recipe.yaml"))))


@pytest.mark.spawns
def test_the_source_distribution_can_set_up_and_be_tested(built: Path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "pyproject.toml",
        "scripts/setup",
        "scripts/constraints.txt",
    }
    assert wanted | {"scripts/fbgemm-cpu/pyproject.toml", "docs/python.md", "tests/conftest.py"} <= names
    assert files("recnas", "*.py") | files("configs", "*.yaml") | files("datasets", "*.yaml") <= names
    assert not [name for name in names if name.startswith((".git/", ".venv/", "runs/"))]


# What machines lack for which torchrec and fbgemm have no wheels: Windows and macOS.
ELSEWHERE = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "torchrec", "fbgemm_gpu"):
    sys.modules[name] = None
del os.sched_getaffinity, signal.SIGHUP
"""


@pytest.mark.spawns
def test_the_base_is_importable_and_works_elsewhere():
    code = f"""{ELSEWHERE}
import importlib, pkgutil
import recnas
for module in pkgutil.walk_packages(recnas.__path__, "recnas."):
    if "templates" not in module.name and not module.name.endswith(("__main__", "score_row")):
        importlib.import_module(module.name)
from recnas.data.schema import Schema
from recnas.errors import BackendMissing, RecnasError
from recnas.model.embeddings import build_embeddings
from recnas.model.embeddings.sharding import lay_out
schema = Schema.of_shape(0, [5, 6])
print(build_embeddings(schema).backend)
for make in (lambda: build_embeddings(schema, backend="fused"), lambda: lay_out(*[None] * 9)):
    try:
        make()
    except BackendMissing as error:
        print("pip install 'recnas[torchrec]'" in str(error), "embeddings.backend=plain" in str(error))
from recnas.stopping import listening
with listening():
    pass
from recnas.locks import lock
try:
    lock(0)
except RecnasError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["plain", "True True", "True True"]
    assert "no file locks" in lines[3]


def test_doctor_tells_a_missing_extra_from_a_wrong_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fine = {"torch": "2.13.0", "torchrec": "1.8.0", "fbgemm-gpu": "1.8.0", "recnas": "0"}

    def told(found: dict[str, str]) -> tuple[bool, str]:
        monkeypatch.setattr(doctor, "versions", lambda: {**fine, **found})
        checks = doctor._triple()
        advice = " ".join(check.advice for check in checks if check.advice)
        return all(check.ok for check in checks if check.needed), advice

    assert told({}) == (True, "")
    well, advice = told({"torchrec": "missing", "fbgemm-gpu": "missing"})
    assert well
    assert "recnas[torchrec]" in advice
    for broken in ({"torchrec": "1.7.0"}, {"fbgemm-gpu": "missing"}, {"torch": "2.12.0"}):
        well, advice = told(broken)
        assert not well
        assert "only work together" in advice


def test_locks_are_exclusive(tmp_path: Path):
    from recnas.locks import lock

    path = tmp_path / "x"
    with path.open("w") as one, path.open("r+") as two:
        lock(one.fileno())
        with pytest.raises(BlockingIOError):
            lock(two.fileno())
    with path.open() as three:
        lock(three.fileno())
    assert issubclass(BackendMissing, RecnasError)
