import json

import numpy as np
import pytest

from purgegate.io.confusion import confusion_of, count_confusion
from tests.report.rows import row

TRUTH, TOLD = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 0, 2, 1, 0, 3])


def test_clouds_are_counted_by_class_and_answer():
    found = count_confusion(TRUTH, TOLD, ("chair", "door", "sofa"))
    assert found == {"chair": {"chair": 2, "sofa": 1}, "door": {"door": 1}, "sofa": {"chair": 1, "3": 1}}


def test_a_cloud_without_an_answer_is_taken_for_no_class():
    found = count_confusion(np.array([0, 1]), np.array([-1, 1]), ("chair", "door"))
    assert found == {"chair": {"no answer": 1}, "door": {"door": 1}}


def test_a_row_keeps_its_confusion_through_a_file():
    found = count_confusion(TRUTH, TOLD, ("a", "b", "c"))
    kept = json.loads(json.dumps(row(correct=3, total=6, confusion=found)))
    assert confusion_of(kept) == found


def test_a_row_without_one_has_none():
    assert confusion_of(row()) is None


@pytest.mark.parametrize(
    "wrong",
    [{"a": {"a": 4, "b": 2}}, {"a": {"a": 3}}, {"a": 3}, {"a": {"a": 3, "b": "3"}}, [], "text",
     {"a": {"a": 3, "b": 4, "c": -1}}],
)  # fmt: skip
def test_one_that_contradicts_its_row_is_refused(wrong):
    with pytest.raises(ValueError, match="must count 6 clouds, 3 of them right"):
        confusion_of(row(correct=3, total=6, confusion=wrong))
