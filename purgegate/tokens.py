"""Tokens, and the embedding that turns patches of points into them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from purgegate.kernels.linear import Linear, linear
from purgegate.kernels.pooling import linear_max, patch_max
from purgegate.norms import needs_batch, scale_and_shift

# Patches embedded at once without gradients: what lies between two layers stays in the cores' caches.
CHUNK = 256


class Tokens(NamedTuple):
    """Patch tokens of a batch of clouds; the class token is not among them."""

    features: Float[Tensor, "B G D"]
    positions: Float[Tensor, "B G D"]
    centers: Float[Tensor, "B G 3"]

    def keep(self, index: Int64[Tensor, "B m"]) -> "Tokens":
        """The tokens at these places, each with its own position and centre."""
        return Tokens(*(x.gather(1, index[..., None].expand(-1, -1, x.shape[-1])) for x in self))

    def placed(self) -> Float[Tensor, "B G D"]:
        """Features with their positions added: what the first block sees."""
        return self.features + self.positions


class PatchEmbed(nn.Module):
    """A small PointNet: each point is lifted, mixed with its patch's maximum, and pooled by maximum.

    The published layer concatenates the maximum to every point before the mixing product; here its half of
    the product is taken once a patch and added, which is the same sum. Parts keep their published names.
    """

    def __init__(self, width: int, *, widths: tuple[int, int, int]) -> None:
        super().__init__()
        lifted, widened, mixed = widths
        self.first_conv = nn.Sequential(
            Linear(3, lifted), nn.BatchNorm1d(lifted), nn.ReLU(inplace=True), Linear(lifted, widened)
        )
        self.second_conv = nn.Sequential(
            Linear(2 * widened, mixed),
            nn.BatchNorm1d(mixed),
            nn.ReLU(inplace=True),
            Linear(mixed, width),
        )

    def forward(self, patches: Float[Tensor, "B G K 3"]) -> Float[Tensor, "B G D"]:
        """One token a patch."""
        embed = self.embed_plainly if self.training or torch.is_grad_enabled() else self.embed_fused
        return embed(patches.flatten(0, 1)).unflatten(0, patches.shape[:2])

    def embed_plainly(self, patches: Float[Tensor, "P K 3"]) -> Float[Tensor, "P D"]:
        """Layer by layer, for gradients and for training."""
        size = patches.shape[1]
        x = self.first_conv(patches.flatten(0, 1)).unflatten(0, (-1, size))
        x = self.second_conv[1:3](self._mix(x, patch_max(x)).flatten(0, 1)).unflatten(0, (-1, size))
        project: Any = self.second_conv[3]
        return linear_max(x, project.weight, project.bias)

    def embed_fused(self, patches: Float[Tensor, "P K 3"]) -> Float[Tensor, "P D"]:
        """Chunk by chunk, BatchNorm folded into its neighbours; equal to the plain way up to rounding."""
        layers: Any = (*self.first_conv, *self.second_conv)
        lift, lift_norm, _, widen, _, norm, _, project = layers
        count = patches.shape[0] * patches.shape[1]
        scale, shift = scale_and_shift(lift_norm, *_lifted_moments(lift, patches), count)
        weight, bias = lift.weight * scale[:, None], lift.bias * scale + shift
        mixed: Iterable[Tensor] = (
            self._mix(x, x.amax(dim=1))
            for part in patches.split(CHUNK)
            for x in [widen(linear(part, weight, bias).relu_())]
        )
        moments = norm.running_mean, norm.running_var
        if needs_batch(norm):
            mixed = list(mixed)
            moments = _moments(mixed)
        scale, shift = scale_and_shift(norm, *moments, count)
        tokens = [
            linear(torch.addcmul(shift, part, scale, out=part).relu_(), project.weight).amax(dim=1)
            for part in mixed
        ]
        return torch.cat(tokens) + project.bias

    def _mix(self, x: Float[Tensor, "P K W"], greatest: Float[Tensor, "P W"]) -> Float[Tensor, "P K M"]:
        mix: Any = self.second_conv[0]
        whole, own = mix.weight.chunk(2, dim=1)
        return linear(x, own).add_(linear(greatest, whole, mix.bias)[:, None])


def _lifted_moments(
    lift: nn.Linear, patches: Float[Tensor, "P K 3"]
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Mean and variance a channel behind a linear layer of three coordinates, from the moments of those."""
    points, weight = patches.flatten(0, 1).double(), lift.weight.double()
    center = points.mean(dim=0)
    spread = (points - center).T @ (points - center) / len(points)
    var = ((weight @ spread) * weight).sum(dim=1)
    return (weight @ center + lift.bias).to(patches), var.to(patches)


def _moments(parts: list[Float[Tensor, "_ K M"]]) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Mean and variance a channel over all parts, from those of blocks."""
    # BatchNorm's own reduction is twenty times faster than torch.var_mean on a CPU, but adds plainly in
    # float32: over blocks of this size it keeps seven digits.
    blocks = [block for part in parts for block in part.flatten(0, 1).split(1024)]
    moments = [torch.batch_norm_update_stats(block, None, None, 0.0) for block in blocks]
    mean, var = (torch.stack(x).double() for x in zip(*moments, strict=True))
    counts = torch.tensor([len(block) for block in blocks], device=mean.device).double()
    share = (counts / counts.sum())[:, None]
    center = (share * mean).sum(dim=0)
    var = (share * (var + (mean - center) ** 2)).sum(dim=0)
    return center.to(parts[0]), var.to(parts[0])
