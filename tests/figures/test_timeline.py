"""What a page is told of a stream."""

import json
import math

import numpy as np
import pytest
import torch

from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.figures import timeline as module
from purgegate.figures.scenes import unpack
from purgegate.figures.timeline import Answered, Timeline

POINTS = torch.rand(1024, 3, generator=torch.Generator().manual_seed(0))


def answered(name: str = "chair", *, truth: str = "", **facts) -> Answered:
    answer = Answer(0, name, 0.75, purged=8, purged_share=0.125, shift=2.5)
    return Answered(f"scans/{name}.ply", POINTS, answer._replace(**facts), truth)


def test_a_page_is_told_what_it_has_not_seen():
    timeline = Timeline()
    for _ in range(3):
        timeline.show(answered())
    first = timeline.since(0)
    assert [cloud["number"] for cloud in first["clouds"]] == [1, 2, 3]
    assert [picture["number"] for picture in first["pictures"]] == [1, 2, 3]
    timeline.show(answered())
    second = timeline.since(3)
    assert [cloud["number"] for cloud in second["clouds"]] == [4]
    assert [picture["number"] for picture in second["pictures"]] == [4]
    assert timeline.since(4)["clouds"] == timeline.since(99)["clouds"] == []
    assert len(timeline.since(-5)["clouds"]) == 4


def test_an_answer_is_what_the_stream_said():
    timeline = Timeline()
    timeline.show(answered(stages=("strays",), alarm=Alarm("quiet", -0.5, 1), unknown=True))
    (cloud,), (picture,) = (timeline.since(0)[name] for name in ("clouds", "pictures"))
    assert (cloud["shift"], cloud["purged"], cloud["alarm"], cloud["evidence"]) == (2.5, 0.125, "quiet", -0.5)
    assert (picture["class"], picture["confidence"], picture["unknown"]) == ("chair", 0.75, True)
    assert picture["stages"] == ["strays"]
    np.testing.assert_array_equal(unpack(picture["points"]).reshape(-1, 3), POINTS[: module.DRAWN])


def test_accuracy_counts_the_clouds_whose_class_is_known():
    timeline = Timeline()
    for truth in ("chair", "", "sofa", "chair"):
        timeline.show(answered(truth=truth))
    told = timeline.since(0)
    assert (told["seen"], told["known"], told["right"]) == (4, 3, 2)
    assert [cloud["right"] for cloud in told["clouds"]] == [True, None, False, True]


def test_an_alarm_stands_at_its_cloud_though_it_counts_by_itself():
    timeline = Timeline()
    for _ in range(30):
        timeline.show(answered())
    timeline.ring(Alarm("ringing", 1.1, seen=1000, rang=1000, since=990, rank=0.9))
    (alarm,) = timeline.since(0)["alarms"]
    assert (alarm["number"], alarm["since"]) == (30, 20)
    assert "since cloud 990" in alarm["line"]


def test_a_long_stream_is_told_by_its_last_clouds_and_its_whole_counts(monkeypatch):
    monkeypatch.setattr(module, "KEPT", 20)
    timeline = Timeline()
    for _ in range(50):
        timeline.show(answered(truth="chair"))
    told = timeline.since(0)
    assert [told["clouds"][place]["number"] for place in (0, -1)] == [31, 50]
    assert len(told["clouds"]) == 20
    assert len(told["pictures"]) == module.PICTURES
    assert (told["seen"], told["right"]) == (50, 50)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_told_as_unknown(bad: float):
    timeline = Timeline()
    timeline.show(answered(shift=bad, confidence=bad, alarm=Alarm("quiet", bad, 1)))
    told = timeline.since(0)
    json.dumps(told, allow_nan=False)
    assert told["clouds"][0]["shift"] is None


def test_failures_and_the_end_are_told():
    timeline = Timeline()
    timeline.fail("a.ply", "a.ply cannot be read")
    timeline.fail("b.ply", "b.ply cannot be read")
    told = timeline.since(0)
    assert (told["failed"], told["failure"], told["ended"]) == (2, "b.ply cannot be read", False)
    timeline.end()
    assert timeline.since(0)["ended"]


def test_each_run_has_a_name_of_its_own():
    assert Timeline().since(0)["run"] != Timeline().since(0)["run"]


@pytest.mark.parametrize("query", ["", "after=", "after=x", "after=1&after=2", "after=0&path=/etc/passwd"])
def test_a_wrong_question_is_refused(query: str):
    with pytest.raises(ValueError, match=r"question|invalid literal|fields"):
        Timeline().routes["/stream"](query)
