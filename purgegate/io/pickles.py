"""Pickled caches of arrays, read without letting them run code."""

import pickle
from pathlib import Path
from typing import Any

# What a pickle of lists of NumPy arrays needs, under the old and the new names of NumPy's core.
ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    *(
        (f"numpy.{core}.multiarray", name)
        for core in ("core", "_core")
        for name in ("_reconstruct", "scalar")
    ),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickler that knows arrays, lists and numbers, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Look up a name that an array needs."""
        if (module, name) not in ALLOWED:
            raise ValueError(f"it may hold arrays and lists only; it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_arrays(path: Path) -> Any:
    """Read lists of arrays from a pickle."""
    with path.open("rb") as file:
        return ArrayUnpickler(file, encoding="latin1").load()
