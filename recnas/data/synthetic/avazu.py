"""Avazu `train.csv`: header, comma; ten days from 2014-10-21 00h, the hour never decreasing.

Every row comes from a site or from an app: the other three columns then hold the null ids of the
real log. No cell is empty; unknown devices and C20 have a value of their own. C14 refines C17, and
domain and category follow from the site or app, as in the real log. The null ids and the short
lists are the real ones; the laws were fitted to the first hour of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic import text
from recnas.data.synthetic.hashing import key_of, scatter32, uniform
from recnas.data.synthetic.laws import CategoryLaw, Choice, Zipf
from recnas.data.synthetic.layout import Drawn, Labels, NoSideFile
from recnas.data.synthetic.planted import F64, TABLE_LIMIT, Inputs, Planted, code_ranks

HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,"
    "device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21\n"
)
DAYS = 10
APP_ROWS = 0.22
DEVICE_UNKNOWN = 0.87
C20_UNKNOWN = 0.62

# Traffic over the day: low at night, high around noon (hours are UTC in the real log).
_BY_HOUR = tuple(1.0 + 0.55 * float(np.sin((hour - 5) / 24 * 2 * np.pi)) for hour in range(24))

LAWS: dict[str, CategoryLaw] = {
    "C1": Choice((0.9174, 0.054, 0.022, 0.0055, 0.0009, 0.0001, 0.0001)),
    "banner_pos": Choice((0.72, 0.276, 0.0018, 0.0011, 0.0005, 0.0004, 0.0002)),
    "site_id": Zipf(4736, 1.549, 0.5),
    "app_id": Zipf(8551, 1.642, 4.865),
    "device_id": Zipf(2686407, 0.939, 2.419),
    "device_ip": Zipf(6729486, 0.962, 5.525),
    "device_model": Zipf(8251, 1.494, 6.228),
    "device_type": Choice((0.922, 0.055, 0.019, 0.003, 0.001)),
    "device_conn_type": Choice((0.863, 0.082, 0.054, 0.001)),
    "ad_size": Choice((0.932, 0.044, 0.008, 0.006, 0.004, 0.003, 0.002, 0.001)),
    "C17": Zipf(435, 2.469, 2.492),
    "C14": Choice((0.4, 0.22, 0.15, 0.11, 0.08, 0.04)),  # six variants within each C17
    "C18": Choice((0.42, 0.33, 0.18, 0.07)),
    "C19": Zipf(68, 4.0, 3.106),
    "C20": Zipf(171, 2.069, 2.315),
    "C21": Zipf(60, 4.0, 3.9),
    "hour_of_day": Choice(_BY_HOUR),
}

PLANTED: tuple[Planted, ...] = (
    *(Planted((c,), 0.28) for c in ("site_id", "C17", "C18", "C19", "C21", "banner_pos")),
    *(Planted((c,), 0.14) for c in ("app_id", "device_model", "C20", "device_conn_type", "hour_of_day")),
    *(Planted((c,), 0.06) for c in ("device_ip", "device_id")),
    Planted(("site_id", "C17"), 0.40),
    Planted(("C18", "C21"), 0.50),
    Planted(("C21", "hour_of_day"), 0.35),
    Planted(("C18", "C19", "C21"), 0.65),
    Planted(("banner_pos", "C17", "C18"), 0.50),
)

_LISTS: dict[str, tuple[str, ...]] = {
    "C1": ("1005", "1002", "1010", "1012", "1007", "1001", "1008"),
    "banner_pos": ("0", "1", "7", "2", "4", "5", "3"),
    "device_type": ("1", "0", "4", "5", "2"),
    "device_conn_type": ("0", "2", "3", "5"),
    "C18": ("0", "3", "2", "1"),
    "C15": ("320", "300", "216", "728", "320", "480", "1024", "768"),
    "C16": ("50", "250", "36", "90", "480", "320", "768", "1024"),
    "C19": tuple(str(33 + 4 * (rank * 29 % 68) + 1600 * (rank % 17 == 16)) for rank in range(68)),
    "C20": tuple(str(100000 + rank * 64 % 171) for rank in range(171)),
    "C21": tuple(str(1 + 4 * (rank * 23 % 60)) for rank in range(60)),
}
_LIST_TEXTS = {column: text.lookup(texts) for column, texts in _LISTS.items()}

_SITE_NULL = ("85f751fd", "c4e18dd6", "50e219e0")
_APP_NULL = ("ecad2386", "7801e8d9", "07d7df22")
_DEVICE_NULL = "a99f214a"


def _word(hexadecimal: str) -> np.uint64:
    """Eight characters as one machine word, as `text.hex8` gives them."""
    return np.frombuffer(hexadecimal.encode(), dtype=np.uint64)[0]


def _ids(column: str, ranks: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    return text.hex8(scatter32(ranks, key_of("avazu id", column)))


def _family(
    kind: str, size: int, shared_domains: int, categories: int, null: tuple[str, str, str]
) -> list[npt.NDArray[np.uint64]]:
    """Texts of id, domain and category per rank; some domains are shared, some are unknown."""
    rank = np.arange(size)
    shared = uniform(rank, key_of(kind, "shared")) < 0.3
    group = (uniform(rank, key_of(kind, "domain")) ** 2 * shared_domains).astype(np.int64)
    domain = _ids(f"{kind}_domain", np.where(shared, group, rank + shared_domains))
    domain[uniform(rank, key_of(kind, "no domain")) < 0.05] = _word(null[1])
    category = _ids(f"{kind}_category", (uniform(rank, key_of(kind, "category")) ** 3 * categories).astype(np.int64))
    return [_ids(f"{kind}_id", rank), domain, category]


class Avazu(NoSideFile):
    name = "avazu"
    click_rate = 0.17
    bytes_per_row = 155
    header = HEADER.encode()

    def __init__(self) -> None:
        columns = {column for spec in PLANTED for column in spec.columns}
        self._laws = {c: LAWS[c].probabilities(TABLE_LIMIT) for c in sorted(columns)}
        self._site = _family("site", 4736, 3000, 25, _SITE_NULL)
        self._app = _family("app", 8551, 400, 35, _APP_NULL)
        self._hour_ends = np.cumsum(np.tile(_BY_HOUR, DAYS)) / (DAYS * sum(_BY_HOUR))

    def laws(self) -> Mapping[str, F64]:
        return self._laws

    def planted(self) -> Sequence[Planted]:
        return PLANTED

    def draw(self, rng: np.random.Generator, when: F64) -> Drawn:
        rows = len(when)
        app_row = rng.random(rows) < APP_ROWS
        unknown = {
            "site_id": app_row,
            "app_id": ~app_row,
            "device_id": rng.random(rows) < DEVICE_UNKNOWN,
            "C20": rng.random(rows) < C20_UNKNOWN,
        }
        hour = np.minimum(np.searchsorted(self._hour_ends, when), DAYS * 24 - 1).astype(np.int32)
        ranks = {column: law.draw(rng, rows) for column, law in LAWS.items() if column != "hour_of_day"}
        ranks["hour_of_day"] = hour % 24
        codes = {c: code_ranks(ranks[c], law, unknown.get(c)) for c, law in self._laws.items()}
        return Drawn(Inputs(codes, {}), {"ranks": ranks, "unknown": unknown, "hour": hour})

    def render(self, drawn: Drawn, clicked: Labels, rng: np.random.Generator) -> bytes:
        ranks, unknown = drawn.cells["ranks"], drawn.cells["unknown"]
        listed = {c: _LIST_TEXTS[c].take(ranks[c]) for c in _LIST_TEXTS if c in ranks}
        site = [np.where(unknown["site_id"], _word(null), table.take(ranks["site_id"]))
                for table, null in zip(self._site, _SITE_NULL)]  # fmt: skip
        app = [np.where(unknown["app_id"], _word(null), table.take(ranks["app_id"]))
               for table, null in zip(self._app, _APP_NULL)]  # fmt: skip
        c17 = ranks["C17"] * np.int32(149) % np.int32(435)  # a permutation: frequent is not small
        columns: list[text.Cells] = [
            text.decimal(rng.integers(0, 2**64, len(clicked), dtype=np.uint64), 20),
            clicked.astype(np.uint8) + np.uint8(ord("0")),
            text.decimal(14102100 + drawn.cells["hour"] // 24 * 100 + drawn.cells["hour"] % 24, 8),
            listed["C1"],
            listed["banner_pos"],
            *site,
            *app,
            np.where(unknown["device_id"], _word(_DEVICE_NULL), _ids("device_id", ranks["device_id"])),
            _ids("device_ip", ranks["device_ip"]),
            _ids("device_model", ranks["device_model"]),
            listed["device_type"],
            listed["device_conn_type"],
            text.decimal(375 + 9 * (c17 * np.int32(6) + ranks["C14"]), 5),
            _LIST_TEXTS["C15"].take(ranks["ad_size"]),
            _LIST_TEXTS["C16"].take(ranks["ad_size"]),
            text.decimal(112 + 6 * c17, 4),
            listed["C18"],
            listed["C19"],
            np.where(unknown["C20"], b"-1", listed["C20"]),
            listed["C21"],
        ]
        return text.join_rows(columns, ",")
