"""Do two proxies say the same thing? Correlation of score columns with each other, no truth involved.

    agreement({"snip@16": ..., "ntk_trace@16": ...})      # one row per pair: pearson, spearman, kendall, n

HNAS's table 4 is such a list: its metrics are one family if they agree. A network that is degenerate for either
of two proxies is left out of that pair, because nothing was measured there. Spearman and Kendall see ranks only;
Pearson sees the values themselves, and a few very large ones decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from recnas.bench.correlation import rank_correlation


def agreement(columns: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """One row per pair, in the order of `columns`."""
    rows = []
    for (first, a), (second, b) in combinations(columns.items(), 2):
        known = np.isfinite(a) & np.isfinite(b)
        ranks = rank_correlation(a[known], b[known], resamples=0)
        row = {"first": first, "second": second, "n": ranks.n, "spearman": ranks.spearman, "kendall": ranks.kendall}
        rows.append(row | {"pearson": None if ranks.reason else float(np.corrcoef(a[known], b[known])[0, 1])})
    return rows
