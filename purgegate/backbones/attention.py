"""The pre-norm transformer block of Point-MAE."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.kernels.linear import Linear

Sizes = Sequence[tuple[int, int]]  # clouds and tokens of each batch whose rows lie behind one another

# Rows that go through all blocks at once without gradients: what lies between two layers stays in the caches,
# and is memory that was just freed, where larger tensors would be new to the process every time.
ROWS = 1040


class Attention(nn.Module):
    """Multi-head self-attention without bias on queries, keys and values."""

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width, bias=False)
        self.proj = Linear(width, width)

    def forward(
        self,
        x: Float[Tensor, "*rows D"],
        *,
        onto: Float[Tensor, "*rows D"] | None = None,
        sizes: Sizes | None = None,
    ) -> Float[Tensor, "*rows D"]:
        """Each token as a mixture of all of its cloud, added to `onto`; `sizes` cut rows into batches."""
        if sizes is None:
            mixed = self._attend(self.qkv(x))
        else:
            parts = self.qkv(x).split([clouds * tokens for clouds, tokens in sizes])
            batches = [part.unflatten(0, size) for part, size in zip(parts, sizes, strict=True)]
            mixed = torch.cat([self._attend(batch).flatten(0, 1) for batch in batches])
        return self.proj(mixed, onto=onto)

    def _attend(self, qkv: Float[Tensor, "B T E"]) -> Float[Tensor, "B T D"]:
        query, key, value = qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


class Perceptron(nn.Module):
    """Two layers, four times as wide between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = Linear(width, 4 * width)
        self.fc2 = Linear(4 * width, width)

    def forward(
        self, x: Float[Tensor, "*rows D"], *, onto: Float[Tensor, "*rows D"] | None = None
    ) -> Float[Tensor, "*rows D"]:
        """Each token by itself, added to `onto`."""
        return self.fc2(self.fc1(x, gelu=True), onto=onto)


class Block(nn.Module):
    """Attention, then a perceptron, each normalised before and added after."""

    def __init__(self, width: int, *, heads: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads=heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Float[Tensor, "*rows D"], sizes: Sizes | None = None) -> Float[Tensor, "*rows D"]:
        """The block's output for tokens with positions added: a batch, or rows of several of `sizes`."""
        if self.training:
            x = x + self.drop_path(self.attn(self.norm1(x)))
            return x + self.drop_path(self.mlp(self.norm2(x)))
        x = self.attn(self.norm1(x), onto=x, sizes=sizes)
        return self.mlp(self.norm2(x), onto=x)


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
        at_once = len(x) if torch.is_grad_enabled() or x.device.type != "cpu" else max(1, ROWS // x.shape[1])
        parts = zip(x.split(at_once), positions.split(at_once), strict=True)
        done = [self._through(*part) for part in parts]
        return torch.cat(done) if len(done) > 1 else done[0]

    def packed(
        self, x: Float[Tensor, "R D"], positions: Float[Tensor, "R D"], sizes: Sizes
    ) -> Float[Tensor, "R D"]:
        """The same for the rows of several batches that differ in their number of tokens."""
        return self._through(x, positions, sizes)

    def _through(
        self, x: Float[Tensor, "*rows D"], positions: Float[Tensor, "*rows D"], sizes: Sizes | None = None
    ) -> Float[Tensor, "*rows D"]:
        for block in self.blocks:
            x = block(x + positions, sizes)
        return x
