"""Ways to say which tokens go and which purge size is right: the table of what was tried in docs/beyond.md.

    python benchmarks/explore_gate.py data/modelnet40-c --clean TEST.npz --source TRAIN.npz

Each gate forwards every batch once at all sizes, survivors' statistics throughout; the rules of choice then
share these forwards. Shapes are of the even half of the test set, so that the odd one is left to confirm on.
"""

import argparse
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

import purgegate as pg
from purgegate.adapt.controls import RandomPurge
from purgegate.adapt.pg_auto import AutoGate, center_isolation
from purgegate.gate.purge import entropy, most_certain, survivors
from purgegate.gate.scores import standardise
from purgegate.io.labelled import Dataset
from purgegate.norms import evaluating, statistics_from
from purgegate.points.repair.strays import replace_strays, strays
from purgegate.points.sampling import resample
from purgegate.units import stratified

SIZES = (0, 2, 4, 8, 16, 32, 48, 56)
NAMES = ("clean", "gaussian", "background", "impulse", "rotation", "density", "occlusion", "lidar")
ONE_LEVEL = 32
QUANTILES = (0.99, 0.999)
SEED = 0

Rule = Callable[[pg.Prediction, pg.Prediction], Tensor]  # what the gate found, and a random one, to logits


class Remembering:
    """A gate that forwards each batch once, however often it is asked."""

    def __init__(self, gate: Any, *, purge_points: bool = False) -> None:
        self.gate, self.purge_points = gate, purge_points
        self.known: dict[int, pg.Prediction] = {}

    def predict(self, points: Tensor) -> pg.Prediction:
        """What the gate found, now or before."""
        key = hash(points.numpy().tobytes())
        if key not in self.known:
            seen = replace_strays(points, strays(points)) if self.purge_points else points
            self.known[key] = self.gate.predict(seen)
        return self.known[key]


class Chosen:
    """One rule of choice among the answers of a gate."""

    def __init__(self, gate: Remembering, rule: Rule, *, drawn: Remembering) -> None:
        self.gate, self.rule, self.drawn, self.model = gate, rule, drawn, gate.gate.model

    def predict(self, points: Tensor) -> pg.Prediction:
        """The gate's finding with the rule's answer."""
        found = self.gate.predict(points)
        return found._replace(logits=self.rule(found, self.drawn.predict(points)))

    def reset(self) -> None:
        """Nothing to forget."""


class OneLevel(pg.PurgeGate):
    """The patch embedding under the statistics of the survivors at one purge size, for all sizes."""

    @torch.no_grad()
    def predict(self, points: Tensor) -> pg.Prediction:
        """Score under source statistics, embed once more, then finish the forward at every size."""
        model = deepcopy(self.model)
        with evaluating(model):
            centers, patches = model.cut(points)
            scores = self.score(model, model.embed(centers, patches))
            rows = torch.arange(len(points))[:, None]
            norms = [layer for layer in model.encoder.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
            for layer in norms:
                layer.momentum = 1.0
            model.encoder.train()(patches[rows, survivors(scores, ONE_LEVEL)])
            model.encoder.eval()
            tokens = model.embed(centers, patches)
            with statistics_from(model, "batch"):
                kept = [tokens.keep(survivors(scores, size)) for size in self.purge]
                candidates = torch.stack([model.head(model.encode(some)) for some in kept], dim=1)
        return pg.Prediction(
            *(candidates[:, 0], candidates, entropy(candidates)),
            *(torch.zeros(len(points)), scores, scores.mean(dim=1)),
        )


class NearOrFar:
    """Strays purged; then the source's statistics for a batch that lies near the source, else its own.

    Near is no farther than any batch of clean training clouds, by the mean distance of PG-SP.
    """

    def __init__(self, model: Any, score: Any, clouds: list[Tensor]) -> None:
        self.model = model
        first: dict[str, Any] = {"statistics": score.statistics, "stages": ("strays",), "views": 1}
        self.near, self.far = (AutoGate(model, norm=norm, **first) for norm in ("source", "batch"))
        self.limit = max(self.near.predict(part).shift.mean().item() for part in clouds)

    def predict(self, points: Tensor) -> pg.Prediction:
        """The one answer or the other, for the whole batch."""
        found = self.near.predict(points)
        return found if found.shift.mean() <= self.limit else self.far.predict(points)

    def reset(self) -> None:
        """Nothing to forget."""


class FullCovariance:
    """The Mahalanobis distance with all covariances of the source tokens, a little of the unit added.

    With a `rank`, variances beyond that many directions are taken for equal.
    """

    def __init__(self, model: Any, clouds: list[Tensor], *, rank: int | None = None) -> None:
        x = torch.cat([_tokens(model, part).flatten(0, 1) for part in clouds]).double()
        self.mean = x.mean(dim=0)
        covariance = torch.cov(x.T)
        if rank is not None:
            values, directions = torch.linalg.eigh(covariance)
            values[:-rank] = values[:-rank].mean()
            covariance = (directions * values) @ directions.T
        unit = torch.eye(len(covariance), dtype=torch.float64)
        self.precision = torch.linalg.inv(covariance + 1e-3 * covariance.diagonal().mean() * unit)

    def __call__(self, model: Any, tokens: pg.Tokens) -> Tensor:
        """Distance of each token."""
        x = standardise(tokens.placed()).double() - self.mean
        return ((x @ self.precision) * x).sum(dim=-1).sqrt().float()


@torch.no_grad()
def _tokens(model: Any, points: Tensor) -> Tensor:
    with evaluating(model):
        return standardise(model.tokenize(points).placed())


def at(found: pg.Prediction, chosen: Tensor) -> Tensor:
    """The answers at these places among the sizes."""
    return found.candidates[torch.arange(len(chosen)), chosen]


def least_of_batch(uncertainty: Tensor) -> Tensor:
    """One place for all clouds: that of the least mean."""
    return uncertainty.mean(dim=0).argmin().expand(len(uncertainty))


def longest_agreement(found: pg.Prediction, drawn: pg.Prediction) -> Tensor:
    """In the longest run of neighbouring sizes with one class, the answer that is most certain."""
    label = found.candidates.argmax(dim=-1)
    length = torch.ones_like(label)
    for place in range(1, label.shape[1]):
        length[:, place] += (label[:, place] == label[:, place - 1]) * length[:, place - 1]
    for place in reversed(range(label.shape[1] - 1)):
        same = label[:, place] == label[:, place + 1]
        length[:, place] = torch.where(same, length[:, place + 1], length[:, place])
    longest = length == length.amax(dim=1, keepdim=True)
    return at(found, found.entropy.masked_fill(~longest, float("inf")).argmin(dim=1))


def beyond_threshold(threshold: float) -> Rule:
    """As many tokens purged as lie beyond a threshold, rounded to a size that was tried: one forward."""

    def rule(found: pg.Prediction, drawn: pg.Prediction) -> Tensor:
        count = (found.scores > threshold).sum(dim=1, keepdim=True)
        return at(found, (torch.tensor(SIZES) - count).abs().argmin(dim=1))

    return rule


RULES: dict[str, Rule] = {
    "least entropy, cloud": lambda found, drawn: at(found, most_certain(found.candidates)),
    "least entropy, batch": lambda found, drawn: at(found, least_of_batch(found.entropy)),
    "longest agreement": longest_agreement,
    "mean of all sizes": lambda found, drawn: found.candidates.softmax(dim=-1).mean(dim=1).log(),
}
AGAINST_RANDOM: dict[str, Rule] = {
    "least below random's, cloud": lambda found, drawn: at(found, (found.entropy - drawn.entropy).argmin(1)),
    "least below random's, batch": lambda found, drawn: at(
        found, least_of_batch(found.entropy - drawn.entropy)
    ),
}


def make_domain(options: argparse.Namespace, name: str) -> pg.Domain:
    """Shapes of the even half, stratified by class, under a corruption."""
    clean = name == "clean"
    data = pg.load_dataset(options.clean) if clean else pg.load_corrupted(options.data, name, severity=5)
    even = Dataset(data.points[::2], data.label[::2], data.classes)
    index = stratified(even.label, options.shapes)
    return pg.Domain(Dataset(even.points[index], even.label[index], data.classes), corruption=name)


def source_quantiles(model: Any, score: Any, clouds: list[Tensor]) -> list[float]:
    """The source's own quantiles of a score, from clean training clouds."""
    with torch.no_grad(), evaluating(model):
        scores = torch.cat([score(model, model.tokenize(part)).flatten() for part in clouds])
    return scores.quantile(torch.tensor(QUANTILES)).tolist()


def make_rows(weights: str, source: str) -> dict[str, Any]:
    """Every adapter that is tried, by what the table calls it."""
    model: Any = pg.load_backbone(weights)
    train = pg.load_dataset(source, split="train")
    index = stratified(train.label, 400)
    clouds = list(resample(torch.from_numpy(train.points[index]), model.points).split(32))
    diagonal = pg.SourceDistance(pg.SourceStatistics.from_weights(weights))
    full = FullCovariance(model, clouds)
    scores: dict[str, Any] = {"PG-SP": diagonal, "all covariances": full, "centres": center_isolation}
    scores["16 directions"] = FullCovariance(model, clouds, rank=16)
    options: dict[str, Any] = {"purge": SIZES, "norm": "survivors"}
    drawn = Remembering(RandomPurge(model, **options, seed=SEED))
    gates = {name: Remembering(pg.PurgeGate(model, score, **options)) for name, score in scores.items()}
    gates["one size's statistics"] = Remembering(OneLevel(model, diagonal, purge=SIZES))
    gates["behind points"] = Remembering(gates["PG-SP"].gate, purge_points=True)
    scores["behind points"] = diagonal
    rows = {
        f"{name}: {title}": (gate, rule)
        for name, gate in gates.items()
        for title, rule in (RULES | (AGAINST_RANDOM if name in scores else {})).items()
    }
    rows |= {f"random: {title}": (drawn, rule) for title, rule in RULES.items()}
    for name, score in scores.items():
        for quantile, limit in zip(QUANTILES, source_quantiles(model, score, clouds), strict=True):
            rows[f"{name}: beyond the source's {quantile:.1%}"] = gates[name], beyond_threshold(limit)
    rows["nothing purged"] = gates["PG-SP"], lambda found, drawn: found.candidates[:, 0]
    tried: dict[str, Any] = {
        name: Chosen(gate, rule, drawn=drawn) for name, (gate, rule) in sorted(rows.items())
    }
    tried["near or far"] = NearOrFar(model, diagonal, clouds)
    return tried | {"pg_auto": pg.create_adapter("pg_auto", model)}


def main() -> None:
    """Try all and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder of corrupted clouds")
    parser.add_argument("--clean", required=True, help="the clean test clouds")
    parser.add_argument("--source", required=True, help="clean training clouds")
    parser.add_argument("--weights", default="point_mae_tiny.modelnet40_plain")
    parser.add_argument("--shapes", type=int, default=400)
    parser.add_argument("--only", default="", help="try only what has these letters in its name")
    options = parser.parse_args()
    tried = make_rows(options.weights, options.source)
    tried = {name: adapter for name, adapter in tried.items() if options.only in name}
    columns: dict[str, list[float]] = {name: [] for name in tried}
    for name in track(NAMES):
        domain = make_domain(options, name)
        for title, adapter in tried.items():
            (row,) = pg.evaluate(adapter, [domain], settings=pg.Settings(seed=SEED))
            columns[title].append(100 * row["correct"] / row["total"])
    print(f"| rule | {' | '.join(NAMES)} | mean |\n|{'---|' * (len(NAMES) + 2)}")
    for title, values in columns.items():
        print(f"| {title} | {' | '.join(f'{value:.1f}' for value in (*values, np.mean(values[1:])))} |")


if __name__ == "__main__":
    main()
