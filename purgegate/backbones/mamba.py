"""The pre-norm Mamba block (Gu and Dao, 2023), with the names and sizes of PointMamba's."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.backbones.attention import DropPath
from purgegate.kernels.linear import Linear
from purgegate.kernels.scan import selective_scan

STATES = 16  # of each channel
EXPANSION = 2  # channels for each of the token's
KERNEL = 4  # places that the convolution sees
REDUCTION = 16  # of the token's width to that from which the steps are made
STEPS = 0.001, 0.1  # range of the first steps


class Mixer(nn.Module):
    """A short causal convolution and a selective scan, gated; each token sees those before it."""

    def __init__(self, width: int, *, depth: int) -> None:
        super().__init__()
        channels, rank = EXPANSION * width, math.ceil(width / REDUCTION)
        self.split = rank, STATES, STATES
        self.in_proj = Linear(width, 2 * channels, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, KERNEL, groups=channels)
        self.x_proj = Linear(channels, sum(self.split), bias=False)
        self.dt_proj = Linear(rank, channels)
        self.A_log = nn.Parameter(torch.arange(1.0, 1 + STATES).log().repeat(channels, 1))
        self.D = nn.Parameter(torch.ones(channels))
        self.out_proj = Linear(channels, width, bias=False)
        self._initialise(depth)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Each token as a mixture of those up to it."""
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(causal_convolution(u, *self.conv1d.parameters()))
        step, B, C = self.x_proj(u).split(self.split, dim=-1)
        delta = F.softplus(self.dt_proj(step))
        y = selective_scan(u, delta, A=-torch.exp(self.A_log), B=B, C=C, D=self.D)
        return self.out_proj(y * F.silu(gate))

    @torch.no_grad()
    def _initialise(self, depth: int) -> None:
        """Steps that differ from channel to channel, and branches that grow no wider with depth."""
        bound = self.dt_proj.in_features**-0.5
        self.dt_proj.weight.uniform_(-bound, bound)
        low, high = map(math.log, STEPS)
        steps = torch.empty_like(self.dt_proj.bias).uniform_(low, high).exp()
        self.dt_proj.bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # softplus gives the steps back
        self.out_proj.weight.div_(math.sqrt(depth))


class Block(nn.Module):
    """A mixer, normalised before and added after."""

    def __init__(self, width: int, *, depth: int, drop_path: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = Mixer(width, depth=depth)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The block's output for a sequence of tokens."""
        return x + self.drop_path(self.mixer(self.norm(x)))


class Trunk(nn.Module):
    """Blocks in a row and a last normalisation; positions are added once, before the first."""

    def __init__(self, width: int, *, depth: int, drop_path: float) -> None:
        super().__init__()
        rates = torch.linspace(0, drop_path, depth).tolist()
        self.layers = nn.ModuleList(Block(width, depth=depth, drop_path=rate) for rate in rates)
        self.norm_f = nn.LayerNorm(width)

    def forward(self, x: Float[Tensor, "B T D"], positions: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The tokens behind the last block, normalised."""
        x = x + positions
        for block in self.layers:
            x = block(x)
        return self.norm_f(x)


def causal_convolution(
    x: Float[Tensor, "B L E"], weight: Float[Tensor, "E 1 k"], bias: Float[Tensor, " E"]
) -> Float[Tensor, "B L E"]:
    """Each channel by itself, over the k places up to each; before the first there are zeros."""
    places, taps = x.shape[1], weight.squeeze(1).unbind(-1)
    padded = F.pad(x, (0, 0, len(taps) - 1, 0))
    # A sum of shifted copies: conv1d, which wants the channels first, is a tenth slower here.
    y = bias + padded[:, :places] * taps[0]
    for shift, tap in enumerate(taps[1:], start=1):
        y.addcmul_(padded[:, shift : shift + places], tap)
    return y
