import threading

import torch
from torch import nn

import purgegate as pg
from purgegate.twins import evaluation_twin, twin
from tests.models import clouds, small_model


def test_a_twin_shares_weights_and_nothing_else():
    model = small_model().train()
    other = twin(model)
    assert all(a is b for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert all(a is b for a, b in zip(model.buffers(), other.buffers(), strict=True))
    assert not {id(each) for each in model.modules()} & {id(each) for each in other.modules()}
    other.eval()
    other.norm.register_forward_hook(lambda *_: None)
    assert all(module.training for module in model.modules())
    assert not model.norm._forward_hooks


def test_a_module_that_is_held_twice_has_one_twin():
    layer = nn.Linear(2, 2)
    pair = twin(nn.Sequential(layer, nn.ReLU(), layer))
    assert pair[0] is pair[2]
    assert pair[0] is not layer


def test_a_student_that_holds_its_trainer_leaves_the_teacher_in_its_mode():
    class Trainer:
        def __init__(self, student: nn.Module, teacher: nn.Module) -> None:
            self.student, self.teacher = student, teacher

    student, teacher = small_model(), small_model(seed=1).train()
    student.trainer = Trainer(student, teacher)
    pg.create_adapter("source_bn", student)(clouds(4))
    pg.SourceStatistics.collect(student, [clouds(4)])
    assert teacher.training
    assert evaluation_twin(student).trainer.student is not student


def test_what_holds_no_module_stays_itself():
    class Note:
        text = "a note"

    held = {"note": Note(), "numbers": [1, 2, (3, 4)], "lock": threading.Lock(), "call": print}
    assert twin(held) is held


def test_methods_of_one_model_answer_alike_in_threads():
    model, points = small_model(), clouds(6)
    norms = ["source", "batch", "blend", "pool"] * 2
    wanted = [pg.create_adapter("source", model, norm=norm)(points) for norm in norms]
    found: dict[int, torch.Tensor] = {}

    def answer(place: int) -> None:
        adapter = pg.create_adapter("source", model, norm=norms[place])
        for _ in range(20):
            adapter.reset()
            found[place] = adapter(points)

    threads = [threading.Thread(target=answer, args=(place,)) for place in range(len(norms))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.allclose(found[place], each, atol=1e-6) for place, each in enumerate(wanted))
