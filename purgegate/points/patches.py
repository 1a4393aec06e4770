"""Cutting a cloud into overlapping patches round well-spread centres."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.points.neighbours import nearest_neighbours
from purgegate.points.sampling import farthest_points, take

# In float32, sums of squares over a million points stay finite and above zero between these.
FARTHEST, NARROWEST = 1e15, 1e-15


def cut_patches(
    points: Tensor, *, groups: int, group_size: int
) -> tuple[Float[Tensor, "B G 3"], Float[Tensor, "B G K 3"]]:
    """Centres by farthest point sampling from point 0, and their nearest points relative to them."""
    check_clouds(points)
    centers = take(points, farthest_points(points, groups))
    neighbours = take(points, nearest_neighbours(points, centers, group_size).flatten(1))
    return centers, neighbours.unflatten(1, (groups, group_size)) - centers[:, :, None]


def check_clouds(points: Tensor, model: object = None) -> None:
    """Refuse what is not a batch of finite clouds, or not of the numbers that the model computes with."""
    if not isinstance(points, Tensor):
        raise ValueError(
            f"clouds must be a torch tensor; got {type(points).__name__}: convert them with "
            "torch.as_tensor(points, dtype=torch.float32)"
        )
    if points.is_nested or points.is_meta or points.layout != torch.strided:
        raise ValueError("clouds must be a dense tensor, all of one size; got a sparse, nested or meta one")
    if points.ndim != 3 or points.shape[-1] != 3:
        hint = "; add the batch axis with points[None]" if points.ndim == 2 and points.shape[-1] == 3 else ""
        raise ValueError(f"clouds must have the shape (B, N, 3); got {tuple(points.shape)}{hint}")
    if not points.is_floating_point():
        raise ValueError(
            f"clouds must be floating point; got {points.dtype}: convert them with points.float()"
        )
    own = {p.dtype for p in model.parameters()} if isinstance(model, nn.Module) else set()
    wanted = own or {points.dtype}  # a model without parameters takes what it gets
    if points.dtype not in wanted & {torch.float32, torch.float64}:
        names = ", ".join(str(dtype) for dtype in wanted)
        raise ValueError(
            f"clouds must be of the model's numbers, {names}, and single or double; got {points.dtype}: "
            "convert them with points.float()"
        )
    if 0 in points.shape:
        raise ValueError(f"clouds must have at least one cloud and one point; got {tuple(points.shape)}")
    bad = ~(points.abs() <= FARTHEST).all(dim=-1)
    if bad.any():
        raise ValueError(
            f"coordinates must be finite; got {int(bad.sum())} points with NaN, infinite or far too large "
            f"ones in {int(bad.any(dim=1).sum())} of {len(points)} clouds: remove these points first"
        )
    width = (points.amax(dim=1) - points.amin(dim=1)).amax(dim=1)
    if ((width > 0) & (width < NARROWEST)).any():
        raise ValueError(
            f"clouds must be at least {NARROWEST:g} wide; got {width.min().item():g}: bring them into the "
            "model's frame with pg.prepare(cloud, model)"
        )
    _check_distinct(points, getattr(model, "group_size", 1))


def _check_distinct(points: Tensor, least: int) -> None:
    """Refuse clouds of fewer distinct points than a patch has."""
    if least < 2:
        return
    # A few points spread over the cloud show it as a rule; all are looked at where they do not.
    some = points[:, :: max(points.shape[1] // (4 * least), 1)]
    doubtful = (_distinct(some) < least).nonzero().flatten().tolist()
    for cloud in doubtful:
        if (count := len(points[cloud].unique(dim=0))) < least:
            raise ValueError(
                f"a cloud needs at least {least} distinct points, as a patch has; cloud {cloud} has {count}"
            )


def _distinct(points: Tensor) -> Tensor:
    """How many different points each cloud has, at least: those that agree in a weighted sum count as one."""
    keys = (points * points.new_tensor([1.0, 1.6180339887, 2.7182818284])).sum(dim=-1).sort(dim=1).values
    return 1 + (keys[:, 1:] != keys[:, :-1]).sum(dim=1)
