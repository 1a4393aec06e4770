"""Tokens, and the embedding that turns patches of points into them."""

from itertools import cycle
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from purgegate.kernels.linear import Linear, linear
from purgegate.kernels.pooling import linear_max, patch_max
from purgegate.memory import Room
from purgegate.norms import needs_batch, scale_and_shift

# Bytes of the widest layer that are embedded at once without gradients: they stay in the caches.
AT_ONCE = 2**22


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
        self.room = Room()

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
        lift, lift_norm, _, widen, mix, norm, _, project = layers
        count = patches.shape[0] * patches.shape[1]
        moments = _lifted_moments(lift, patches) if needs_batch(lift_norm) else _running(lift_norm)
        scale, shift = scale_and_shift(lift_norm, *moments, count)
        weight, bias = lift.weight * scale[:, None], lift.bias * scale + shift
        whole, own = mix.products(parts=2)
        size, width = patches.shape[1], mix.out_features
        chunk = min(len(patches), max(1, AT_ONCE // (4 * size * width)))
        late = needs_batch(norm)  # then all must be mixed before any can be normalised
        room = self.room.take((len(patches) if late else chunk) * size * width, like=patches)
        places = room.view(-1, size, width).split(chunk)
        mixing = (
            torch.add(own(x), whole(x.amax(dim=1))[:, None], out=place[: len(part)])
            for part, place in zip(patches.split(chunk), cycle(places), strict=False)
            for x in [widen(linear(part, weight, bias).relu_())]
        )
        mixed = list(mixing) if late else []
        scale, shift = scale_and_shift(norm, *(_moments(mixed) if late else _running(norm)), count)
        tokens = [
            project(torch.addcmul(shift, part, scale, out=part).relu_()).amax(dim=1)
            for part in mixed or mixing
        ]
        self.room.give_back(room)
        return torch.cat(tokens)

    def _mix(self, x: Float[Tensor, "P K W"], greatest: Float[Tensor, "P W"]) -> Float[Tensor, "P K M"]:
        mix: Any = self.second_conv[0]
        whole, own = mix.weight.chunk(2, dim=1)
        return linear(x, own).add_(linear(greatest, whole, mix.bias)[:, None])


def _running(norm: Any) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    return norm.running_mean, norm.running_var


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
