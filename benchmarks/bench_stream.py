"""Streams measured: one cloud at a time against batches, the alarm, unknown objects, and the picture.

    python benchmarks/bench_stream.py modelnet40_test.npz --data data/modelnet40-c accuracy
    python benchmarks/bench_stream.py modelnet40_test.npz alarm unknown picture

The accuracy is of the whole test set, and what was measured of it is kept and not measured again. All that is
compared with the reference of the bundled weights is of odd places, because the even ones are in it. Tables
and the picture are written to docs/results/stream, and tables also into docs/streams.md.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from purgegate.alarm import Alarm, Watch
from purgegate.evaluate import order_of
from purgegate.io.builder import chunks_of, corrupt_chunk, points_taken, scaled_sample
from purgegate.io.cells import Cell
from purgegate.io.labelled import Dataset
from purgegate.io.results import Row, append_rows, key_of, pack_answers, read_rows
from purgegate.reference import KNOWN, Witness

WEIGHTS = "point_mae_tiny.modelnet40"
OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "stream"
ROWS = OUT / "accuracy.jsonl"
DOMAINS = ("clean", "background", "rotation", "gaussian", "occlusion")
SEVERITIES = (1, 3, 5)
BEFORE, AFTER = 200, 800  # clouds of a stream before and after its change


class Way(NamedTuple):
    """How a stream is answered."""

    method: str
    batch: int
    order: str = "shuffled"


SOURCE, BATCHES, ALONE, SORTED = WAYS = (
    Way("source", 32),
    Way("pg_auto", 32),
    Way("pg_auto", 1),
    Way("pg_auto", 1, "sorted"),
)


def accuracy(data: Dataset, args: argparse.Namespace) -> list[str]:
    """One at a time, in batches of 32, and one at a time sorted by class; streams found in the rows stay."""
    place = np.sort(np.random.default_rng(0).permutation(len(data.label))[: args.clouds])
    rows = [
        f"| {len(place):,} clouds | source | batches of 32 | one at a time | sorted by class | unknown |",
        "|---|---|---|---|---|---|",
    ]
    for domain in DOMAINS:
        found = [stream_row(data, place, domain, way, args) for way in WAYS]
        cells = [f"{100 * row['correct'] / row['total']:.2f}" for row in found]
        unknown = found[WAYS.index(ALONE)]["unknown"]
        rows.append(f"| {domain} | {' | '.join(cells)} | {100 * unknown / (place % 2).sum():.1f} % |")
        print(rows[-1], flush=True)
    return rows


def stream_row(data: Dataset, place: np.ndarray, domain: str, way: Way, args: argparse.Namespace) -> Row:
    """What came of one stream: kept as a row beside the tables, or measured now."""
    stream = pg.Stream(pg.load_backbone(WEIGHTS), way.method)
    facts = {
        "method": way.method, "options": stream.adapter.options, "dataset": "modelnet40", "weights": WEIGHTS,
        "corruption": domain, "severity": 0 if domain == "clean" else 5, "seed": 0, "batch": way.batch,
        "order": way.order, "views": "prepared", "total": len(place),
    }  # fmt: skip
    kept = {key_of(row): row for row in read_rows(ROWS)}
    if key_of(facts) in kept:
        return kept[key_of(facts)]
    whole = data.points if domain == "clean" else np.load(args.data / f"data_{domain}_5.npy", mmap_mode="r")
    order = place[order_of(data.label[place], way.order, seed=0)]
    right, unknown, learned, rang = np.zeros(len(data.label), bool), 0, 0, None
    start = time.process_time()
    for first in range(0, len(order), way.batch):
        part = order[first : first + way.batch]
        for number, answer in zip(part, stream.push_many([np.array(whole[k]) for k in part]), strict=True):
            right[number] = answer.label == data.label[number]
            unknown += answer.unknown and number % 2  # the even ones are in the reference
            learned += answer.learned
            rang = answer.alarm.rang
    seconds = time.process_time() - start
    row = facts | {
        "correct": int(right.sum()),
        "answers": pack_answers(right[place]),
        "unknown": int(unknown),
    }
    append_rows(ROWS, [row | {"learned": learned, "rang": rang, "seconds": round(seconds, 1)}])
    return row


def entropies(witness: Witness, clouds: np.ndarray) -> np.ndarray:
    """Entropies of clouds under the source model."""
    parts = [clouds[start : start + 32] for start in range(0, len(clouds), 32)]
    seen = [witness(torch.cat([pg.prepare(cloud, witness.model) for cloud in part])) for part in parts]
    return torch.cat([each.entropy for each in seen]).numpy()


def rung(reference: pg.SourceReference, values: Iterable[float]) -> Alarm | None:
    """The alarm as it rings; None if it does not."""
    watch = Watch(reference.entropy.tolist())
    return next((watch.read() for value in values if watch.push(float(value))), None)


def off_by(places: Iterable[int | None]) -> str:
    """The median distance of these places from that of the change; those without a place are off the most."""
    middle = np.median([np.inf if place is None else abs(place - BEFORE - 1) for place in places])
    return f"{middle:.0f}" if np.isfinite(middle) else "–"


def alarm(data: Dataset, args: argparse.Namespace) -> list[str]:
    """False alarms on resampled clean streams; the delay after a change, and where it is placed."""
    model, generator = pg.load_backbone(WEIGHTS), np.random.default_rng(0)
    witness, reference = Witness(model), pg.SourceReference.from_weights(WEIGHTS)
    clean = entropies(witness, data.points[1::2])
    false = sum(rung(reference, generator.choice(clean, 1000)) is not None for _ in range(200))
    rows = [f"False alarms: {false} of 200 clean streams of 1,000 clouds, at alpha = 0.01.", ""]
    print(rows[0], flush=True)
    rows += [
        "| clouds until the alarm, median of 21 | severity 1 | severity 3 | severity 5 | `since` is off by | "
        "`located` is off by |",
        "|---|---|---|---|---|---|",
    ]
    place = generator.choice(np.arange(1, len(data.label), 2), args.each, replace=False)
    for name in pg.CORRUPTIONS:
        cells = []
        for severity in SEVERITIES:
            values = entropies(witness, corrupted(data, place, name, severity))
            streams = [
                [*generator.choice(clean, BEFORE), *generator.choice(values, AFTER)] for _ in range(21)
            ]
            found = [rung(reference, each) for each in streams]
            middle = np.median([each.rang - BEFORE if each else np.inf for each in found])
            cells.append(f"{middle:.0f}" if np.isfinite(middle) else f"> {AFTER}")
        cells += [off_by(each and getattr(each, name) for each in found) for name in ("since", "located")]
        rows.append(f"| {name} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return rows


def corrupted(data: Dataset, place: np.ndarray, name: str, severity: int) -> np.ndarray:
    """Clouds of these places, corrupted as `purgegate corrupt` does it."""
    clean = scaled_sample(data.points[place], points_taken(name, 1024))
    meshes = [data.meshes[number] for number in place] if data.meshes is not None else None
    chunks = chunks_of(Cell(name, severity), clean, meshes, seed=0, up="z")
    return np.concatenate([corrupt_chunk(chunk) for chunk in chunks])


def unknown(data: Dataset, args: argparse.Namespace) -> list[str]:
    """AUROC of the novelty of objects of no known class against known ones, and the shares called unknown."""
    shapes = pg.load_dataset("shapes", split="test")
    names = np.array(data.classes)[data.label]
    known = np.isin(names, [*shapes.classes, "airplane"])
    odd = np.arange(len(data.label)) % 2 == 1
    others = (data.points[odd & ~known], "ModelNet40's other classes")
    cases = [
        ("point_mae_tiny.shapes", data.points[odd & known], "ModelNet40's same classes", *others),
        ("point_mae_tiny.shapes", shapes.points[1::2], "embedded shapes", *others),
    ]
    if args.scans:
        scans = np.load(args.scans, allow_pickle=False)
        foreign = scans["points"][scans["mn40_guess"] == ""].astype(np.float32)
        own = ("point_mae_tiny.modelnet40", data.points[odd], "ModelNet40")
        cases.append((*own, foreign, "scans of other household goods"))
    rows = [
        "| weights | known objects | unknown objects | AUROC | unknown called so | known called unknown |",
        "|---|---|---|---|---|---|",
    ]
    for weights, usual, text, foreign, other in cases:
        scores = [novelty(weights, points, args.each) for points in (usual, foreign)]
        share = [f"{100 * (each > KNOWN).mean():.0f} %" for each in scores]
        rows.append(f"| `{weights}` | {text} | {other} | {auroc(*scores):.3f} | {share[1]} | {share[0]} |")
        print(rows[-1], flush=True)
    return rows


def novelty(weights: str, points: np.ndarray, count: int) -> np.ndarray:
    """Novelty of some clouds, in a stream of their own."""
    some = points[np.random.default_rng(0).permutation(len(points))[:count]]
    stream = pg.Stream(pg.load_backbone(weights), alpha=None)
    return np.array([stream.push(cloud).novelty for cloud in some])


def auroc(low: np.ndarray, high: np.ndarray) -> float:
    """How often a value of the second kind is the greater; of equals, half."""
    above = (high[:, None] > low).mean() + (high[:, None] == low).mean() / 2
    return float(above)


def picture(data: Dataset, args: argparse.Namespace) -> list[str]:
    """Accuracy, shift and evidence along clean clouds, background noise, a tilt, and clean ones again."""
    generator = np.random.default_rng(1)
    parts = [("clean", 0), ("background", 5), ("rotation", 5), ("clean", 0)]
    stream, source = (
        pg.Stream(pg.load_backbone(WEIGHTS)),
        pg.Stream(pg.load_backbone(WEIGHTS), "source", alpha=None),
    )
    right: dict[str, list[bool]] = {"PG-Auto": [], "source": []}
    shift, evidence, rang = [], [], []
    for name, severity in parts:
        place = generator.choice(np.arange(1, len(data.label), 2), args.each, replace=False)
        clouds = data.points[place] if name == "clean" else corrupted(data, place, name, severity)
        for cloud, label in zip(clouds, data.label[place], strict=True):
            found = stream.push(cloud)
            right["PG-Auto"].append(found.label == label)
            right["source"].append(source.push(cloud).label == label)
            shift.append(found.shift)
            evidence.append(found.alarm.evidence)
            if found.alarm.rang == found.alarm.seen:
                rang.append((found.alarm, len(shift)))
        stream.acknowledge()
        print(name, {key: np.mean(each[-args.each :]) for key, each in right.items()}, flush=True)
    draw(right, np.array(shift), np.array(evidence), [at for _, at in rang], parts, args.each)
    return [f"- cloud {at}: {alarm.line()}" for alarm, at in rang]


def draw(right, shift, evidence, rang, parts, each) -> None:
    """The picture, from top to bottom: who is right, how far, how sure of a change."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    window = np.ones(40) / 40
    for name, values in right.items():
        style = {"color": "#44aa99"} if name == "PG-Auto" else {"color": "#7a7a7a", "linestyle": "--"}
        top.plot(np.arange(39, len(values)), 100 * np.convolve(values, window, "valid"), label=name, **style)
    top.set(ylabel="accuracy of the last 40, %", ylim=(0, 100))
    top.legend(loc="lower left", frameon=False)
    middle.plot(shift, ".", color="#999933", markersize=2)
    middle.axhline(1, color="#7a7a7a", linewidth=1)
    middle.set(ylabel="shift; 1 is usual", ylim=(0, None))
    bottom.plot(evidence, color="#332288")
    bottom.axhline(1, color="#cc3311", linewidth=1)
    for place in rang:
        bottom.axvline(place, color="#cc3311", linestyle=":")
    bottom.set(ylabel="evidence; 1 rings", xlabel="cloud")
    for number, (name, _) in enumerate(parts):
        top.text((number + 0.5) * each, 102, name, ha="center", va="bottom")
        for axis in (top, middle, bottom):
            axis.axvline(number * each, color="#cccccc", linewidth=0.8, zorder=0)
    figure.savefig(OUT / "stream.png", dpi=110)


def fill(part: str, text: str) -> None:
    """Put a result into the page, between its two marks."""
    page = OUT.parents[1] / "streams.md"
    before, _, rest = page.read_text().partition(f"<!-- {part} -->\n")
    page.write_text(f"{before}<!-- {part} -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}")


PARTS = {"accuracy": accuracy, "alarm": alarm, "unknown": unknown, "picture": picture}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clean", help="the clean test set, with its meshes beside it")
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--data", type=Path, help="folder of the corrupted set")
    parser.add_argument("--scans", type=Path, help="real scans with `mn40_guess`, for unknown objects")
    parser.add_argument("--clouds", type=int, default=10**9, help="of each domain, for the accuracy")
    parser.add_argument("--each", type=int, default=200, help="clouds of each kind, for the other parts")
    args = parser.parse_args()
    data = pg.load_dataset(args.clean, split="test")
    OUT.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        text = "\n".join(PARTS[part](data, args))
        print(text)
        (OUT / f"{part}.md").write_text(text + "\n")
        fill(part, text)


if __name__ == "__main__":
    main()
