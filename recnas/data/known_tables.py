"""Published numbers of distinct values per categorical column, for planning without the data.

Every entry says where its numbers are from. All have 26 categorical and 13 numeric columns. recnas adds rows for
unknown and missing values when it prepares data, and folds rare values: prepared tables are smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

from recnas.config import nearest
from recnas.data.schema import FIRST_VALUE_ID, Schema
from recnas.errors import ConfigError


@dataclass(frozen=True)
class KnownTables:
    rows: tuple[int, ...]
    source: str
    dense: int = 13

    def schema(self) -> Schema:
        """With the two reserved rows that every table of recnas has."""
        return Schema.of_shape(self.dense, [n + FIRST_VALUE_ID for n in self.rows])


KNOWN = {
    "criteo": KnownTables(
        (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
         2173, 4, 7046547, 18, 15, 286181, 105, 142572),
        "Criteo Display Advertising Challenge (Kaggle), all values, as the DLRM benchmark counts them",
    ),
    "criteo-1tb": KnownTables(
        (227605432, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 130229467, 3067956, 405282, 10, 2209, 11938, 155, 4,
         976, 14, 292775614, 40790948, 187188510, 590152, 12973, 108, 36),
        "Criteo 1TB click logs, 24 days, all values: the unlimited table sizes of public DLRM trainings",
    ),
    "criteo-1tb-40m": KnownTables(
        (39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976,
         14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
        "Criteo 1TB click logs hashed to at most 40 M values per column, as MLPerf's DLRM does",
    ),
}  # fmt: skip


def known_tables(name: str) -> KnownTables:
    if name not in KNOWN:
        raise ConfigError(f"There are no table sizes called {name!r}; {nearest(name, KNOWN)}", "Or give --data DIR.")
    return KNOWN[name]
