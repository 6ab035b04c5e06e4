"""Names of files in run directories and of tensors in checkpoints: written and read in different rooms."""

from __future__ import annotations

import re

MANIFEST = "manifest.json"
LEDGER = "ledger.jsonl"
RESULT = "result.json"
WINNER_FILE = "winner.json"
WINNER_FOLDER = "winner"  # its last training
WARMUP_FOLDER = "warmup"
RACE_FOLDER = "race"  # checkpoints of a race, while it lasts
SCHEMA = "schema.json"  # the inputs of a training
LEADERBOARD = "leaderboard.json"
TRAINED_TABLE = "table.parquet"

PHASES = ("warmup", "search", "finalists", "winner")  # of a search, in order; a task may leave some out

NETWORK = "network/"  # prefixes of tensor names in a checkpoint
EMBEDDINGS = "embeddings/"
TABLE = "table/"
BATCH = "batch/"


def file_name(name: str) -> str:
    """A model's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9+-]", "_", name)
