"""Source statistics gathered while a model trained (variant b) against one pass over clean clouds (a).

    python benchmarks/compare_statistics.py point_mae_tiny.modelnet40 modelnet40_test.npz

Prints how far b lies from a, in mean and standard deviation, and the accuracy of PG-SP with each.
"""

import argparse

import numpy as np

import purgegate as pg
from purgegate.io.labelled import Dataset

POINTS = 1024


def corrupted(data: Dataset, name: str, *, severity: int) -> pg.Domain:
    """The data set under a corruption, every cloud drawn with its own number as seed."""
    clouds = [
        pg.corrupt(cloud[:POINTS], name, severity=severity, generator=np.random.default_rng(number))
        for number, cloud in enumerate(data.points)
    ]
    return pg.Domain(Dataset(np.stack(clouds), data.label, data.classes), corruption=name, severity=severity)


def distances(a: pg.SourceStatistics, b: pg.SourceStatistics) -> str:
    """Differences as shares: of the length of the mean vector, and of each standard deviation."""
    mean = ((a.mean - b.mean).norm() / a.mean.norm()).item()
    std = ((b.std - a.std) / a.std).abs()
    return f"mean {mean:.2%}; standard deviation {std.mean().item():.2%}, at most {std.max().item():.2%}"


def accuracies(weights: str, domain: pg.Domain, variants: dict[str, pg.SourceStatistics]) -> dict[str, float]:
    """Accuracy of PG-SP with each of the statistics."""
    model, found = pg.load_backbone(weights), {}
    for variant, statistics in variants.items():
        (row,) = pg.evaluate(pg.PurgeGate(model, pg.SourceDistance(statistics)), [domain])
        found[variant] = row["correct"] / row["total"]
    return found


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("data")
    parser.add_argument("--corruption", nargs="+", default=["uniform", "background"])
    parser.add_argument("--severity", type=int, default=5)
    options = parser.parse_args()
    variants = {v: pg.SourceStatistics.from_weights(options.weights, variant=v) for v in "ab"}
    print(f"{options.weights}: b differs from a by {distances(variants['a'], variants['b'])}")
    data = pg.load_dataset(options.data)
    for name in options.corruption:
        domain = corrupted(data, name, severity=options.severity)
        found = accuracies(options.weights, domain, variants)
        print(f"PG-SP on {name} {options.severity}: {found['a']:.2%} with a, {found['b']:.2%} with b")


if __name__ == "__main__":
    main()
