"""Point-NN (Zhang et al., CVPR 2023): features of a cloud without a single learned number."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.points.neighbours import nearest_neighbours
from purgegate.points.sampling import farthest_points
from purgegate.typing import Points

# The eval-mode BatchNorm of the published network, which never sees a cloud: variance 1, epsilon 1e-5.
UNTRAINED_NORM = (1 + 1e-5) ** -0.5

# Neighbourhoods pooled at once: few enough that what lies between two steps stays in the cores' caches.
CHUNK = 16


class PointNN:
    """Farthest points, neighbours, trigonometric embedding and pooling, stage upon stage.

    Each of the `stages` halves the points, from `points` on, and doubles the width. Offsets are divided by
    one standard deviation over the whole batch, so features depend a little on who else is in it.
    """

    def __init__(
        self,
        *,
        points: int = 1024,
        stages: int = 3,
        width: int = 72,
        neighbours: int = 120,
        alpha: float = 1000.0,
        beta: float = 100.0,
    ) -> None:
        if width < 6 or width % 6:
            raise ValueError(f"width must be a multiple of 6, a sine and a cosine an axis; got {width}")
        if stages < 1 or points < 2**stages:
            raise ValueError(f"stages must lie in [1, log2 of points]; got {stages} for {points} points")
        self.points, self.stages, self.width, self.neighbours = points, stages, width, neighbours
        self.alpha, self.beta = alpha, beta

    def described(self) -> dict[str, int | float]:
        """What a row of results says of it."""
        return dict(vars(self))

    @property
    def features(self) -> int:
        """Width of a cloud's feature."""
        return self.width * 2**self.stages

    def __call__(self, points: Points) -> Float[Tensor, "B F"]:
        """One feature a cloud: maximum plus mean over the last stage."""
        *_, x = self.stage_features(points)
        return x.amax(dim=1) + x.mean(dim=1)

    @torch.no_grad()
    def stage_features(self, points: Points) -> Iterator[Float[Tensor, "B G D"]]:
        """Pooled features behind each stage, a sine's channel before its cosine's."""
        x = self.embed(points, self.width)
        for stage in range(1, self.stages + 1):
            index = farthest_points(points, self.points >> stage)
            centers, own = _take(points, index), _take(x, index)
            near = nearest_neighbours(points, centers, self.neighbours)
            x = F.gelu(UNTRAINED_NORM * self._pool(points, centers, x, own, near))
            points = centers
            yield x.mT.flatten(2)

    def embed(self, v: Float[Tensor, "*any 3"], width: int) -> Float[Tensor, "*any 2 W"]:
        """Sines, and apart from them cosines, of each coordinate at falling frequencies, axis after axis."""
        count = width // 6
        period = self.alpha ** (torch.arange(count).to(v) / count)
        angle = (self.beta * v[..., None] / period).flatten(-2)
        return torch.stack([angle.sin(), angle.cos()], dim=-2)

    def _pool(
        self,
        points: Points,
        centers: Float[Tensor, "B G 3"],
        x: Float[Tensor, "B N 2 W"],
        own: Float[Tensor, "B G 2 W"],
        near: Int64[Tensor, "B G K"],
    ) -> Float[Tensor, "B G 2 D"]:
        """Neighbourhoods weighed by the embedding of their offsets; maximum plus mean of each."""
        # Added outside of the root, as published.
        distance = offset_std(points, centers, near) + 1e-5
        spread = offset_std(x.flatten(2), own.flatten(2), near) + 1e-5
        rows = []
        for cloud, f, *rest in zip(points, x, centers, own, near, strict=True):
            for center, middle, index in zip(*(part.split(CHUNK) for part in rest), strict=True):
                weight = self.embed((cloud[index] - center[:, None]) / distance, 4 * x.shape[-1])
                change = f[index].sub_(middle[:, None]).div_(spread)
                whole = torch.cat([change, middle[:, None].expand_as(change)], dim=-1)
                whole = whole.add_(weight).mul_(weight)
                rows.append(whole.amax(dim=1) + whole.mean(dim=1))
        return torch.cat(rows).unflatten(0, own.shape[:2])


def offset_std(
    x: Float[Tensor, "B N W"], own: Float[Tensor, "B G W"], near: Int64[Tensor, "B G K"]
) -> Float[Tensor, ""]:
    """Standard deviation over every offset of a neighbour from its centre, without making them.

    From sums, in double precision: the squares come from the products of all points with all centres.
    """
    kind, x, own = x.dtype, x.double(), own.double()
    batch, groups, count = near.shape
    flat = near.flatten(1)
    product = (own @ x.mT).gather(2, near)
    total = x.sum(dim=2).gather(1, flat).sum() - count * own.sum()
    squares = x.square().sum(dim=2).gather(1, flat).sum() + count * own.square().sum() - 2 * product.sum()
    number = batch * groups * count * x.shape[2]
    return ((squares - total**2 / number).clamp(min=0) / (number - 1)).sqrt().to(kind)


def _take(x: Float[Tensor, "B N *any"], index: Int64[Tensor, "B m"]) -> Float[Tensor, "B m *any"]:
    return x[torch.arange(len(x), device=x.device)[:, None], index]
