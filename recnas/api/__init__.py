"""The commands as Python functions; `import recnas` offers them. Nothing heavy is loaded before one is called.

    data = recnas.prepare("criteo", "ads.tsv", "data/ads", min_count=5)
    run = recnas.search("synthetic/laptop", "runs/first", data=data)
    model = run.best.load()
    model.predict(frame)

Each does what the command of its name does, by the same job, and a run that one began the other can go on with.
Settings are a YAML file, the name of a shipped config, or the settings' own objects; "key=value" changes them.
"""

from recnas.api.comparing import Comparison, compare
from recnas.api.data import prepare, synth
from recnas.api.runs import Best, Run, open_run
from recnas.api.searching import search
from recnas.api.serving import Exported, export, load
from recnas.api.spaces import get_space
from recnas.api.supernet import WarmedSupernet, score, warmup
from recnas.api.training import Training, train_model
from recnas.plugins import load_plugin

__all__ = [
    "Best",
    "Comparison",
    "Exported",
    "Run",
    "Training",
    "WarmedSupernet",
    "compare",
    "export",
    "get_space",
    "load",
    "load_plugin",
    "open_run",
    "prepare",
    "score",
    "search",
    "synth",
    "train_model",
    "warmup",
]
