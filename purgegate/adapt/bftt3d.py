"""BFTT3D (Wang et al., CVPR 2024): source logits fused with the vote of prototypes, domains aligned."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from scipy.linalg import eigh
from torch import Tensor

from purgegate.adapt.base import Method
from purgegate.adapt.options import describe_option
from purgegate.adapt.pointnn import PointNN
from purgegate.fingerprints import array_fingerprint
from purgegate.gate.purge import entropy
from purgegate.io.datasets import Dataset
from purgegate.norms import Norm
from purgegate.points.patches import check_clouds
from purgegate.points.sampling import resample

Remembering = Callable[[int, int], None]  # source clouds remembered, and how many there are


class Memory(NamedTuple):
    """Prototypes of the source: features of unit length, and their classes."""

    features: Float[Tensor, "m F"]
    label: Int64[Tensor, " m"]
    made: str = ""  # from which source clouds

    def described(self) -> str:
        """What a row of results says of them."""
        return self.made or array_fingerprint(self.features.numpy(), self.label.numpy())[:16]


@runtime_checkable
class Prototypes(Protocol):
    """A memory that is made, or read, when it is first needed."""

    def described(self) -> str:
        """What a row of results says of it, before it is there."""

    def is_made(self) -> bool:
        """Whether it need only be read."""

    def memory(self, advance: Remembering = ...) -> Memory:
        """The memory itself."""


class Vote(NamedTuple):
    """How an answer came about, stage by stage."""

    similarity: Float[Tensor, "B m"]  # of aligned features
    votes: Float[Tensor, "B C"]
    source: Float[Tensor, "B C"]
    share: Float[Tensor, ""]  # of the source logits in the answer
    logits: Float[Tensor, "B C"]


class BFTT3D(Method):
    """A frozen model and a network without parameters; the more certain on a batch has the more weight.

    `source` are labelled source clouds, a data set or (points, label), from which prototypes are made once;
    or a `Memory` that was made before, or what makes one when it is
    needed. Every batch is aligned with the memory by itself.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        source: Dataset | Memory | Prototypes | tuple[Any, Any] | None = None,
        encoder: PointNN | None = None,
        width: int = 200,
        gamma: float = 205.0,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        if source is None:
            raise ValueError(
                "bftt3d needs labelled source clouds: give source=, a data set such as "
                'load_dataset("modelnet40", split="train"), or (points, label)'
            )
        super().__init__(model, norm=norm, seed=seed)
        self.encoder = encoder or PointNN(points=getattr(model, "points", 1024))
        self.width, self.gamma, self._given_source = width, gamma, source
        if not isinstance(source, Prototypes):
            self.memory  # noqa: B018 (a source that cannot be is refused at once)

    @cached_property
    def memory(self) -> Memory:
        """The prototypes, made from the source when first asked for."""
        source: Any = self._given_source
        if isinstance(source, Prototypes):
            source = source.memory()
        memory = source if isinstance(source, Memory) else remember(*source[:2], encoder=self.encoder)
        if memory.features.shape[1] != self.encoder.features:
            raise ValueError(
                f"the memory must have the width of the encoder, {self.encoder.features}; "
                f"got {memory.features.shape[1]}: make it with remember(..., encoder=encoder)"
            )
        return memory

    def get_ready(self, advance: Remembering) -> None:
        """Have the prototypes made, where they are kept, before there is a clock or a second process."""
        if isinstance(self._given_source, Prototypes):
            self._given_source.memory(advance)

    def is_ready(self) -> bool:
        """Whether nothing has to be made."""
        return not isinstance(self._given_source, Prototypes) or self._given_source.is_made()

    def known_source(self) -> Memory:
        """What stands for the source where its clouds are not at hand."""
        return self.memory

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Fused logits."""
        return self.vote(points, self.logits(points)).logits

    def vote(self, points: Tensor, source: Float[Tensor, "B C"]) -> Vote:
        """The vote of the prototypes, and its fusion with the logits of the source model."""
        features, classes = F.normalize(self.encoder(points)), source.shape[1]
        if self.memory.label.max() >= classes:
            raise ValueError(
                f"labels of the source clouds must lie in [0, {classes}), the model's classes; "
                f"got {int(self.memory.label.max())}"
            )
        aligned, prototypes = align(features, self.memory.features.to(features), width=self.width)
        similarity = aligned @ prototypes.T
        label = F.one_hot(self.memory.label.to(source.device), classes).to(source)
        votes = torch.exp(-self.gamma * (1 - similarity)) @ label
        share = source_share(source, votes)
        return Vote(similarity, votes, source, share, share * source + (1 - share) * votes)


def remember(
    points: Any,
    label: Any,
    *,
    encoder: PointNN,
    every: int = 4,
    least: int = 1,
    batch: int = 32,
    raw: bool = False,
    advance: Remembering = lambda done, total: None,
) -> Memory:
    """One in `every` of each class's clouds, those nearest to the mean of its features, `least` at least.

    Larger clouds are brought to the encoder's number of points by farthest point sampling; `raw` keeps all,
    as the released code does, which also keeps no cloud of a class with fewer than four (`least=0`).
    """
    points, label = torch.as_tensor(points), torch.as_tensor(label)
    check_clouds(points)
    if label.shape != points.shape[:1] or label.is_floating_point() or (label < 0).any():
        raise ValueError(
            f"source clouds need one whole class number each, 0 or more; got {label.dtype} of shape "
            f"{tuple(label.shape)} for {len(points)} clouds, the least being {label.min()}"
        )
    features = []
    for part in points.split(batch):
        features.append(encoder(part if raw else resample(part, encoder.points)))
        advance(min(len(features) * batch, len(points)), len(points))
    memory = herd(F.normalize(torch.cat(features)), label.long(), every=every, least=least)
    usual = (every, least, raw) == (4, 1, False)
    return memory._replace(made=describe_option((points, label))) if usual else memory


def herd(
    features: Float[Tensor, "n F"], label: Int64[Tensor, " n"], *, every: int = 4, least: int = 1
) -> Memory:
    """Of each class, one in `every`: those nearest to its mean."""
    kept = []
    for number in label.unique():
        members = (label == number).nonzero().squeeze(1)
        distance = (features[members] - features[members].mean(dim=0)).square().sum(dim=1)
        kept.append(members[distance.argsort(stable=True)[: max(len(members) // every, least)]])
    index = torch.cat(kept)
    return Memory(features[index], label[index])


def align(
    target: Float[Tensor, "b F"], source: Float[Tensor, "m F"], *, width: int, damping: float = 1.0
) -> tuple[Float[Tensor, "b W"], Float[Tensor, "m W"]]:
    """Both domains along the directions that spread them most and part them least, at unit length.

    Transfer component analysis with a linear kernel. The published eigenproblem divides by the spread, which
    is singular for few samples; turned over it is symmetric and always well posed, with the same directions.
    """
    x = F.normalize(torch.cat([source, target])).double().cpu().numpy()
    gap = x[: len(source)].mean(axis=0) - x[len(source) :].mean(axis=0)
    parting = np.outer(gap, gap) / (1 / len(source) + 1 / len(target)) + damping * np.eye(len(gap))
    centred = x - x.mean(axis=0)
    values, directions = eigh(centred.T @ centred, parting)
    # Greatest first; where nothing is spread, directions are arbitrary, and left out.
    real = max(int((values > 1e-10 * values[-1]).sum()), 1)
    directions = directions[:, ::-1][:, : min(width, real)]
    z = torch.from_numpy(x @ (directions / np.linalg.norm(directions, axis=0))).to(target)
    z = F.normalize(z)
    return z[len(source) :], z[: len(source)]


def source_share(source: Float[Tensor, "B C"], votes: Float[Tensor, "B C"]) -> Float[Tensor, ""]:
    """The weight of the source logits: the greater, the less certain the votes are beside them."""
    own, other = (entropy(x).mean() + 1e-12 for x in (source, votes))
    return other / (own + other)
