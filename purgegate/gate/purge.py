"""Which tokens stay, and which answer is taken."""

from jaxtyping import Float, Int64
from torch import Tensor


def survivors(scores: Float[Tensor, "B G"], size: int) -> Int64[Tensor, "B m"]:
    """Indices of all but the `size` tokens of greatest score, in their original order."""
    groups = scores.shape[1]
    if not 0 <= size < groups:
        raise ValueError(f"purge sizes must lie in [0, {groups}), the number of tokens; got {size}")
    return scores.argsort(dim=1, stable=True)[:, : groups - size].sort(dim=1).values


def entropy(logits: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch"]:
    """Entropy of the softmax, in nats."""
    log_p = logits.log_softmax(dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def most_certain(candidates: Float[Tensor, "B S C"]) -> Int64[Tensor, " B"]:
    """Which of the S answers of each cloud has the least entropy; the first on ties."""
    return entropy(candidates).argmin(dim=1)
