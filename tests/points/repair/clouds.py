"""Clouds that the tests of every repair share."""

import numpy as np
import torch

SIDES = (0.5, 0.8, 1.1)

# What no repair may stumble on: a point again and again, one, two and three points, a line, a plane.
ODD = {
    "one place": torch.full((1, 40, 3), 0.3),
    "the origin": torch.zeros(1, 40, 3),
    "one point": torch.tensor([[[0.1, 0.2, 0.3]]]),
    "two points": torch.tensor([[[0.1, 0.2, 0.3], [0.4, 0.5, 0.1]]]),
    "three points": torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]).repeat(1, 20, 1),
    "a line": torch.linspace(-1, 1, 50)[None, :, None] * torch.tensor([1.0, 2.0, 3.0]),
    "a plane": torch.rand(1, 200, 3, generator=torch.Generator().manual_seed(0))
    * torch.tensor([1.0, 1.0, 0.0]),
    "a tiny one": 1e-12 * torch.rand(1, 100, 3, generator=torch.Generator().manual_seed(0)),
    "a far one": 1e6 + torch.rand(1, 100, 3, generator=torch.Generator().manual_seed(0)),
}


def boxes(clouds: int = 4, count: int = 1024, *, seed: int = 0) -> torch.Tensor:
    """Points on the surfaces of upright boxes, as many on each pair of sides as these are large."""
    draws = np.random.default_rng(seed)
    points = draws.uniform(-1, 1, (clouds, count, 3)) * SIDES
    areas = np.prod(SIDES) / np.array(SIDES)
    axis = draws.choice(3, (clouds, count), p=areas / areas.sum())
    side = draws.choice([-1, 1], (clouds, count)) * np.array(SIDES)[axis]
    np.put_along_axis(points, axis[..., None], side[..., None], axis=2)
    return torch.from_numpy(points).float()


def shuffled(points: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
    """The same clouds with their points in another order."""
    return points[:, torch.randperm(points.shape[1], generator=torch.Generator().manual_seed(seed))]
