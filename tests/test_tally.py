"""Cells that are done, counted in parts and taken back where a unit begins anew."""

from purgegate.tally import Tally


def test_parts_and_whole_units_add_up_to_the_cells():
    steps: list[float] = []
    tally = Tally({0: 1, 1: 4}, steps.append)
    tally.hear((1, 1.5))
    tally.hear((1, 0.5))  # its worker died, another began anew
    tally.finish(0)
    assert sum(steps) == 1.5
    tally.finish(1)
    tally.hear((1, 3.0))  # late news of what is done
    assert sum(steps) == 5.0
