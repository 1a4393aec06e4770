"""The selective scan of Mamba (Gu and Dao, 2023): a linear recurrence whose steps the input chooses.

Letters beside the glossary: L places in a sequence, E channels, n states a channel.

One compiled loop along the sequence is the fastest way that `benchmarks/bench_scan.py` measures on a CPU: the
states of a block of channels stay in the nearest cache. In torch each step moves all states through memory
several times, and a parallel scan (doubling) moves all steps' states log L times.
"""

import importlib.util
import math
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from purgegate.kernels.parallel import over_clouds
from purgegate.kernels.scan_compiled import BLOCK, scan, scan_backward


def selective_scan(
    u: Float[Tensor, "B L E"],
    delta: Float[Tensor, "B L E"],
    *,
    A: Float[Tensor, "E n"],
    B: Float[Tensor, "B L n"],
    C: Float[Tensor, "B L n"],
    D: Float[Tensor, " E"],
) -> Float[Tensor, "B L E"]:
    """y_t = C_t·h_t + D u_t, where h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t, and delta ≥ 0 ≥ A."""
    if u.dtype in (torch.float16, torch.bfloat16):  # the recurrence needs single precision
        A, B, C, D = A.float(), B.float(), C.float(), D.float()
        return selective_scan(u.float(), delta.float(), A=A, B=B, C=C, D=D).to(u.dtype)
    if u.is_cuda and importlib.util.find_spec("mamba_ssm"):
        return _on_cuda(u, delta, A, B, C, D)
    if u.device.type == "cpu" and u.dtype == torch.float32:
        return _CompiledScan.apply(u, delta, A, B, C, D)
    return selective_scan_reference(u, delta, A=A, B=B, C=C, D=D)


def selective_scan_reference(
    u: Float[Tensor, "B L E"],
    delta: Float[Tensor, "B L E"],
    *,
    A: Float[Tensor, "E n"],
    B: Float[Tensor, "B L n"],
    C: Float[Tensor, "B L n"],
    D: Float[Tensor, " E"],
) -> Float[Tensor, "B L E"]:
    """Plain torch version, step by step: the one for other devices, and what the compiled one must equal."""
    h, y = torch.zeros_like(A), []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * A)
        h = decay * h + (delta[:, t] * u[:, t])[:, :, None] * B[:, t, None]
        y.append((h * C[:, t, None]).sum(dim=-1))
    return torch.stack(y, dim=1) + D * u


def _on_cuda(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn  # type: ignore[import-not-found]

    u, delta, B, C = (x.transpose(1, 2).contiguous() for x in (u, delta, B, C))
    return selective_scan_fn(u, delta, A, B, C, D).transpose(1, 2)


class _CompiledScan(torch.autograd.Function):
    """The scan in float32 on all cores; its gradient runs it again, for states take more memory than time."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        u, delta, a, b, c, d = _prepare(*inputs)
        y = np.empty_like(u)
        over_clouds(partial(scan, a, d), u, delta, b, c, y)
        return torch.from_numpy(y)[..., : inputs[0].shape[-1]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        channels = gradient.shape[-1]
        u, delta, a, b, c, d = _prepare(*ctx.saved_tensors)
        grad_u, grad_delta, grad_b, grad_c = (np.zeros_like(x) for x in (u, delta, b, c))
        grad_a, grad_d = np.zeros((len(u), *a.shape), u.dtype), np.zeros((len(u), *d.shape), u.dtype)
        arrays = u, delta, b, c, _blocks(gradient), grad_u, grad_delta, grad_b, grad_c, grad_a, grad_d
        over_clouds(partial(scan_backward, a, d), *arrays)
        found = grad_u, grad_delta, grad_a.sum(axis=0), grad_b, grad_c, grad_d.sum(axis=0)
        of_u, of_delta, of_a, of_b, of_c, of_d = map(torch.from_numpy, found)
        return (
            of_u[..., :channels],
            of_delta[..., :channels],
            of_a[:, :channels].T,
            of_b,
            of_c,
            of_d[:channels],
        )


def _prepare(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> list[np.ndarray]:
    """The arrays of the compiled functions; A is in powers of two."""
    b, c = (x.detach().contiguous().numpy() for x in (B, C))
    return [_blocks(u), _blocks(delta), _blocks(A.T / math.log(2)), b, c, _blocks(D)]


def _blocks(x: Tensor) -> np.ndarray:
    """Channels last, with idle ones behind them where a block would not be full."""
    idle = -x.shape[-1] % BLOCK
    return (F.pad(x.detach(), (0, idle)) if idle else x.detach()).contiguous().numpy()
