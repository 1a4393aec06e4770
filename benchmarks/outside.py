"""pg_auto on what had no part in its design: damage outside the 15 corruptions, and streams of one class.

    python benchmarks/outside.py damage DATA.npz --clouds 400 --out docs/results/beyond2/outside.jsonl
    python benchmarks/outside.py classes DATA.npz --clouds 20 --out docs/results/beyond2/classes.jsonl

DATA.npz are labelled clean test clouds. Rows are appended to OUT, and those that it holds are not run again.
`purgegate table OUT` shows the first; the second ends with its own summary.
"""

import argparse
from collections.abc import Callable
from statistics import fmean

import numpy as np
import torch

import purgegate as pg
from purgegate.io.labelled import Dataset
from purgegate.points.transforms import turn_about
from purgegate.units import stratified

Damage = Callable[[np.ndarray, np.random.Generator], np.ndarray]

METHODS = (("source", {}), ("source_bn", {}), ("pg_auto", {"views": 1}), ("pg_auto", {}))
WEIGHTS = ("point_mae_tiny.modelnet40", "point_mae_tiny.modelnet40_plain", "point_mamba_tiny.modelnet40")


def pair(first: str, second: str) -> Damage:
    """One corruption of the 15 after another, at severity 4."""

    def damage(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        once = pg.corrupt(cloud, first, severity=4, generator=generator)
        return pg.corrupt(once, second, severity=4, generator=generator)

    return damage


def random_yaw(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Turned about the vertical by any angle."""
    return cloud @ turn_about(2, generator.uniform(0, 2 * np.pi)).T.astype(np.float32)


def anisotropic(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each axis scaled by a factor of its own, from a half to one and a half."""
    return cloud * generator.uniform(0.5, 1.5, 3).astype(np.float32)


def clustered_strays(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Three small dense clumps of 20 points each in the place of as many points: not one lies alone."""
    centers = generator.uniform(-1, 1, (3, 1, 3))
    clumps = (centers + generator.normal(0, 0.03, (3, 20, 3))).reshape(-1, 3)
    kept = generator.permutation(len(cloud))[60:]
    return np.concatenate([cloud[kept], clumps.astype(np.float32)])


def half_noise(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Gaussian noise of 0.05 on the points of one side."""
    direction = generator.normal(size=3)
    side = cloud @ direction > np.median(cloud @ direction)
    noisy = cloud.copy()
    noisy[side] += generator.normal(0, 0.05, (side.sum(), 3))
    return noisy.astype(np.float32)


def slab(cloud: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Only the points within a slab of a random direction: a third of the object is cut off on each side."""
    along = cloud @ generator.normal(size=3)
    low, high = np.quantile(along, [0.2, 0.8])
    return cloud[(along >= low) & (along <= high)]


DAMAGES: dict[str, Damage] = {
    "background, rotation": pair("background", "rotation"),
    "shear, gaussian": pair("shear", "gaussian"),
    "impulse, cutout": pair("impulse", "cutout"),
    "random yaw": random_yaw,
    "anisotropic scale": anisotropic,
    "clustered strays": clustered_strays,
    "noise on one half": half_noise,
    "slab": slab,
}
CHANGES = ("random yaw", "background, rotation", "clustered strays")  # a stream that changes twice


def damaged(data: Dataset, damage: Damage) -> np.ndarray:
    """Every cloud damaged by a generator of its own, all brought to the fewest points that any has."""
    made = [damage(cloud, np.random.default_rng([11, place])) for place, cloud in enumerate(data.points)]
    fewest = min(len(cloud) for cloud in made)
    draws = np.random.default_rng(12)
    return np.stack([cloud[draws.permutation(len(cloud))[:fewest]] for cloud in made]).astype(np.float32)


def domains_of(data: Dataset) -> list[tuple[pg.Domain, str]]:
    """Each damage as a domain, and the changing stream, with the order in which it is shown."""
    found = {name: damaged(data, damage) for name, damage in DAMAGES.items()}
    whole = [
        (pg.Domain(data._replace(points=points), "outside", name, 0), "shuffled")
        for name, points in found.items()
    ]
    fewest = min(found[name].shape[1] for name in CHANGES)
    order = np.random.default_rng(13).permutation(len(data.label))
    third = len(order) // len(CHANGES)
    points = np.concatenate(
        [
            found[name][order[place * third : (place + 1) * third], :fewest]
            for place, name in enumerate(CHANGES)
        ]
    )
    shown = data._replace(points=points, label=data.label[order[: len(points)]])
    return [*whole, (pg.Domain(shown, "outside", "changes twice", 0), "given")]


def run_damage(data: Dataset, out: str) -> None:
    """Every method on every damage, for each of the weights."""
    domains = domains_of(data)
    for weights in WEIGHTS:
        model = pg.load_backbone(weights)
        for name, options in METHODS:
            for domain, order in domains:
                adapter = pg.create_adapter(name, model, **options)
                (row,) = pg.evaluate(adapter, [domain], settings=pg.Settings(order=order), results=out)
                share = 100 * row["correct"] / row["total"]
                print(f"{weights:34} {domain.corruption:22} {name} {options or ''} {share:.2f}", flush=True)


def run_classes(data: Dataset, out: str, clouds: int) -> None:
    """Clean streams of one class each: what pg_auto loses against the source."""
    for weights in WEIGHTS:
        model, lost = pg.load_backbone(weights), {}
        for number, name in enumerate(data.classes):
            index = np.flatnonzero(data.label == number)[:clouds]
            part = data._replace(points=data.points[index], label=data.label[index])
            domain = pg.Domain(part, "one class", name, 0)
            source, auto = (
                pg.evaluate(pg.create_adapter(method, model), [domain], results=out)[0]["correct"]
                for method in ("source", "pg_auto")
            )
            lost[name] = 100 * (source - auto) / len(index)
        worst = sorted(lost.items(), key=lambda item: -item[1])[:3]
        print(f"{weights}: mean loss {fmean(lost.values()):.2f} points, worst {worst}", flush=True)


def main() -> None:
    """Read the data and run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["damage", "classes"])
    parser.add_argument("data")
    parser.add_argument("--clouds", type=int, default=400)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = pg.load_dataset(options.data)
    data = data._replace(points=data.points[:, :1024])
    if options.what == "classes":
        run_classes(data, options.out, options.clouds)
        return
    index = stratified(data.label, options.clouds)
    run_damage(data._replace(points=data.points[index], label=data.label[index]), options.out)


if __name__ == "__main__":
    main()
