"""The peak of a piece of work, whatever was done before it."""

import copy
import subprocess
import sys

import pytest
import torch

from purgegate.memory import Room

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not show a process's memory"
)

# In a process of its own: how it treats freed memory cannot be undone.
PROGRAM = """
import time, torch
from purgegate.memory import PeakMemory, keep_freed_memory

if {kept}:
    keep_freed_memory()
torch.ones(96, 2**18)
with PeakMemory() as memory:
    held = torch.ones(64, 2**18)
    time.sleep(0.05)
print(memory.megabytes)
"""


@pytest.mark.parametrize("kept", [False, True])
def test_the_peak_is_what_the_work_needed_though_more_was_freed_before(kept: bool):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(kept=kept)], capture_output=True, text=True, check=True
    )
    assert 60 < float(run.stdout) < 72


def test_freed_memory_is_kept_until_it_is_given_back():
    program = """
import torch
from purgegate.memory import _resident, give_back_freed_memory, keep_freed_memory

keep_freed_memory()
torch.ones(1, 2**18)
start = _resident()
torch.ones(64, 2**18)
kept = _resident() - start
give_back_freed_memory()
print(kept / 2**20, (_resident() - start) / 2**20)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    kept, left = map(float, run.stdout.split())
    assert kept > 60
    assert left < 8


def test_kept_room_is_lent_to_one_call_at_a_time_and_again_afterwards():
    room, like = Room(), torch.zeros(1)
    first, meanwhile = room.take(100, like=like), room.take(100, like=like)
    assert first.data_ptr() != meanwhile.data_ptr()
    room.give_back(first)
    room.give_back(meanwhile)
    smaller = room.take(60, like=like)
    assert (smaller.data_ptr(), smaller.shape) == (first.data_ptr(), (60,))
    room.give_back(smaller)
    assert room.take(100, like=like).data_ptr() == first.data_ptr()


def test_room_of_another_kind_or_too_small_is_new_and_copies_have_their_own(monkeypatch):
    room, like = Room(), torch.zeros(1)
    room.give_back(room.take(100, like=like))
    assert copy.deepcopy(room).kept == []
    assert room.take(10, like=like.double()).dtype == torch.float64
    room.give_back(torch.zeros(100))
    assert room.take(101, like=like).shape == (101,)
    monkeypatch.setattr("purgegate.memory.MOST_KEPT", 399)
    room.give_back(torch.zeros(100))
    assert room.kept == []
