"""Tilt and shear: faces that look along no axis, as of a thing that lies askew or a sensor that does."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.kernels.faces import align, measure_normals
from purgegate.kernels.parallel import over_clouds
from purgegate.typing import Points

NORMALS = 192  # at the most in a cloud


class Tilt(NamedTuple):
    """How the faces of clouds lie to the axes."""

    frame: Float[Tensor, "B 3 3"]  # straightened = frame @ (point - centroid) + centroid
    turn: Float[Tensor, "B 3 3"]  # the frame with no shear in it
    angle: Float[Tensor, " B"]  # of the turn, in degrees
    gain: Float[Tensor, " B"]  # how much more of the faces look along the axes behind the turn, of 1


def straighten(points: Points) -> tuple[Points, Tilt]:
    """Clouds whose faces look along the axes, turned and sheared about their centroids, and how.

    Only things with faces can be righted, and only by less than about 45 degrees: the nearest axes win.
    """
    found = tilt(points)
    return upright(points, found), found


def upright(points: Points, found: Tilt) -> Points:
    """Clouds in the frame that was found for them."""
    centroid = points.mean(dim=1, keepdim=True)
    return (points - centroid) @ found.frame.mT + centroid


def tilt(points: Points) -> Tilt:
    """Find the turn that sets most faces along the axes, and the frame that does so with shear."""
    directions, flat = normals(points)
    turns, frames = np.empty((2, len(points), 3, 3))
    over_clouds(align, directions.numpy(), flat.numpy(), turns, frames)
    turn = torch.from_numpy(turns)
    cosine = (turn.diagonal(dim1=1, dim2=2).sum(dim=1) - 1) / 2
    gain = _along_axes(directions @ turn.mT, flat) - _along_axes(directions, flat)
    found = torch.from_numpy(frames), turn, cosine.clamp(-1, 1).arccos().rad2deg(), gain
    return Tilt(*(each.to(points) for each in found))


def normals(points: Points) -> tuple[Float[Tensor, "B m 3"], Float[Tensor, "B m"]]:
    """Surface directions at up to 192 points of each cloud, and how flat the surface is there, from 0 to 1.

    The points are evenly spaced in their order along the diagonal of the cloud's box, so that neither chance
    nor the order in which points come has a say.
    """
    clouds = points.detach().cpu().double()
    diagonal = clouds.amax(dim=1) - clouds.amin(dim=1)
    keys = (clouds @ torch.nn.functional.normalize(diagonal, dim=1)[..., None])[..., 0]
    keys, order = keys.sort(dim=1)
    axes = clouds.mT.gather(2, order[:, None].expand(-1, 3, -1))
    count = min(NORMALS, points.shape[1])
    directions, flat = np.empty((len(points), count, 3)), np.empty((len(points), count))
    over_clouds(measure_normals, axes.numpy(), keys.numpy(), directions, flat)
    return torch.from_numpy(directions), torch.from_numpy(flat)


def _along_axes(directions: Float[Tensor, "B m 3"], weights: Float[Tensor, "B m"]) -> Float[Tensor, " B"]:
    """Weighted mean of the components' fourth powers: 1 where all look along an axis, 1/3 at the least."""
    total = weights.sum(dim=1).clamp(min=torch.finfo(weights.dtype).tiny)
    return ((directions**4).sum(dim=2) * weights).sum(dim=1) / total
