"""NASWOT: do the ReLUs of an untrained network tell the examples apart?"""

from __future__ import annotations

from collections import Counter

import torch

from recnas.proxies.base import Proxy, Score, Stats
from recnas.proxies.recorded_pass import RecordedPass

_UNITS = 2**22  # per product: counts in float32 are exact below 2^24


class Naswot(Proxy):
    """log |det S|, S_ij the number of ReLU units with the same on/off state for examples i and j.

    Mellor et al. 2021. HNAS' file of that name multiplies raw pre-activations instead and is another metric.
    Worst if S is singular, as it is when two examples switch every unit alike.
    """

    name = "naswot"
    needs = (RecordedPass,)

    def score(self, stats: Stats) -> Score:
        taped = stats.get(RecordedPass)
        if taped.dead is not None:
            return self.degenerate(taped.dead)
        if not taped.before_relu:
            return self.degenerate("the network reports no ReLU")
        m = len(taped)
        same = torch.zeros(m, m, dtype=torch.float64, device=taped.logits.device)
        # One activation may be reported by several readers, each of which has its own in the papers' networks.
        times = Counter((id(before), axis) for before, axis in taped.before_relu)
        for before, axis in {(id(before), axis): (before, axis) for before, axis in taped.before_relu}.values():
            on = (before.detach() > 0).float().movedim(axis, 0).flatten(1)
            for part in on.split(_UNITS, 1):
                both = (part @ part.T).double()
                each = both.diagonal()
                # Both on, or both off: units less those that only one of the two switches on.
                equal = part.shape[1] - each - each.unsqueeze(1) + 2 * both
                same += times[id(before), axis] * equal
        eigenvalues = torch.linalg.eigvalsh(same)
        if float(eigenvalues[0]) <= m * 2.0**-50 * float(eigenvalues[-1]):
            return self.degenerate("two examples, or sums of examples, switch every ReLU alike")
        return Score(float(eigenvalues.log().sum()))
