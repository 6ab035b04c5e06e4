"""Generated click logs in the raw formats of Criteo, Avazu and KDD Cup 2012, with a known truth."""

from recnas.data.synthetic.pipeline import CHUNK_ROWS, LAYOUTS, SynthSummary, click_model, generate

__all__ = ["CHUNK_ROWS", "LAYOUTS", "SynthSummary", "click_model", "generate"]
