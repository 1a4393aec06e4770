"""The points of a cloud that lie nearest to given centres."""

from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int64
from numba import njit
from torch import Tensor

from purgegate.kernels.parallel import over_clouds
from purgegate.typing import Points


def nearest_neighbours(points: Points, centers: Float[Tensor, "B G 3"], count: int) -> Int64[Tensor, "B G K"]:
    """Indices of the `count` points nearest to each centre, nearest first, the first index on ties.

    Clouds with fewer points repeat them in that order.
    """
    if count < 1:
        raise ValueError(f"a patch needs at least 1 point; got {count}")
    distinct = min(count, points.shape[1])
    search = _on_cpu if points.device.type == "cpu" else nearest_neighbours_reference
    # Lower precisions, in which distances would be equal by the dozen, are raised.
    kind = torch.promote_types(torch.promote_types(points.dtype, centers.dtype), torch.float32)
    index = search(points.detach().to(kind), centers.detach().to(kind), distinct)
    return index[..., torch.arange(count, device=points.device) % distinct]


def nearest_neighbours_reference(
    points: Points, centers: Float[Tensor, "B G 3"], count: int
) -> Int64[Tensor, "B G K"]:
    """Plain torch version: the one for other devices, and what the compiled one must equal."""
    # Differences, not |a|² + |b|² − 2ab: in float32 the expansion swaps close neighbours.
    offset = centers[:, :, None] - points[:, None]
    x, y, z = (offset * offset).unbind(-1)
    return (x + y + z).argsort(dim=-1, stable=True)[..., :count]


def _on_cpu(points: Points, centers: Float[Tensor, "B G 3"], count: int) -> Int64[Tensor, "B G K"]:
    axes = np.ascontiguousarray(points.numpy().transpose(0, 2, 1))
    queries = centers.numpy()
    index = np.empty((*queries.shape[:2], count), dtype=np.int64)
    over_clouds(_search, axes, queries, index)
    return torch.from_numpy(index)


@no_type_check
@njit(nogil=True, cache=True)
def _search(axes: np.ndarray, queries: np.ndarray, index: np.ndarray) -> None:
    total, count = axes.shape[2], index.shape[2]
    distance = np.empty(total, dtype=axes.dtype)
    best = np.empty(count, dtype=axes.dtype)
    for cloud in range(axes.shape[0]):
        x, y, z = axes[cloud, 0], axes[cloud, 1], axes[cloud, 2]
        for row in range(queries.shape[1]):
            qx, qy, qz = queries[cloud, row]
            for i in range(total):
                dx, dy, dz = qx - x[i], qy - y[i], qz - z[i]
                distance[i] = dx * dx + dy * dy + dz * dz
            found = index[cloud, row]
            found[:] = 0
            best[:] = np.inf
            for i in range(total):
                if distance[i] < best[count - 1]:
                    place = count - 1
                    while place > 0 and distance[i] < best[place - 1]:
                        best[place], found[place] = best[place - 1], found[place - 1]
                        place -= 1
                    best[place], found[place] = distance[i], i
