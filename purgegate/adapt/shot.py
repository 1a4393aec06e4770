"""SHOT (Liang et al., ICML 2020), online: certain and diverse answers that agree with their clusters."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.adapt.base import Method, affine_parameters, dropping, split_head
from purgegate.gate.purge import entropy
from purgegate.norms import Norm


class Shot(Method):
    """One step a batch on all but the last layer; the answer is the one before the step.

    Pseudo-labels come from the clusters of the batch and of the last `bank` features. The paper's released
    code is `diversity_only=True, lr=5e-3, weight_decay=0.5, dropout=True`: Adam on BatchNorm's scale and
    shift minimises the diversity term alone. `repeats` are steps a batch by part of the model; that code,
    asked for "shot", lists its parameters several times over: {"encoder": 6, "class_head": 4}.
    """

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 1e-4,
        weight_decay: float = 1e-3,
        beta: float = 0.3,
        bank: int = 1024,
        diversity_only: bool = False,
        repeats: Mapping[str, int] | None = None,
        dropout: bool = False,
        norm: Norm = "batch",
        seed: int = 0,
    ) -> None:
        if bank < 0:
            raise ValueError(f"bank must be at least 0, the number of features remembered; got {bank}")
        self.lr, self.weight_decay, self.beta, self.bank = lr, weight_decay, beta, bank
        self.diversity_only, self.repeats = diversity_only, repeats or {}
        self.dropout = self.draws = dropout
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """An empty bank, and new optimisers, one for each part of the model."""
        self.hidden, self.last = split_head(self.model, "shot")
        self.features, self.weights = torch.empty(0), torch.empty(0)
        if self.diversity_only:
            affine_parameters(self.model, "shot")
        self.last.requires_grad_(False)
        parts: dict[str, list[Tensor]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                parts.setdefault(name.split(".")[0], []).append(parameter)
        if unknown := self.repeats.keys() - parts.keys():
            raise ValueError(
                f"repeats must name parts that learn, {', '.join(parts)}; got {', '.join(sorted(unknown))}"
            )
        self.optimizers = {part: self._make_optimizer(parameters) for part, parameters in parts.items()}

    def _make_optimizer(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        if self.diversity_only:
            return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            parameters, lr=self.lr, momentum=0.9, nesterov=True, weight_decay=self.weight_decay
        )

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Predict, then learn from the prediction."""
        with dropping(self.model, self.generator, active=self.dropout):
            hidden = self.hidden(self.model.encode(self.model.tokenize(points)))
        logits = self.last(hidden)
        loss = -mean_entropy(logits)
        if not self.diversity_only:
            labels = self._pseudo_labels(hidden.detach(), logits.detach())
            loss = loss + entropy(logits).mean() + self.beta * F.cross_entropy(logits, labels)
        self.model.zero_grad(set_to_none=True)
        loss.backward()
        for part, optimizer in self.optimizers.items():
            for _ in range(self.repeats.get(part, 1)):
                optimizer.step()
        return logits

    def _pseudo_labels(
        self, hidden: Float[Tensor, "B W"], logits: Float[Tensor, "B C"]
    ) -> Int64[Tensor, " B"]:
        """Labels of the batch by clusters of the batch and the bank; the batch joins the bank."""
        features = F.normalize(F.pad(hidden, (0, 1), value=1.0))
        weights = logits.softmax(dim=1)
        if len(self.features):
            features, weights = torch.cat([self.features, features]), torch.cat([self.weights, weights])
        labels = cluster_labels(features, weights)[-len(hidden) :]
        kept = max(len(features) - self.bank, 0)
        self.features, self.weights = features[kept:], weights[kept:]
        return labels


def mean_entropy(logits: Float[Tensor, "B C"]) -> Float[Tensor, ""]:
    """Entropy of the mean prediction: great if the answers of a batch differ."""
    log_p = logits.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(logits))
    return -(log_p.exp() * log_p).sum()


def cluster_labels(features: Float[Tensor, "n W"], weights: Float[Tensor, "n C"]) -> Int64[Tensor, " n"]:
    """The nearest centroid of each feature of unit length, among the classes that any is predicted as."""
    classes = weights.argmax(dim=1).unique()
    labels = classes[_nearest(features, weights[:, classes])]
    hard = F.one_hot(labels, weights.shape[1])[:, classes].to(weights)
    return classes[_nearest(features, hard)]


def _nearest(features: Float[Tensor, "n W"], weights: Float[Tensor, "n c"]) -> Int64[Tensor, " n"]:
    """By cosine, the nearest of the centroids that the weights make; one without weight is left out."""
    centroids = F.normalize(weights.T @ features)
    similarity = features @ centroids.T
    return similarity.masked_fill(weights.sum(dim=0) == 0, -torch.inf).argmax(dim=1)
