"""Products with fixed weights by oneDNN: weights laid out once, what follows fused in, float32 or bfloat16.

On processors of AMD oneDNN uses the whole of AVX-512, of which MKL uses half.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# The operator that compiled models of torch call; elsewhere than with AVX-512 it has nothing to gain.
ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)

# Products of fewer columns stay in full precision: coordinates have more digits than bfloat16.
NARROW = 16

PRECISIONS = ("float32", "bfloat16")  # of products without gradients


class Product:
    """A linear layer's weights as products without gradients want them; it does not follow their changes."""

    def __init__(
        self,
        weight: Float[Tensor, "D K"],
        bias: Float[Tensor, " D"] | None = None,
        *,
        precision: str = "float32",
    ) -> None:
        self.lowered = precision == "bfloat16" and weight.shape[1] > NARROW
        if self.lowered:
            check_bfloat16(weight.device)
        self.dtype = torch.bfloat16 if self.lowered else weight.dtype
        weight = weight.detach().to(self.dtype)
        self.fused = (
            ONEDNN and weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
        )
        self.weight = _lay_out(weight) if self.fused else weight
        self.bias = None if bias is None else bias.detach().to(self.dtype)

    def __call__(
        self, x: Float[Tensor, "*rows K"], *, gelu: bool = False, onto: Float[Tensor, "*rows D"] | None = None
    ) -> Float[Tensor, "*rows D"]:
        """The product, then GELU, then added to `onto`; sums are taken in float32 in either precision.

        Behind GELU it stays in bfloat16, for the product that follows.
        """
        if x.numel() == 0:  # which oneDNN does not take
            return x.new_empty(*x.shape[:-1], len(self.weight))
        x = x.to(self.dtype)
        if not self.fused:
            y = F.linear(x, self.weight, self.bias)
            y = F.gelu(y) if gelu else y
        elif onto is not None and x.ndim > 1 and not (gelu or self.lowered):
            return torch.ops.mkldnn._linear_pointwise.binary(x, onto, self.weight, self.bias, "add")
        else:
            then, form = ("gelu", "none") if gelu else ("none", "")
            y = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, then, [], form)
        if self.lowered and not gelu:
            y = y.float()
        return y if onto is None else onto + y


class Layout:
    """The products of a layer's weights as they are now: shared by its twins, anew for its copies."""

    def __init__(self) -> None:
        self.kept: tuple[tuple, list[Product], list[Tensor]] | None = None

    def of(self, weight: Tensor, bias: Tensor | None, precision: str, parts: int) -> list[Product]:
        """Products of these weights cut into so many parts by their columns, laid out when they change."""
        own = [weight] if bias is None else [weight, bias]
        # Every write through torch counts a version up; one through NumPy or `.data` does not.
        key = parts, precision, *((each.data_ptr(), each._version) for each in own)
        kept = self.kept
        if kept is None or kept[0] != key:
            first, *others = weight.chunk(parts, dim=1)
            products = [Product(first, bias, precision=precision)]
            products += [Product(some, precision=precision) for some in others]
            # The weights are held too, so that no others can come to lie at their address.
            kept = self.kept = key, products, [each.detach() for each in own]
        return kept[1]

    def __reduce__(self) -> tuple[type["Layout"], tuple[()]]:
        return Layout, ()


def check_bfloat16(device: torch.device) -> None:
    """Refuse bfloat16 where it would be emulated, slower than float32."""
    if device.type == "cpu" and not (ONEDNN and torch.cpu._is_avx512_bf16_supported()):
        raise ValueError(
            "precision bfloat16 needs a processor with AVX-512 and its bf16 instructions; this one has none: "
            "use precision='float32', or a GPU"
        )
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ValueError("precision bfloat16 needs a GPU that has it: use precision='float32'")


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The rows of x times those of a weight that changes, which is laid out by rows or by columns."""
    # Any other layout, such as half of a wider weight, would be multiplied plainly: a thousand times slower.
    if not weight.T.is_contiguous():
        weight = weight.contiguous()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _lay_out(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
