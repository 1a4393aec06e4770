"""Linear layers by oneDNN, with gradients and without."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from purgegate.kernels.products import NARROW, ONEDNN, PRECISIONS, Layout, Product, check_bfloat16, multiply

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
    """`nn.Linear` by `linear`; without gradients by products whose weights are laid out once."""

    precision = "float32"  # of products without gradients

    def __init__(self, columns: int, rows: int, bias: bool = True) -> None:
        super().__init__(columns, rows, bias=bias)
        self.layout = Layout()

    def forward(
        self, x: Float[Tensor, "*rows K"], *, gelu: bool = False, onto: Float[Tensor, "*rows D"] | None = None
    ) -> Float[Tensor, "*rows D"]:
        """Each row by itself, then GELU, then added to `onto`."""
        if not _learns(x, self.weight, self.bias, onto) and not torch.is_autocast_enabled("cpu"):
            return self.products()[0](x, gelu=gelu, onto=onto)
        y = linear(x.to(self.weight.dtype), self.weight, self.bias)
        y = F.gelu(y) if gelu else y
        return y if onto is None else onto + y

    def products(self, *, parts: int = 1) -> list[Product]:
        """The layer for inputs cut into equal parts, the bias with the first."""
        return self.layout.of(self.weight, self.bias, self.precision, parts)


def set_precision(model: nn.Module, precision: str) -> None:
    """Let the model's linear layers multiply in this precision wherever no gradient is wanted."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    if precision == "bfloat16" and not torch.cuda.is_available():  # the model may yet go to a GPU
        check_bfloat16(torch.device("cpu"))
    for layer in model.modules():
        if isinstance(layer, Linear):
            layer.precision = precision
    model.precision = precision  # type: ignore[assignment]


def linear(
    x: Float[Tensor, "*rows K"], weight: Float[Tensor, "D K"], bias: Float[Tensor, " D"] | None = None
) -> Float[Tensor, "*rows D"]:
    """`F.linear`, equal up to rounding and with its gradients, at up to twice its speed."""
    if not (ONEDNN and _suits(x) and _suits(weight)) or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if not _learns(x, weight, bias):
        return multiply(x, weight, bias)
    y = _Linear.apply(x.reshape(-1, x.shape[-1]), weight).view(*x.shape[:-1], -1)
    return y if bias is None else y + bias


def learned_product(x: Float[Tensor, "*rows K"], weight: Float[Tensor, "D K"]) -> Float[Tensor, "*rows D"]:
    """`linear` in the precision of learned products, for those who take care of the gradient themselves."""
    dtype = _learned.get()
    if dtype == torch.float32:
        return linear(x, weight)
    return multiply(x.to(dtype), weight.to(dtype)).float()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        dtype = _learned.get() if x.shape[1] > NARROW else x.dtype
        x, weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(x, weight)
        return multiply(x, weight).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x, to_weight = ctx.needs_input_grad
        grad = grad.to(x.dtype)
        return (
            multiply(grad, weight.contiguous().T).float() if to_x else None,
            multiply(grad.T, x.T).float() if to_weight else None,
        )


def _learns(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


def _suits(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > 0
