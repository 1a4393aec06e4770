"""Linear layers by oneDNN: on processors of AMD it uses the whole of AVX-512, of which MKL uses half."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# The operator that compiled models of torch call; elsewhere than with AVX-512 it has nothing to gain.
ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)

# Learned products of fewer columns stay in full precision: coordinates have more digits than bfloat16.
NARROW = 16

_learned = ContextVar("learned", default=torch.float32)


@contextmanager
def learned_products_in(dtype: torch.dtype) -> Iterator[None]:
    """Products that a gradient goes through are taken in this precision for a while, sums in float32.

    Weights, activations and gradients stay float32 between the products.
    """
    if dtype == torch.bfloat16 and not (ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        raise ValueError("bfloat16 needs a processor with AVX-512: train with --precision float32")
    token = _learned.set(dtype)
    try:
        yield
    finally:
        _learned.reset(token)


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows D"]:
        """Each row by itself."""
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*rows K"], weight: Float[Tensor, "D K"], bias: Float[Tensor, " D"] | None = None
) -> Float[Tensor, "*rows D"]:
    """`F.linear`, equal up to rounding and with its gradients, at up to twice its speed."""
    if not (ONEDNN and _suits(x) and _suits(weight)) or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    learned = any(each.requires_grad for each in (x, weight, bias) if each is not None)
    if not (learned and torch.is_grad_enabled()):
        return _product(x, weight, bias)
    y = _Linear.apply(x.reshape(-1, x.shape[-1]), weight).view(*x.shape[:-1], -1)
    return y if bias is None else y + bias


def learned_product(x: Float[Tensor, "*rows K"], weight: Float[Tensor, "D K"]) -> Float[Tensor, "*rows D"]:
    """`linear` in the precision of learned products, for those who take care of the gradient themselves."""
    dtype = _learned.get()
    if dtype == torch.float32:
        return linear(x, weight)
    return _product(x.to(dtype), weight.to(dtype)).float()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        dtype = _learned.get() if x.shape[1] > NARROW else x.dtype
        x, weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(x, weight)
        return _product(x, weight).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x, to_weight = ctx.needs_input_grad
        grad = grad.to(x.dtype)
        return (
            _product(grad, weight.contiguous().T).float() if to_x else None,
            _product(grad.T, x.T).float() if to_weight else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The rows of x times those of a weight that is laid out by rows or by columns."""
    # Any other layout, such as half of a wider weight, would be multiplied plainly: a thousand times slower.
    if not weight.T.is_contiguous():
        weight = weight.contiguous()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _suits(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0
