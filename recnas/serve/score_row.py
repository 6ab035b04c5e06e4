"""Click probabilities of raw rows, one line each. Needs the files beside this one, and torch or onnxruntime.

    python score_row.py < rows

A row is a line of the raw file, with or without its label, with or without a header line before it; or a JSON
object {column: cell}. rows.py says how a row becomes the model's inputs, model.json what the columns are.
"""

import json
import sys
from pathlib import Path

from rows import RowError, RowReader, Vocabularies

HERE = Path(__file__).resolve().parent
AT_A_TIME = 512


def load_onnx(file):
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    wanted = [given.name for given in session.get_inputs()]  # a model without dense inputs has one only

    def run(dense, ids):
        given = {"dense": np.array(dense, np.float32), "ids": np.array(ids, np.int64)}
        return session.run(["probability"], {name: given[name] for name in wanted})[0].tolist()

    return run


def load_torch(file):
    import torch

    module = torch.export.load(file).module()
    return lambda dense, ids: module(torch.tensor(dense, dtype=torch.float32), torch.tensor(ids)).tolist()


def main():
    model = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
    try:
        rows = RowReader(model, Vocabularies(HERE, model)).rows(sys.stdin.buffer.read())
    except RowError as error:
        print(f"score_row.py: {error}", file=sys.stderr)
        return 2
    file = HERE / model["program"]["file"]
    run = load_onnx(file) if file.suffix == ".onnx" else load_torch(file)
    for start in range(0, len(rows), AT_A_TIME):
        dense, ids = zip(*rows[start : start + AT_A_TIME])
        for probability in run(dense, ids):
            print(probability)
    return 0


if __name__ == "__main__":
    sys.exit(main())
