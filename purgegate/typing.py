"""Glossary of shape letters, and the aliases that every module shares.

B  clouds in a batch            N  points in a cloud          G  patches (tokens) in a cloud
K  points in a patch            D  width of a token           F  width of a cloud's feature
C  classes                      S  purge sizes tried          V, T  vertices and triangles of a mesh
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Integer
from torch import Tensor

StrPath = str | Path
Points = Float[Tensor, "B N 3"]
Cloud = Float32[np.ndarray, "N 3"]
Mesh = tuple[Float[np.ndarray, "V 3"], Integer[np.ndarray, "T 3"]]
