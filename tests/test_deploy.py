"""The programs on the page on deployment answer as the model does."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from purgegate.backbones.onnx import export_backbone
from tests.models import clouds, small_model

PAGE = (Path(__file__).parents[1] / "docs" / "deploy.md").read_text("utf-8")

# In place of the runtime: print what it is fed with.
FAKE = """module.exports = { Tensor: function (kind, data, dims) { return { data: [...data], dims }; },
  InferenceSession: { create: async () => ({ run: async fed => ({ logits: { data: fed } }) }) } };"""


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)[0]


def test_the_python_on_the_page_answers_as_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, points = small_model(), clouds(1)
    export_backbone(model, "model.onnx")
    known = {"cloud": points[0].numpy()}
    exec(block("python"), known)
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(known["logits"]), model(points), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_on_the_page_cuts_the_same_patches(tmp_path):
    model, points = small_model(), clouds(1)
    (tmp_path / "node_modules" / "onnxruntime-node").mkdir(parents=True)
    (tmp_path / "node_modules" / "onnxruntime-node" / "index.js").write_text(FAKE)
    call = f"classify({json.dumps(points[0].tolist())}, 16, 8).then(fed => console.log(JSON.stringify(fed)));"
    (tmp_path / "page.js").write_text(block("javascript") + call)
    done = subprocess.run(["node", "page.js"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fed = {
        key: torch.tensor(each["data"]).reshape(each["dims"]) for key, each in json.loads(done.stdout).items()
    }
    centers, patches = model.cut(points)
    torch.testing.assert_close(fed["centers"], centers)
    torch.testing.assert_close(fed["patches"], patches)
    assert fed["share"].shape == ()
