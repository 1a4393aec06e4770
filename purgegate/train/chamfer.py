"""Distances between sets of points, by the nearest of the other set."""

from jaxtyping import Float
from torch import Tensor

from purgegate.points.neighbours import nearest_neighbours


def nearest(a: Float[Tensor, "B n 3"], b: Float[Tensor, "B m 3"]) -> Float[Tensor, "B n 3"]:
    """For each point of `a`, the nearest point of `b`; a gradient goes to the point that was taken."""
    index = nearest_neighbours(b, a, 1)
    return b.gather(1, index.expand(-1, -1, 3))


def chamfer_squared(a: Float[Tensor, "B n 3"], b: Float[Tensor, "B m 3"]) -> Float[Tensor, ""]:
    """Mean squared distance to the nearest of the other set, both ways added (Chamfer-L2)."""
    return _squared(a - nearest(a, b)) + _squared(b - nearest(b, a))


def chamfer(a: Float[Tensor, "B n 3"], b: Float[Tensor, "B m 3"]) -> Float[Tensor, ""]:
    """Mean distance to the nearest of the other set, both ways added."""
    return (a - nearest(a, b)).norm(dim=-1).mean() + (b - nearest(b, a)).norm(dim=-1).mean()


def _squared(offset: Float[Tensor, "B n 3"]) -> Float[Tensor, ""]:
    return offset.square().sum(dim=-1).mean()
