"""KDD Cup 2012 track 2 `training.txt` and its side file `userid_profile.txt`.

TAB, no header: clicks, impressions, display URL, ad, advertiser, depth, position, query, keyword,
title, description, user. A row stands for one session and may carry several impressions and
clicks; the label of a row is clicks > 0. Rows of a user stand together. Gender and age are found
through the user id; user 0 is unknown and has no profile.

The planted chance is the one before the ad is shown. Impressions are counted in the same window as
the clicks, so here, as in the real log, they tell something about the label: a model that reads
them can fall below the Bayes log loss of the truth file. That is the leak, not a better model.

Ids of query, keyword, title and description are frequency ranks, as in the real log. The share of
unknown users and the laws are assumptions: no sample of the real file was at hand to fit them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic import text
from recnas.data.synthetic.hashing import key_of, scatter64, uniform
from recnas.data.synthetic.laws import CategoryLaw, Choice, Zipf
from recnas.data.synthetic.layout import Drawn, Labels, SideFile
from recnas.data.synthetic.planted import F64, TABLE_LIMIT, Inputs, Planted, code_ranks

USERS = 23_669_283
USER_UNKNOWN = 0.2
ADVERTISERS = 14_847
ADS_PER_ADVERTISER = 43
_ADS = ADVERTISERS * ADS_PER_ADVERTISER

# (depth, position): how many ads were on the page, and which of them this one was.
SLOTS = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
GENDERS = Choice((0.06, 0.52, 0.42))  # 0 unknown, 1 male, 2 female
AGES = Choice((0.11, 0.20, 0.28, 0.18, 0.14, 0.09))  # buckets 1 .. 6

LAWS: dict[str, CategoryLaw] = {
    "advertiser": Zipf(ADVERTISERS, 1.3, 6.0),
    "ad": Zipf(ADS_PER_ADVERTISER, 1.6, 1.0),
    "query": Zipf(24122076, 0.95, 3.0),
    "keyword": Zipf(1188089, 1.08, 3.0),
    "title": Zipf(3735796, 1.05, 4.0),
    "description": Zipf(2934101, 1.07, 4.0),
    "depth:position": Choice((0.30, 0.22, 0.17, 0.12, 0.11, 0.08)),
}

PLANTED: tuple[Planted, ...] = (
    *(Planted((c,), 0.35) for c in ("advertiser", "depth:position", "gender", "age")),
    *(Planted((c,), 0.12) for c in ("keyword", "title", "description", "query")),
    Planted(("advertiser", "age"), 0.35),
    Planted(("age", "depth:position"), 0.50),
    Planted(("gender", "depth:position"), 0.40),
    Planted(("gender", "age", "depth:position"), 0.65),
    Planted(("advertiser", "gender", "age"), 0.45),
)

_IMPRESSIONS_OF_CLICKED, _IMPRESSIONS_OF_OTHERS = 0.60, 0.80  # chance that a session stops here


def profile(users: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Rank of gender and of age of each user: the same people whatever the seed of the file."""

    def pick(name: str, law: Choice) -> npt.NDArray[np.int32]:
        edges = np.cumsum(law.probabilities(len(law.weights)))[:-1]
        return np.searchsorted(edges, uniform(users, key_of("kdd12 user", name)), side="right").astype(np.int32)

    return pick("gender", GENDERS), pick("age", AGES)


class UserProfiles:
    """`userid_profile.txt` of the users that the file mentions: one bit of memory each would do,
    one byte is simpler and still only 24 MB."""

    name = "userid_profile.txt"

    def __init__(self) -> None:
        self._seen = np.zeros(USERS + 1, dtype=bool)

    def note(self, keys: npt.NDArray[np.integer]) -> None:
        self._seen[keys] = True

    def blocks(self) -> Iterator[bytes]:
        users = np.flatnonzero(self._seen[1:]) + 1
        for start in range(0, len(users), 1 << 18):
            some = users[start : start + (1 << 18)]
            gender, age = profile(some)
            digits = (gender.astype(np.uint8) + np.uint8(ord("0")), age.astype(np.uint8) + np.uint8(ord("1")))
            yield text.join_rows([text.decimal(some, 8), *digits], "\t")


class Kdd12:
    name = "kdd12"
    click_rate = 0.044
    bytes_per_row = 75
    header = b""

    def __init__(self) -> None:
        known = {**LAWS, "gender": GENDERS, "age": AGES}
        columns = {column for spec in PLANTED for column in spec.columns}
        self._laws = {c: known[c].probabilities(TABLE_LIMIT) for c in sorted(columns)}

    def laws(self) -> Mapping[str, F64]:
        return self._laws

    def planted(self) -> Sequence[Planted]:
        return PLANTED

    def draw(self, rng: np.random.Generator, when: F64) -> Drawn:
        rows = len(when)
        # Spread the frequent users over the numbers; the multiplier shares no factor with USERS.
        rank = Zipf(USERS, 0.75, 40.0).draw(rng, rows).astype(np.int64)
        user = rank * 9_999_991 % USERS + 1
        user.sort()  # the other cells are drawn after this, so sorting binds nothing to them
        user[rng.random(rows) < USER_UNKNOWN] = 0  # many people, hence all over the file
        unknown = user == 0
        ranks = {column: law.draw(rng, rows) for column, law in LAWS.items()}
        ranks["gender"], ranks["age"] = profile(user)
        unknowns = {"gender": unknown, "age": unknown}
        codes = {c: code_ranks(ranks[c], law, unknowns.get(c)) for c, law in self._laws.items()}
        return Drawn(Inputs(codes, {}), {"ranks": ranks, "user": user})

    def render(self, drawn: Drawn, clicked: Labels, rng: np.random.Generator) -> bytes:
        ranks = drawn.cells["ranks"]
        stop = np.where(clicked, _IMPRESSIONS_OF_CLICKED, _IMPRESSIONS_OF_OTHERS)
        impressions = rng.geometric(stop)
        extra = np.minimum(rng.geometric(0.95, len(clicked)), impressions)  # a second click is rare
        advertiser, ad = ranks["advertiser"].astype(np.int64), ranks["ad"].astype(np.int64)
        slots = np.array(SLOTS, dtype=np.uint8) + np.uint8(ord("0"))
        columns: list[text.Cells] = [
            text.decimal(np.where(clicked, extra, 0), 4),
            text.decimal(impressions, 4),
            text.decimal(scatter64(advertiser * 2 + (ad & 1), key_of("kdd12 url")), 20),
            text.decimal(3_000_000 + 29 * ((advertiser * ADS_PER_ADVERTISER + ad) * 7919 % _ADS), 8),
            text.decimal(100 + advertiser * 4001 % ADVERTISERS, 8),
            slots[:, 0].take(ranks["depth:position"]),
            slots[:, 1].take(ranks["depth:position"]),
            *(text.decimal(ranks[c], 8) for c in ("query", "keyword", "title", "description")),
            text.decimal(drawn.cells["user"], 8),
        ]
        return text.join_rows(columns, "\t")

    def side_file(self) -> SideFile | None:
        return UserProfiles()

    def side_keys(self, drawn: Drawn) -> npt.NDArray[np.integer] | None:
        keys: npt.NDArray[np.integer] = drawn.cells["user"]
        return keys
