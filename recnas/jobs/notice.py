"""What a user should know about data before time is spent on them."""

from __future__ import annotations

from recnas.data.prepared import PreparedData
from recnas.progress import Progress

FEWEST = 100  # rows of a split below which its figures are mostly chance


def data_warnings(data: PreparedData) -> list[str]:
    """One sentence for everything that makes figures on these data mean little."""
    found = []
    rate = data.manifest["click_rate"]["train"]
    if rate is None or rate in (0, 1):
        only = "no rows" if rate is None else f"labels of {int(rate)} only"
        found.append(
            f"the training split of {data.path} has {only}: there is nothing to learn, and every score and loss is "
            "meaningless. Check the label column of the recipe."
        )
    small = [f"{split} {data.rows(split):,}" for split in ("valid", "test") if data.rows(split) < FEWEST]
    if small:
        found.append(f"few rows to judge by ({', '.join(small)}): figures on so few are mostly chance.")
    return found


def warn_of_data(data: PreparedData, progress: Progress) -> None:
    for sentence in data_warnings(data):
        progress.say(f"warning: {sentence}")
