"""A skeleton of spheres, one a patch, that covers the cloud (SMART-PC, ICML 2025).

Released patches are in absolute coordinates, and centres are regressed directly. Here patches stay relative,
as the classifier needs them, and so do the centres that are regressed. The class feature is the plain one,
the target all points of all patches, and the loss a mean over the batch.
"""

import itertools
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.points.neighbours import nearest_neighbours
from purgegate.train.chamfer import chamfer, nearest
from purgegate.train.view import View

FIT, RADIUS = 0.3, 0.4  # weights of two of the losses; the first has weight 1


def skeleton_loss(
    model: Any, points: Float[Tensor, "B N 3"], generator: torch.Generator
) -> Float[Tensor, ""]:
    """How badly the spheres of the model cover the patches' points; nothing is drawn from the generator."""
    return skeleton_view_loss(View.of(model, points), generator)


def skeleton_view_loss(view: View, generator: torch.Generator) -> Float[Tensor, ""]:
    """The same from a view."""
    centers, radii = view.auxiliary("skeleton")(view.context[1], view.centers)
    points = (view.patches + view.centers[:, :, None]).flatten(1, 2)
    covering = chamfer(sphere_points(centers, radii), points)
    return covering + FIT * sphere_fit(centers, radii, points) - RADIUS * radii.mean()


def sphere_points(centers: Float[Tensor, "B G 3"], radii: Float[Tensor, "B G"]) -> Float[Tensor, "B s 3"]:
    """Eight points on each sphere, at the corners of a cube."""
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=3))).to(centers) / 3**0.5
    return (centers[:, :, None] + radii[:, :, None, None] * corners).flatten(1, 2)


def sphere_fit(
    centers: Float[Tensor, "B G 3"], radii: Float[Tensor, "B G"], points: Float[Tensor, "B n 3"]
) -> Float[Tensor, ""]:
    """Distance of each point to the sphere of nearest centre, plus of each sphere to the nearest point."""
    spheres = torch.cat([centers, radii[..., None]], dim=-1)
    own = _nearest_sphere(points, spheres)
    outside = ((points - own[..., :3]).norm(dim=-1) - own[..., 3]).abs().mean()
    return outside + ((centers - nearest(centers, points)).norm(dim=-1) - radii).abs().mean()


def _nearest_sphere(
    points: Float[Tensor, "B n 3"], spheres: Float[Tensor, "B G 4"]
) -> Float[Tensor, "B n 4"]:
    index = nearest_neighbours(spheres[..., :3], points, 1)
    return spheres.gather(1, index.expand(-1, -1, 4))
