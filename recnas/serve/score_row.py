"""Click probabilities of raw rows, one line each (a column per label, if there are several). Needs the files beside this one, and torch or onnxruntime.

    python score_row.py < rows

A row is a line of the raw file, with or without its label, with or without a header line before it; or a JSON
object {column: cell}. rows.py says how a row becomes the model's inputs, model.json what the columns are.
"""

import hashlib
import json
import sys
from pathlib import Path

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


def read_model():
    """model.json, when it and every file it lists are what was written; nothing is loaded or run before that."""
    try:
        model = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
        rest = {name: part for name, part in model.items() if name != "check"}
        if model["check"] != hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest():
            raise ValueError("its content does not have its checksum")
        files = model["files"]
        needed = [
            "rows.py",
            "values.py",
            "transforms.py",
            model["program"]["file"],
            *(column["vocabulary"] for column in model["sparse"] if column["vocabulary"]),
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SystemExit(f"score_row.py: model.json is missing, damaged or was changed: {error}") from None
    for name in [*files, *(name for name in needed if name not in files)]:
        path = HERE / name
        if HERE not in path.resolve().parents:
            raise SystemExit(f"score_row.py: model.json names {name}, which is outside of this folder")
        if not path.is_file() or sha256_of(path) != files.get(name):
            raise SystemExit(f"score_row.py: {name} is missing, damaged or was changed since it was exported")
    return model


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def main():
    try:
        model = read_model()
    except SystemExit as error:
        print(error, file=sys.stderr)
        return 2
    from rows import RowError, RowReader, Vocabularies

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
            print(*probability, sep="\t") if isinstance(probability, list) else print(probability)
    return 0


if __name__ == "__main__":
    sys.exit(main())
