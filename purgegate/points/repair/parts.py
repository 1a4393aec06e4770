"""Missing parts: clouds of which a sensor at one place saw only one side, completed by their symmetry."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from purgegate.kernels.depth import hidden_shares, stays_hidden
from purgegate.kernels.parallel import over_clouds
from purgegate.points.patches import NARROWEST
from purgegate.points.sampling import farthest_points, take
from purgegate.typing import Points

# Where a sensor may be: so many directions round the up axis at each of these heights, in degrees.
AZIMUTHS, ELEVATIONS = 12, (0.0, 25.0, 50.0)

# The images of an upright thing: half a turn, and the reflections in two upright planes.
IMAGES = ((-1.0, -1.0, 1.0), (1.0, -1.0, 1.0), (-1.0, 1.0, 1.0))
BALL = 1 + 1e-3  # of the unit ball no point lies outside, rounding included
THINNED = 3 / 8  # share of the points that have images: spread over all sides, they are dense enough


class Parts(NamedTuple):
    """From where a cloud may have been seen, and what of it was missing."""

    view: Float[
        Tensor, "B 3"
    ]  # the direction towards the sensor: that from which the cloud hides least of itself
    hidden: Float[
        Tensor, " B"
    ]  # the share of points hidden from there: nearly 0 where only one side was seen
    added: Float[Tensor, " B"]  # the share of images that the seen side hides, which are what was added


def horizontal_offset(points: Points, *, up: int = 2) -> Float[Tensor, " B"]:
    """How far the centroid lies from the box centre along the ground, in radii: far if a side is missing."""
    centroid, middle = points.mean(dim=1), _middle(points)
    radius = (points - centroid[:, None]).norm(dim=2).amax(dim=1)
    ground = [axis for axis in range(3) if axis != up]
    return (centroid - middle)[:, ground].norm(dim=1) / radius.clamp(min=torch.finfo(points.dtype).tiny)


def solidity(points: Points) -> Float[Tensor, " B"]:
    """The least spread of a cloud in any direction, in parts of the greatest: 0 for a plane."""
    centred = points - points.mean(dim=1, keepdim=True)
    spread = torch.linalg.eigvalsh(centred.mT @ centred).clamp(min=0).sqrt()
    return spread[:, 0] / spread[:, 2].clamp(min=torch.finfo(points.dtype).tiny)


def viewpoint(points: Points, *, up: int = 2) -> tuple[Float[Tensor, "B 3"], Float[Tensor, " B"]]:
    """The direction from which a cloud hides least of itself, not from below, and the share that it hides."""
    turned, _, _ = _in_ball(points, up)
    camera, hidden = _seen_from(turned)
    return camera[:, 2].to(points).roll(up - 2, dims=1), hidden.to(points)


def complete(points: Points, *, up: int = 2) -> tuple[Points, Parts]:
    """As many points with images of the seen sides where a sensor could not see, and what was found.

    A thing is taken to be symmetric about the middle of its box, as far as that does not contradict what was
    seen: an image is added only behind the seen surface, so that a whole or a flat cloud stays as it was.
    """
    turned, middle, radius = _in_ball(points, up)
    camera, hidden = _seen_from(turned)
    first = (turned - turned.mean(dim=1, keepdim=True)).norm(dim=2).argmax(dim=1)  # in any order of points
    count = points.shape[1]
    thin = take(turned, farthest_points(turned, max(1, round(THINNED * count)), start=first))
    images = torch.cat([thin * torch.tensor(image).to(thin) for image in IMAGES], dim=1)
    kept = _kept(turned, images, camera)
    # Points that are not kept become copies of one that is, which the sampling takes last.
    images = torch.where(kept[..., None], images, thin[:, :1])
    union = torch.cat([turned, images], dim=1)
    union = take(union, farthest_points(union, count, start=first))
    completed = (union * radius).roll(up - 2, dims=2) + middle
    added = kept.to(points).mean(dim=1)
    return completed, Parts(camera[:, 2].to(points).roll(up - 2, dims=1), hidden.to(points), added)


def _middle(points: Points) -> Float[Tensor, "B 3"]:
    return (points.amax(dim=1) + points.amin(dim=1)) / 2


def _in_ball(points: Points, up: int) -> tuple[Points, Float[Tensor, "B 1 3"], Float[Tensor, "B 1 1"]]:
    """Clouds in the unit ball about their box centres, last axis up; and these centres and the radii."""
    middle = _middle(points)[:, None]
    turned = (points - middle).roll(2 - up, dims=2)
    radius = turned.norm(dim=2).amax(dim=1)[:, None, None]
    # A little smaller than the ball, so that rounding leaves no point outside of it.
    radius = radius * (1 + 1e-5)
    return turned / radius.clamp(min=NARROWEST), middle, radius


def _seen_from(turned: Points) -> tuple[Float[Tensor, "B 3 3"], Float[Tensor, " B"]]:
    """The camera that sees most of each cloud, and what it does not."""
    cameras = _cameras()
    hidden = np.empty((len(turned), len(cameras)))
    axes = _axes(turned)
    over_clouds(lambda clouds, out: hidden_shares(clouds, cameras.astype(clouds.dtype), out), axes, hidden)
    best = hidden.argmin(axis=1)
    return torch.from_numpy(cameras[best]), torch.from_numpy(hidden.min(axis=1))


def _kept(
    turned: Points, images: Float[Tensor, "B m 3"], camera: Float[Tensor, "B 3 3"]
) -> Bool[Tensor, "B m"]:
    """Which images the seen surface hides from the camera."""
    axes = _axes(turned)
    kept = np.empty(images.shape[:2], dtype=np.bool_)
    over_clouds(stays_hidden, axes, _axes(images), camera.numpy().astype(axes.dtype), kept)
    return torch.from_numpy(kept).to(turned.device)


def _axes(points: Points) -> Float[np.ndarray, "B 3 N"]:
    if not (points.norm(dim=2) <= BALL).all():
        raise ValueError("a cloud must have finite coordinates to be looked at from all sides")
    # Coordinates apart, so that compiled loops read whole vector registers.
    return np.ascontiguousarray(points.detach().cpu().numpy().transpose(0, 2, 1))


@cache
def _cameras() -> Float[np.ndarray, "V 3 3"]:
    """Cameras of all directions: the rows of each are right, up and towards it."""
    rows = []
    for height in np.radians(ELEVATIONS):
        for turn in 2 * np.pi * np.arange(AZIMUTHS) / AZIMUTHS:
            toward = np.array([np.cos(height) * np.cos(turn), np.cos(height) * np.sin(turn), np.sin(height)])
            right = np.array([-np.sin(turn), np.cos(turn), 0.0])
            rows.append([right, np.cross(toward, right), toward])
    return np.array(rows)
