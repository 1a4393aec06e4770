"""What is wrong with an .onnx file, a runtime or an installation is one line."""

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import purgegate as pg
from purgegate.backbones.onnx import export_backbone
from tests.models import small_model


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "good.onnx"
    export_backbone(small_model(), path)
    return path


def refused(path, reason: str, **options: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        pg.load_backbone(path, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_truncated_file_is_one_line(good, tmp_path, part):
    content = good.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: int(part * len(content))])
    refused(tmp_path / "cut.onnx", r"cut\.onnx is (not a whole ONNX file|an ONNX graph, but none of ours)")


@pytest.mark.parametrize("content", [b"\x00" * 100, b"solid cube\n" * 50, bytes(range(256)) * 9])
def test_a_foreign_file_is_one_line(tmp_path, content):
    (tmp_path / "a.onnx").write_bytes(content)
    refused(tmp_path / "a.onnx", r"a\.onnx is not a whole ONNX file")


def test_a_web_page_and_a_missing_file_are_one_line(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"<!doctype html><html>sign in</html>")
    refused(tmp_path / "a.onnx", "it is a web page")
    with pytest.raises(FileNotFoundError, match=r"b\.onnx is missing: make it with `purgegate export`"):
        pg.load_backbone(tmp_path / "b.onnx")


def test_the_graph_of_another_program_is_one_line(tmp_path):
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["B"])
    same = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B"])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "other", [value], [same])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    for metadata in ({}, {"author": "somebody"}):
        helper.set_model_props(model, metadata)
        onnx.save(model, tmp_path / "other.onnx")
        refused(tmp_path / "other.onnx", "is an ONNX graph, but none of ours")


def changed(good, path, *, metadata: dict[str, str] | None = None, weight: str = ""):
    """The good file with other metadata, or with a number in a weight that is none."""
    model = onnx.load(good)
    told = {each.key: each.value for each in model.metadata_props}
    helper.set_model_props(model, told | (metadata or {}))
    for each in model.graph.initializer:
        if each.name == weight:
            each.CopyFrom(numpy_helper.from_array(np.full(each.dims, np.nan, np.float32), weight))
    onnx.save(model, path)
    return path


def test_damaged_numbers_and_sizes_are_one_line(good, tmp_path):
    for weight in ("class_head.4.weight", "norms.1.running_var"):
        refused(changed(good, tmp_path / "a.onnx", weight=weight), f"damaged.*infinite numbers in {weight}")
    for told in ({"groups": "-3"}, {"classes": '"many"'}, {"backbone": '"pointnet"'}, {"width": "null"}):
        refused(
            changed(good, tmp_path / "a.onnx", metadata=told), r"a\.onnx is damaged, or of another version"
        )
    refused(changed(good, tmp_path / "a.onnx", metadata={"classes": "7"}), r"a\.onnx does not fit")


def test_other_sizes_than_the_files_are_refused(good):
    assert pg.load_backbone(good, classes=5, groups=16).groups == 16
    refused(good, "has classes 5, but 40 was asked for", classes=40)
    refused(good, "has colours None, but 3 was asked for", colours=3)


def test_unknown_runtimes_and_precisions_name_the_known(good):
    refused(good, "runtime must be one of onnxruntime, openvino; got 'tensorrt'", runtime="tensorrt")
    refused(good, "use runtime='openvino', or a file of", precision="bfloat16")
    refused(
        good, "precision must be one of float32, bfloat16; got 'int4'", runtime="openvino", precision="int4"
    )


def test_openvino_has_bfloat16(good):
    points = torch.rand(4, 256, 3, generator=torch.Generator().manual_seed(0))
    graph = pg.load_backbone(good, runtime="openvino", precision="bfloat16")
    with torch.no_grad():
        wanted, found = small_model()(points), graph(points)
    assert (found - wanted).std() < 0.1 * wanted.std()


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime", "openvino"])
def test_a_missing_package_is_one_line_with_its_remedy(good, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    runtime = "openvino" if missing == "openvino" else "onnxruntime"
    remedy = "pip install openvino" if missing == "openvino" else r"pip install 'purgegate\[onnx\]'"
    refused(good, f"this needs {missing}, which is missing: `{remedy}`", runtime=runtime)
