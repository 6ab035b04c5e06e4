"""`score_row.py`: the shortest program that scores one raw row from an export folder.

It imports nothing of recnas and holds only what its model needs: the transforms, kinds of values and
derivations that occur among the columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TRANSFORMS = {
    "none": "lambda x: x",
    "log1p": "lambda x: math.log1p(max(x, 0.0))",
    "log-squared": "lambda x: float(math.floor(math.log(x) ** 2)) if x > 2 else x",
}
_PLAIN = {
    "hex": 'lambda cell: f"{int(cell, 16):08x}"',
    "int": "lambda cell: str((int(cell) + 2**63) % 2**64 - 2**63)",
    "string": "lambda cell: cell",
}
_DERIVED = {
    "yymmddhh-hour": "lambda t: str(int(t) % 100)",
    "yymmddhh-weekday": "lambda t: str(date(2000 + int(t) // 10**6, int(t[-6:-4]), int(t[-4:-2])).weekday())",
}
_NUMBER = """
def number(column, cell):
    if cell == "" or float(cell) in column["missing"]:
        return column["fill"]
    return TRANSFORMS[column["transform"]](float(cell))

"""
_IDENTITY = """
def identity(column, cell):
    cell = cell.removesuffix(column["suffix"] or "")
    if cell == "" or (value := PLAIN[column["kind"]](cell)) in column["missing"]:
        return model["ids"]["missing"]
    values = json.loads((HERE / column["vocabulary"]).read_text(encoding="utf-8"))
    return model["ids"]["first_value"] + values.index(value) if value in values else model["ids"]["unknown"]

"""
_DERIVE = """    if column["derive"]:
        value = DERIVED[column["derive"]](value)
"""
_SCORE = {
    "pt2": """program = torch.export.load(HERE / model["program"]["file"]).module()
print(float(program(torch.tensor([dense], dtype=torch.float32), torch.tensor([ids]))[0]))
""",
    "onnx": """session = onnxruntime.InferenceSession(HERE / model["program"]["file"])
given = {"dense": np.array([dense], np.float32).reshape(1, -1), "ids": np.array([ids], np.int64)}
given = {wanted.name: given[wanted.name] for wanted in session.get_inputs()}
print(float(session.run(["probability"], given)[0][0]))
""",
}


def example(model: dict[str, Any], to: str) -> str:
    """The text of score_row.py for the model.json `model`."""
    raw, dense, sparse = model["raw"], model["dense"], model["sparse"]
    transforms = _used(_TRANSFORMS, (column["transform"] for column in dense))
    kinds = _used(_PLAIN, (column["kind"] for column in sparse))
    derived = _used(_DERIVED, (column["derive"] for column in sparse))
    by_line = raw["format"] == "text" and bool(raw["columns"])
    usage = (
        "a line of the raw file, or a JSON object {column: cell}"
        if by_line
        else "a JSON object {column: cell}"
    )
    needs = {"pt2": "torch", "onnx": "onnxruntime"}[to]
    modules = ["json", "sys"] + ["math"] * any("math." in text for text in transforms.values())
    modules += ["csv"] * (by_line and raw["quote"])
    lines = [
        f'"""Click probability of one raw row, with nothing but {needs} and the files beside this one.',
        "",
        f"    python score_row.py < row      # {usage}",
    ]
    joined = [column["name"] for column in sparse if column["join"]]
    if joined:
        lines += ["", f"Looked up elsewhere, so only a JSON object can give them: {', '.join(joined)}."]
    lines += ['"""', "", *(f"import {name}" for name in sorted(modules))]
    lines += ["from datetime import date"] * ("yymmddhh-weekday" in derived)
    lines += ["from pathlib import Path", ""]
    lines += ["import torch"] if to == "pt2" else ["import numpy as np", "import onnxruntime"]
    lines += ["", "HERE = Path(__file__).resolve().parent"]
    lines += ['model = json.loads((HERE / "model.json").read_text(encoding="utf-8"))']
    for name, functions in (("TRANSFORMS", transforms), ("PLAIN", kinds), ("DERIVED", derived)):
        if functions:
            lines += [f"{name} = {{"] + [f'    "{key}": {text},' for key, text in functions.items()] + ["}"]
    text = "\n".join(lines) + "\n"
    if dense:
        text += "\n" + _NUMBER
    cut = _IDENTITY.index("    values =")
    text += "\n" * (not dense) + _IDENTITY[:cut] + _DERIVE * bool(derived) + _IDENTITY[cut:]
    text += "\n" + _reading(by_line, raw["quote"])
    text += 'cells = {name: "" if cell is None else str(cell) for name, cell in row.items()}\n'
    if dense:
        text += 'dense = [number(column, cells.get(column["source"], "")) for column in model["dense"]]\n'
    else:
        text += "dense = []\n"
    text += 'ids = [identity(column, cells.get(column["source"], "")) for column in model["sparse"]]\n'
    return text + _SCORE[to]


def write_example(model: dict[str, Any], to: str, folder: Path) -> None:
    (folder / "score_row.py").write_text(example(model, to), encoding="utf-8")


def _used(functions: dict[str, str], names: Any) -> dict[str, str]:
    wanted = set(names)
    return {name: text for name, text in functions.items() if name in wanted}


def _reading(by_line: bool, quoted: bool) -> str:
    """The raw row as a dictionary `row`."""
    if not by_line:
        return "row = json.loads(sys.stdin.readline())\n"
    cells = 'line.split(raw["separator"])'
    if quoted:  # a separator within quotes is kept as U+001F
        cells = 'next(csv.reader([line], delimiter=raw["separator"]))'
        cells = f'(cell.replace(raw["separator"], "\\x1f") for cell in {cells})'
    return (
        'raw, line = model["raw"], sys.stdin.readline().rstrip("\\r\\n")\n'
        f'row = json.loads(line) if line.startswith("{{") else dict(zip(raw["columns"], {cells}))\n'
    )
