"""A written ONNX program as a function of arrays, without torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from recnas.errors import BackendMissing, RunError

ArrayProgram = Callable[[np.ndarray, np.ndarray], np.ndarray]  # dense [B, I], ids [B, F] -> probability [B]


def onnx_program(path: Path, threads: int = 1) -> ArrayProgram:
    """Args:
    threads: of one call; calls may come from several threads at once.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise BackendMissing(f"{path} needs onnxruntime, not installed here.", "pip install 'recnas[export]'")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting is left to the system
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has several classes of its own for a file that it cannot read
        raise RunError(
            f"onnxruntime cannot load {path}: {str(error).splitlines()[0][:200]}.", "Export the model again."
        ) from error
    wanted = [given.name for given in session.get_inputs()]

    def run(dense: np.ndarray, ids: np.ndarray) -> np.ndarray:
        # A model without dense inputs has no use for them, and the converter leaves them out.
        given = {"dense": dense, "ids": ids}
        return session.run(["probability"], {name: given[name] for name in wanted})[0]

    return run
