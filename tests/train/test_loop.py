"""Runs: what they keep, and that a broken one ends where an unbroken one does."""

import csv
import multiprocessing
import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from purgegate.gate.scores import standardise
from purgegate.norms import momentum
from purgegate.train.data import epoch_batches, random_subset, scale_and_shift, steps_in
from purgegate.train.export import rounded
from purgegate.train.loop import CHECKPOINT, LOG, accuracy, fit
from purgegate.train.schedule import Schedule, learning_rate, make_adamw
from tests.train.sets import box_model, examples, new_run

ALL = ("masked", "rotation", "skeleton")


class Killer:
    """Progress that ends its process in the middle of the second epoch, with no chance to tidy up."""

    def __init__(self) -> None:
        self.epoch = self.steps = 0

    def begin(self, epoch: int, *, epochs: int, steps: int) -> None:
        self.epoch, self.steps = epoch, 0

    def step(self, loss: float, accuracy: float) -> None:
        self.steps += 1
        if (self.epoch, self.steps) == (2, 2):
            os.kill(os.getpid(), signal.SIGKILL)

    def end(self, row: dict[str, int | float]) -> None: ...


def train_until_killed(out: Path) -> None:
    torch.set_num_threads(1)
    fit(new_run(objectives=ALL), examples(), out=out, progress=Killer())


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_a_run_killed_in_an_epoch_and_resumed_ends_where_an_unbroken_one_does(tmp_path):
    process = multiprocessing.get_context("spawn").Process(
        target=train_until_killed, args=(tmp_path / "broken",)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    resumed, unbroken = new_run(objectives=ALL), new_run(objectives=ALL)
    fit(resumed, examples(), out=tmp_path / "broken")
    fit(unbroken, examples(), out=tmp_path / "unbroken")
    assert len(unbroken.rows) == len(resumed.rows) == 3
    before, after = unbroken.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert torch.equal(resumed.moments.mean, unbroken.moments.mean)


def test_a_finished_run_is_not_trained_again(tmp_path):
    fit(new_run(), examples(), out=tmp_path)
    again = new_run()
    fit(again, examples(), out=tmp_path)
    assert [row["epoch"] for row in again.rows] == [1, 2, 3]
    assert again.moments.count > 0


def test_another_seed_gives_other_weights(tmp_path):
    runs = [new_run(seed=seed, epochs=1) for seed in (0, 1)]
    for run in runs:
        fit(run, examples(), out=tmp_path / str(run.schedule.seed))
    first, second = (run.model.cls_token for run in runs)
    assert not torch.equal(first, second)


def test_training_leaves_the_global_random_state_alone(tmp_path):
    before = torch.random.get_rng_state()
    fit(new_run(epochs=1), examples(), out=tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_small_model_learns_boxes(tmp_path):
    run = new_run(epochs=6, smoothing=0.0)
    before = accuracy(run.model, examples(30, seed=1))
    fit(run, examples(48), out=tmp_path, test=examples(30, seed=1))
    assert run.rows[-1]["loss"] < run.rows[0]["loss"]
    assert run.rows[-1]["test_accuracy"] > max(before, 0.8)


def test_the_log_has_one_row_an_epoch_and_all_losses(tmp_path):
    run = new_run(objectives=ALL, epochs=2)
    fit(run, examples(), out=tmp_path, test=examples(6, seed=1), test_every=2)
    with (tmp_path / LOG).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert [bool(row["test_accuracy"]) for row in rows] == [False, True]
    for row in rows:
        parts = sum(float(row[f"{name}_loss"]) for name in ("class", *ALL))
        assert float(row["loss"]) == pytest.approx(parts)
        assert float(row["seconds"]) > 0
        assert 0 <= float(row["train_accuracy"]) <= 1


def test_a_truncated_checkpoint_is_named(tmp_path):
    fit(new_run(epochs=1), examples(), out=tmp_path)
    whole = (tmp_path / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"checkpoint\.pth is not a whole checkpoint: remove it"):
        fit(new_run(epochs=1), examples(), out=tmp_path)


def test_a_run_of_another_recipe_is_not_resumed(tmp_path):
    fit(new_run(epochs=1), examples(), out=tmp_path)
    with pytest.raises(ValueError, match="belongs to a run with another seed, lr"):
        fit(new_run(epochs=1, lr=1e-4, seed=1), examples(), out=tmp_path)


@pytest.mark.parametrize("name", ["model", "data"])
def test_a_run_of_another_model_or_other_clouds_is_not_resumed(tmp_path, name: str):
    first, other = new_run(epochs=1), new_run(epochs=1)
    fit(first, examples(), out=tmp_path)
    other.facts[name] = "another"
    with pytest.raises(ValueError, match=f"belongs to a run with another {name}"):
        fit(other, examples(), out=tmp_path)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    run = new_run()
    with torch.no_grad():
        run.model.cls_token.fill_(torch.nan)
    with pytest.raises(ValueError, match="the loss became nan: lower the learning rate"):
        fit(run, examples(), out=tmp_path)


def test_gathered_statistics_are_those_of_clean_tokens_at_the_end_of_the_last_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr("purgegate.train.loop.momentum", lambda model, value: momentum(model, 0.0))
    run = new_run(epochs=2, batch=4, lr=1e-12, augment=True)  # weights stand still
    data = examples(32)
    fit(run, data, out=tmp_path)
    batches = list(epoch_batches(data, 1, seed=0, batch=4, points=64, augment=True))
    with torch.no_grad():
        tokens = torch.cat([standardise(run.model.tokenize(batch.clean).placed()) for batch in batches[-2:]])
    torch.testing.assert_close(
        run.moments.mean.float(), tokens.flatten(0, 1).mean(dim=0), atol=1e-4, rtol=1e-3
    )
    assert run.moments.count == 8 * run.model.groups


def test_running_statistics_come_to_rest_with_the_weights(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "purgegate.train.loop.momentum", lambda model, value: asked.append(value) or momentum(model, value)
    )
    run = new_run(epochs=20, batch=4)
    fit(run, examples(16), out=tmp_path)
    assert asked[0] == 1
    assert all(before >= after for before, after in pairwise(asked[10:]))
    assert asked[-1] == pytest.approx(1 / len(asked))
    layers = [layer for layer in run.model.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    assert {layer.momentum for layer in layers} == {0.1}


def test_a_run_of_single_steps_still_gathers(tmp_path):
    run = new_run(epochs=2, batch=32)
    fit(run, examples(), out=tmp_path)
    assert run.moments.count == 18 * run.model.groups


def test_rounding_twice_is_rounding_once():
    once = rounded(box_model())
    twice = rounded(once).state_dict()
    assert all(torch.equal(value, twice[key]) for key, value in once.state_dict().items())


def test_every_cloud_comes_once_an_epoch_and_no_batch_holds_one():
    data = examples(17)
    for batch in (4, 8, 16):
        batches = list(epoch_batches(data, 0, seed=0, batch=batch, points=64, augment=False))
        assert len(batches) == steps_in(data, batch)
        assert min(len(part.label) for part in batches) > 1
        assert sorted(torch.cat([part.label for part in batches]).tolist()) == sorted(data.label.tolist())


def test_the_same_epoch_gives_the_same_batches_and_another_gives_others():
    first, same, other = (
        next(epoch_batches(examples(), epoch, seed=3, batch=8, points=64, augment=True))
        for epoch in (0, 0, 1)
    )
    assert torch.equal(first.points, same.points)
    assert not torch.equal(first.points, other.points)


def test_a_subset_repeats_no_point_unless_it_must():
    points = torch.arange(10.0)[None, :, None].expand(1, 10, 3)
    part = random_subset(points, 6, np.random.default_rng(0))
    assert len(part[0, :, 0].unique()) == 6
    whole = random_subset(points, 25, np.random.default_rng(0))
    assert whole[0, :, 0].unique().tolist() == list(range(10))


def test_scale_and_shift_stay_in_their_bounds():
    ends = torch.tensor([[[0.0, 0, 0], [1, 1, 1]]]).expand(500, 2, 3)
    moved = scale_and_shift(ends, np.random.default_rng(0))
    shift, scale = moved[:, 0], moved[:, 1] - moved[:, 0]
    assert -0.2 <= shift.min() < -0.19
    assert 0.19 < shift.max() <= 0.2
    assert 2 / 3 <= scale.min() < 0.68
    assert 1.48 < scale.max() <= 1.5


def test_the_learning_rate_rises_and_then_falls_to_the_floor():
    schedule = Schedule(epochs=4, lr=0.1, floor=0.001, warmup=1.0)
    rates = [learning_rate(schedule, step, steps=40) for step in range(40)]
    assert rates[9] == pytest.approx(0.1)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[0] == pytest.approx(0.01)
    assert rates[-1] == pytest.approx(0.001)


def test_vectors_and_tokens_do_not_decay():
    model = box_model()
    decayed, free = make_adamw(model, lr=0.1, weight_decay=0.05).param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.05, 0.0)
    ids = {id(parameter) for parameter in free["params"]}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in ids}
    assert {
        "cls_token",
        "cls_pos",
        "norm.weight",
        "class_head.0.bias",
        "auxiliary.masked.mask_token",
    } <= names
    assert all(parameter.ndim > 1 for parameter in decayed["params"])
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("batch", 1), ("lr", 0.0), ("pool", -1)])
def test_a_recipe_that_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        Schedule(**{"epochs": 1, name: value})
