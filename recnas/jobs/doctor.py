"""Look at this machine: what is installed, what loads, what there is to work with."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recnas.machine import available_cores, default_threads
from recnas.runs.folder import versions

# Built together: any other pairing fails at import with an undefined symbol.
TRIPLE = {"torch": "2.13", "torchrec": "1.8", "fbgemm-gpu": "1.8"}
# The package that shows whether an optional part is here, the name of the part, and what it is for.
OPTIONAL = (
    ("ray", "ray", "--engine ray"),
    ("pyspark", "spark", "prepare --engine spark"),
    ("onnxruntime", "export", "export --to onnx"),
    ("tensorboard", "tensorboard", "--track tensorboard"),
    ("mlflow", "mlflow", "--track mlflow"),
    ("wandb", "wandb", "--track wandb"),
    ("optuna", "optuna", "track --to optuna, search.method=optuna"),
)

_EXTRA = (
    "tables are `plain`, in one process; for fused ones on a GPU, several processes, and recnas plan: "
    "pip install 'recnas[torchrec]' (without a GPU: scripts/setup)"
)


@dataclass(frozen=True)
class Check:
    """One finding; `advice` says what to do when it is not well."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def examine(folder: Path) -> dict[str, Any]:
    """Everything `recnas doctor` reports, as plain values."""
    checks = [_python(), *_triple(), *_backends(), _device(), _memory(), _disk(folder), *_optional()]
    return {
        "ok": all(check.ok for check in checks if check.needed),
        "versions": versions(),
        "cores": available_cores(),
        "checks": [asdict(check) for check in checks],
    }


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("python", ok, sys.version.split()[0], "" if ok else "recnas needs Python 3.11 or newer")


def _triple() -> list[Check]:
    found = versions()
    absent = [name for name in TRIPLE if name != "torch" and found[name] == "missing"]
    if len(absent) == len(TRIPLE) - 1:  # the base, without the extra
        return [_fits("torch", found), Check("torchrec, fbgemm-gpu", False, "no", _EXTRA, needed=False)]
    return [_fits(package, found) for package in TRIPLE]


def _fits(package: str, found: dict[str, str]) -> Check:
    wanted = TRIPLE[package]
    ok = found[package].startswith(wanted + ".")
    advice = f"install {package} {wanted}.0: torch 2.13.0, torchrec 1.8.0 and fbgemm 1.8.0 only work together (scripts/setup does this)"
    return Check(package, ok, found[package], "" if ok else advice)


def _backends() -> list[Check]:
    """Import for real: metadata can be right while a library does not load."""
    checks = [_loads("torch loads", "torch", "run scripts/setup again in a new environment")]
    if importlib.util.find_spec("torchrec") is not None:
        advice = "recnas falls back to the `plain` embedding backend; run scripts/setup to mend it"
        checks.append(_loads("fused embeddings load", "torchrec.modules.fused_embedding_modules", advice))
    return checks


def _loads(name: str, module: str, advice: str) -> Check:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(module)
        return Check(name, True, "yes")
    except Exception as error:  # an undefined symbol is an OSError, a missing package an ImportError
        return Check(name, False, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}", advice)


def _device() -> Check:
    try:
        import torch

        if torch.cuda.is_available():
            names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
            return Check("device", True, f"cuda: {names}")
        return Check("device", True, f"cpu, {default_threads()} threads")
    except Exception:
        return Check("device", False, "unknown", "torch does not load")


def _memory() -> Check:
    if not hasattr(os, "sysconf"):
        return Check("memory", True, "unknown", needed=False)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ok = total >= 4
    return Check(
        "memory",
        ok,
        f"{total:.1f} GB",
        "" if ok else "at least 4 GB are advised; use --memory and small tables",
        needed=False,
    )


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free / 2**30
    ok = free >= 5
    return Check(
        "disk",
        ok,
        f"{free:.1f} GB free at {folder}",
        "" if ok else "preparing all of Criteo needs about 25 GB",
        needed=False,
    )


def _optional() -> list[Check]:
    checks = []
    for package, extra, purpose in OPTIONAL:
        present = importlib.util.find_spec(package) is not None
        checks.append(
            Check(
                package,
                present,
                "yes" if present else "no",
                "" if present else f"for {purpose}: pip install 'recnas[{extra}]'",
                needed=False,
            )
        )
    return checks
