"""Nothing that is read is ever executed: what could do that is named here, and nowhere in the package."""

from __future__ import annotations

import ast
import pickle
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "recnas"
# Modules whose readers execute what they read, and who may use them for what.
DANGEROUS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "code", "codeop", "imp", "runpy"}
MAY = {
    "data/images/files.py": "published pickles of CIFAR and ImageNet16, by an unpickler that knows arrays of numbers only",
    "engines/pool.py": "work that this process sent to worker processes of its own",
    "engines/ray.py": "work that this process sent to workers of its own",
    "testing/space_suite.py": "tests of third parties",
    "testing/proxy_suite.py": "tests of third parties",
}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    "torch.load", "torch.jit.load", "torch.hub.load", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "pd.read_pickle", "pandas.read_pickle", "np.loadtxt", "subprocess.getoutput", "ctypes.pythonapi",
}  # fmt: skip


def faults_of(path: Path) -> list[str]:
    name = str(path.relative_to(PACKAGE))
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module.split(".")[0]]
        found += [module for module in modules if module in DANGEROUS and name not in MAY]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in CALLS or called in ATTRIBUTES:
            found.append(called)
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if words.get("allow_pickle", "False") != "False" or words.get("shell", "False") != "False":
            found.append(f"{called} with {words}")
        if called in ("torch.export.load",) and name not in ("serve/program.py", "serve/score_row.py"):
            found.append(called)
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_that_is_read_is_executed(path: Path):
    assert faults_of(path) == []


def test_the_check_sees_what_it_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    for code in ("import pickle", "from joblib import load", "import torch\ntorch.load('x', weights_only=True)", "eval('1')",
                 "import numpy as np\nnp.load('x', allow_pickle=True)", "subprocess.run('x', shell=True)"):  # fmt: skip
        (tmp_path / "a.py").write_text(code)
        assert faults_of(tmp_path / "a.py"), code


class Bomb:
    def __reduce__(self):
        return (open, ("/proc/self/mem", "rb"))


def test_pickles_of_images_are_read_by_rules_of_our_own(tmp_path: Path):
    from recnas.data.images.files import _ArraysOnly

    (tmp_path / "batch").write_bytes(pickle.dumps({"data": Bomb()}))
    with (tmp_path / "batch").open("rb") as file, pytest.raises(pickle.UnpicklingError, match="open"):
        _ArraysOnly(file).load()
