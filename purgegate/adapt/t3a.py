"""T3A (Iwasawa and Matsuo, NeurIPS 2021): class templates re-estimated from confident test features."""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from purgegate.adapt.base import Method, dropping, positive_or_all, split_head
from purgegate.gate.purge import entropy
from purgegate.norms import Norm
from purgegate.pools import State, nest, unnest

FILTER_K = 20  # supports per class


class Supports(NamedTuple):
    """Features that stand for a class, the class each was taken for, and how uncertain that was."""

    features: Float[Tensor, "n W"]
    label: Int64[Tensor, " n"]
    entropy: Float[Tensor, " n"]


class Templates:
    """The directions of the classes, re-estimated from the most certain features so far."""

    def __init__(self, last: nn.Linear, *, filter_k: int | None, released: bool = False) -> None:
        self.last, self.filter_k, self.released = last, filter_k, released
        # The rows of the last layer are the first supports, each of the class that it predicts.
        self.rows = last.weight.detach().clone()
        self.supports = self._judged(self.rows)

    def state(self) -> State:
        """The supports, as tensors that nobody changes."""
        return dict(self.supports._asdict())

    def load_state(self, state: State) -> None:
        """Go on where `state` was called."""
        self.supports = Supports(*(state[name].to(self.rows.device) for name in Supports._fields))

    def answer(self, features: Float[Tensor, "B W"]) -> Float[Tensor, "B C"]:
        """Take the batch in, leave out what is uncertain, compare with the directions."""
        both = zip(self.supports, self._judged(features), strict=True)
        self.supports = self._most_certain(Supports(*(torch.cat(pair) for pair in both)))
        return features @ self._directions().T

    @torch.no_grad()
    def _judged(self, features: Float[Tensor, "n W"]) -> Supports:
        logits = self.last(features)
        return Supports(features, logits.argmax(dim=1), entropy(logits))

    def _most_certain(self, supports: Supports) -> Supports:
        """Supports by class, the most certain first, cut off at `filter_k`."""
        order = supports.entropy.argsort(stable=True)
        order = order[supports.label[order].argsort(stable=True)]
        label = supports.label[order]
        size = label.bincount(minlength=len(self.rows))
        rank = torch.arange(len(label), device=label.device) - (size.cumsum(0) - size)[label]
        if self.filter_k is not None:
            order = order[rank < self.filter_k]
        elif self.released:
            order = order[rank < size[label] - 1]
        return Supports(*(x[order] for x in supports))

    def _directions(self) -> Float[Tensor, "C W"]:
        """The direction of each class; one without supports keeps its row of the last layer."""
        sums = torch.zeros_like(self.rows)
        sums.index_add_(0, self.supports.label, F.normalize(self.supports.features))
        if not self.released:
            empty = self.supports.label.bincount(minlength=len(sums)) == 0
            sums = torch.where(empty[:, None], self.rows, sums)
        return F.normalize(sums)


class T3A(Method):
    """Per class, the `filter_k` most certain supports vote; None or "all" keeps all.

    `released` is the released code: "all" is the slice `[:-1]`, which drops the worst support of every class
    at every batch, and a class left without supports has no template. It ran with `norm="batch"` and
    `dropout=True`.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        filter_k: int | str | None = FILTER_K,
        released: bool = False,
        dropout: bool = False,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        self.filter_k = positive_or_all(filter_k, "filter_k")
        self.released, self.dropout, self.draws = released, dropout, dropout
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """No cloud seen: the classes are those of the last layer."""
        self.hidden, last = split_head(self.model, "t3a")
        self.templates = Templates(last, filter_k=self.filter_k, released=self.released)

    def state(self) -> State:
        """The supports of the classes too."""
        return super().state() | nest("templates", self.templates.state())

    def load_state(self, state: State) -> None:
        """The supports of the classes too."""
        super().load_state(state)
        self.templates.load_state(unnest("templates", state))

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Compare features with the directions of the classes."""
        with dropping(self.model, self.generator, active=self.dropout):
            features = self.hidden(self.model.encode(self.model.tokenize(points)))
        return self.templates.answer(features)
