"""Place and scale: clouds brought to where and how large the source's are."""

from math import ceil
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.typing import Points

# The radius that 99 % of a cloud's points lie within, and its mean over clouds of ModelNet40: unlike the
# farthest point's, it hardly depends on strays.
QUANTILE, REACH = 0.99, 0.95


class Scale(NamedTuple):
    """Where clouds were, and how large."""

    centroid: Float[Tensor, "B 3"]
    radius: Float[Tensor, " B"]  # that most points lie within


def rescale(points: Points, *, reach: float = REACH) -> tuple[Points, Scale]:
    """Clouds with the centroid at the origin and 99 % of the points within `reach`, and how they were."""
    centroid = points.mean(dim=1, keepdim=True)
    centred = points - centroid
    radius = centred.norm(dim=2).kthvalue(ceil(QUANTILE * points.shape[1]), dim=1).values
    # A cloud of equal points has no size to change: what is left of it behind the centring is rounding.
    rounding = 4 * torch.finfo(points.dtype).eps * points.abs().amax(dim=(1, 2))
    factor = torch.where(radius > rounding, reach / radius, 1.0)
    return centred * factor[:, None, None], Scale(centroid[:, 0], radius)
