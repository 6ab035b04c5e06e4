"""Who may import whom, and what must stay light. See CONTRIBUTING.md for the picture."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "recnas"

# A file imports only from rows above its own, from its own row's folder, and from nothing else of recnas.
ROWS: list[tuple[str, ...]] = [
    ("names",),
    ("colour",),
    ("errors", "resources", "progress", "machine", "seeds", "stopping"),
    ("files", "yaml_text", "plugins", "locks"),
    ("config", "threads", "devices"),
    ("runs",),
    ("track",),
    ("data.schema", "data.batch"),
    ("space",),
    ("data", "model.embeddings", "model.kernels", "model.observe", "model.dropout", "model.products"),
    ("model", "baselines", "theory"),
    ("train", "proxies"),
    ("searchers", "engines"),
    ("evaluators",),
    ("bench",),
    ("tasks", "serve"),
    ("trust",),
    ("jobs",),
    ("report",),
    ("cli",),
    ("api", "__main__"),
    ("sklearn",),
    ("testing",),
]


def row_of(module: str) -> tuple[int, str]:
    """Row number and the entry that matched, the most exact one."""
    best = (-1, "")
    for number, entries in enumerate(ROWS):
        for entry in entries:
            if (module == entry or module.startswith((entry + ".", entry + "_"))) and len(entry) > len(best[1]):
                best = (number, entry)
    return best


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
        found |= {name.removeprefix("recnas.") for name in names if name.startswith("recnas.")}
    return found


@pytest.mark.parametrize("path", sorted((PACKAGE / "data" / "raw").glob("*.py")), ids=lambda p: p.name)
def test_the_rules_of_raw_rows_know_nothing_of_preparing(path: Path):
    """They serve `prepare`, `predict` and exports alike."""
    assert not [name for name in imports_of(path) if name.startswith("data.prepare.")]


def first_line(path: Path) -> str:
    with path.open("rb") as file:
        return file.readline().decode(errors="replace")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_upwards(path: Path):
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    if module == "__init__":
        return
    own_row, _ = row_of(module)
    assert own_row >= 0, f"{module} belongs to no row of the layout"
    own_folder = module.split(".")[0]
    for imported in imports_of(path):
        row, _ = row_of(imported)
        assert row >= 0, f"{module} imports {imported}, which belongs to no row"
        same_folder = imported.split(".")[0] == own_folder
        assert row < own_row or same_folder, f"{module} (row {own_row}) imports {imported} (row {row})"


SCRIPTS = [path for path in (PACKAGE.parent / "scripts").rglob("*") if path.is_file() and "python" in first_line(path)]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")) + sorted(SCRIPTS), ids=lambda p: str(p.relative_to(PACKAGE.parent))
)
def test_what_is_imported_exists(path: Path):
    """Commands and scripts import when they run, so nothing else would notice a module that has moved."""
    for imported in imports_of(path):
        file = PACKAGE / imported.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__init__.py").exists(), f"there is no recnas.{imported}"


# A searcher sees values, never a network; those that go along gradients have a folder of their own.
TORCH_FREE = [
    path
    for room in ("runs", "space", "searchers", "report")
    for path in sorted((PACKAGE / room).rglob("*.py"))
    if path.parent != PACKAGE / "searchers" / "gradient"
]


@pytest.mark.parametrize("path", TORCH_FREE, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_these_name_no_torch(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        assert not any(name.split(".")[0] in ("torch", "torchrec") for name in names)


@pytest.mark.spawns
@pytest.mark.parametrize(
    "code",
    [
        "import recnas",
        "from recnas.cli.main import main; main(['--help'])",
        "import recnas.space.registry, recnas.space.nasrec.cost",
        "import recnas.runs.read, recnas.searchers.registry",
    ],
)
def test_these_load_no_torch(code: str):
    check = f"{code}\nimport sys\nheavy = [m for m in ('torch', 'pandas', 'pyarrow', 'sklearn') if m in sys.modules]\nassert not heavy, heavy"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


def test_no_file_has_grown_past_reading():
    long = {
        str(p.relative_to(PACKAGE)): n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400
    }
    assert not long
