"""The pre-norm transformer block of Point-MAE."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.kernels.linear import Linear


class Attention(nn.Module):
    """Multi-head self-attention without bias on queries, keys and values."""

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width, bias=False)
        self.proj = Linear(width, width)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Each token as a mixture of all."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Perceptron(nn.Module):
    """Two layers, four times as wide between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = Linear(width, 4 * width)
        self.fc2 = Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Each token by itself."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """Attention, then a perceptron, each normalised before and added after."""

    def __init__(self, width: int, *, heads: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads=heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The block's output for tokens with their positions added."""
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class DropPath(nn.Module):
    """In training, leave the branch out for a random part of the clouds (stochastic depth)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The branch, dropped and rescaled in training, whole otherwise."""
        if not self.training or self.rate == 0:
            return x
        kept = x.new_empty(len(x), 1, 1).bernoulli_(1 - self.rate)
        return x * kept / (1 - self.rate)


class Trunk(nn.Module):
    """Blocks in a row; positions are added again before each of them."""

    def __init__(self, width: int, *, depth: int, heads: int, drop_path: float) -> None:
        super().__init__()
        rates = torch.linspace(0, drop_path, depth).tolist()
        self.blocks = nn.ModuleList(Block(width, heads=heads, drop_path=rate) for rate in rates)

    def forward(self, x: Float[Tensor, "B T D"], positions: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The tokens behind the last block."""
        for block in self.blocks:
            x = block(x + positions)
        return x
