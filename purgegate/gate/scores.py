"""How far each token lies from the source domain."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def standardise(x: Float[Tensor, "B G D"]) -> Float[Tensor, "B G D"]:
    """Each token with mean 0 and (unbiased) standard deviation 1 over its channels."""
    return (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + 1e-6)


def source_distance(
    x: Float[Tensor, "B G D"], mean: Float[Tensor, " D"], std: Float[Tensor, " D"]
) -> Float[Tensor, "B G"]:
    """Mahalanobis distance to the source tokens, with a diagonal covariance (PG-SP)."""
    return ((x - mean) / std).norm(dim=-1)


def class_distance(query: Float[Tensor, " D"], keys: Float[Tensor, "B G D"]) -> Float[Tensor, "B G"]:
    """Cosine distance of each token's key to the class token's query (PG-SF)."""
    return 1 - F.cosine_similarity(keys, query, dim=-1)
