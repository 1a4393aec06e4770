"""An exported graph answers as its model: every batch, every number of tokens, every norm, every runtime."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import purgegate as pg
from purgegate.backbones.onnx import export_backbone
from purgegate.backbones.onnx.builder import Graph
from purgegate.backbones.onnx.curves import along_curves
from purgegate.backbones.onnx.runtimes import RUNTIMES
from purgegate.gate.statistics import SourceStatistics
from purgegate.norms import NORMS, blend_share, statistics_from
from purgegate.points.curves import MOST_BITS, curve_orders
from tests.models import clouds, small_mamba, small_model

MODELS = {"point_mae": small_model, "point_mamba": small_mamba}
SHARES = {"source": lambda clouds: 0.0, "batch": lambda clouds: 1.0, "blend": blend_share}
TOKENS = (8, 32, 64, 128)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Both models as files, with class names and statistics."""
    made = tmp_path_factory.mktemp("graphs")
    for name, make in MODELS.items():
        model = make()
        model.class_names = tuple("abcde")
        found = SourceStatistics.collect(model, [clouds(4, seed=9)])
        known = {"b": {"mean": found.mean.tolist(), "std": found.std.tolist(), "count": found.count}}
        assert export_backbone(model, made / f"{name}.onnx", metadata={"statistics": known}) < 1e-4
    return made


@pytest.fixture(params=MODELS)
def name(request) -> str:
    return request.param


@pytest.fixture(params=RUNTIMES)
def runtime(request) -> str:
    return request.param


def patches_of(batch: int, tokens: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Centres and patches, the same for the same sizes."""
    draw = torch.Generator().manual_seed(batch * tokens)
    centers = torch.rand(batch, tokens, 3, generator=draw) * 2 - 1
    return centers, (torch.rand(batch, tokens, size, 3, generator=draw) - 0.5) / 3


def test_one_file_serves_every_batch_number_of_tokens_and_share(folder, name, runtime):
    model = MODELS[name]()
    run = RUNTIMES[runtime]((folder / f"{name}.onnx").read_bytes())
    for batch, tokens, norm in product((1, 4, 33), TOKENS, SHARES):
        if batch == 1 and norm == "batch":
            continue  # which torch refuses: one cloud has no variance in the head
        centers, patches = patches_of(batch, tokens)
        share = np.array(SHARES[norm](batch), np.float32)
        found = run({"patches": patches.numpy(), "centers": centers.numpy(), "share": share})
        with torch.no_grad(), statistics_from(model, norm, clouds=batch):
            wanted = model.embed(centers, patches)
            feature = model.encode(wanted)
            logits = model.head(feature)
        # In the order of the file: logits, feature, features and positions of the tokens.
        for one, other in zip(found, (logits, feature, wanted.features, wanted.positions), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", [*NORMS, "survivors"])
def test_the_gate_answers_alike_on_a_graph(folder, name, runtime, norm):
    graph = pg.load_backbone(folder / f"{name}.onnx", runtime=runtime)
    score = pg.SourceDistance(SourceStatistics.from_weights(folder / f"{name}.onnx"))
    ours, theirs = (pg.PurgeGate(m, score, purge=(0, 2, 8), norm=norm) for m in (MODELS[name](), graph))
    for seed in range(2):  # a pool remembers the first batch
        wanted, found = (gate.predict(clouds(4, seed=seed)) for gate in (ours, theirs))
        torch.testing.assert_close(found.candidates, wanted.candidates, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found.scores, wanted.scores, rtol=1e-4, atol=1e-4)
        assert torch.equal(found.purge, wanted.purge)


@pytest.mark.parametrize("method", ["pg_auto", "pg_sf", "t3a", "source", "source_bn"])
def test_methods_that_write_no_weights_answer_alike_on_a_graph(folder, runtime, method):
    graph = pg.load_backbone(folder / "point_mae.onnx", runtime=runtime)
    options = {"purge": (0, 2, 8)} if method == "pg_sf" else {}
    models, points = (small_model(), graph), clouds(4)
    wanted, found = (pg.create_adapter(method, model, **options)(points) for model in models)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_method_that_writes_weights_is_refused(folder, name):
    graph = pg.load_backbone(folder / f"{name}.onnx")
    with pytest.raises(ValueError, match="cannot change those of an ONNX graph: load the weights"):
        pg.create_adapter("tent", graph)


def test_a_graph_says_what_its_model_is(folder, name):
    model, graph = MODELS[name](), pg.load_backbone(folder / f"{name}.onnx")
    for known in ("classes", "points", "groups", "group_size", "width", "config"):
        assert getattr(graph, known) == getattr(model, known)
    assert graph.class_names == tuple("abcde")
    statistics = SourceStatistics.from_weights(folder / f"{name}.onnx")
    assert statistics.fingerprint == pg.SourceStatistics.collect(model, [clouds(2)]).fingerprint
    statistics.check(graph)
    facts = {each.key: json.loads(each.value) for each in onnx.load(folder / f"{name}.onnx").metadata_props}
    assert (facts["backbone"], facts["precision"]) == (name, "float32")


def test_one_graph_serves_many_threads_and_methods(folder, name, runtime):
    graph = pg.load_backbone(folder / f"{name}.onnx", runtime=runtime)
    batches = [clouds(2, seed=seed) for seed in range(8)]
    answer = pg.create_adapter("source_bn", graph)
    assert answer.model.doors is graph.doors
    alone = [answer(points) for points in batches]
    with ThreadPoolExecutor(4) as threads:
        together = [*threads.map(lambda points: pg.create_adapter("source_bn", graph)(points), batches)]
    torch.testing.assert_close(together, alone)


def hostile_centers() -> torch.Tensor:
    """On the edges of cells, in one cell, in clouds far wider than the others."""
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(-50, 50, (1, 24, 3), generator=draw) * 0.02
    near = torch.rand(1, 24, 3, generator=draw)
    return torch.cat([edges, edges * 0.5, near, near * 1e-3, near * 10, near * 1e4, near * 1e6])


def test_tokens_come_in_the_order_of_the_curves(runtime):
    centers = hostile_centers()
    for bits in (1, 5, 7, 12, MOST_BITS):
        g = Graph()
        names = {"centers": ("B", "G", 3)}, {along_curves(g, "centers", bits=bits): (2, "B", "G", "G")}
        matrix = RUNTIMES[runtime](g.model(*names, {}).SerializeToString())({"centers": centers.numpy()})[0]
        wanted = torch.stack(curve_orders(centers, bits=bits))
        assert torch.equal(torch.from_numpy(matrix).argmax(dim=-1), wanted), bits


def test_int8_is_a_smaller_file_and_near_the_answer(tmp_path, name):
    model = MODELS[name](width=96)
    for precision in ("float32", "int8"):
        export_backbone(model, tmp_path / f"{precision}.onnx", precision=precision)
    whole, small = ((tmp_path / f"{precision}.onnx").stat().st_size for precision in ("float32", "int8"))
    assert small < 0.6 * whole
    graph, points = pg.load_backbone(tmp_path / "int8.onnx"), clouds(16)
    with torch.no_grad():
        wanted, found = model(points), graph(points)
    assert not torch.allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert (found - wanted).std() < 0.1 * wanted.std()


def test_only_our_classifiers_are_exported(tmp_path):
    model = small_model()
    with pytest.raises(ValueError, match=r"written as \.onnx; got 'a\.pth'"):
        export_backbone(model, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="precision must be one of float32, int8; got 'int4'"):
        export_backbone(model, tmp_path / "a.onnx", precision="int4")
    with pytest.raises(ValueError, match="must have fixed bits of its curves"):
        export_backbone(
            pg.create_backbone("point_mamba", classes=2, depth=1, bits="auto"), tmp_path / "a.onnx"
        )
    assert not [*tmp_path.iterdir()]
