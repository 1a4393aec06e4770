"""Maxima over patches: equal to the plain way, gradients included."""

import pytest
import torch
import torch.nn.functional as F

from purgegate.kernels.pooling import linear_max, patch_max


def patches(count: int = 6) -> torch.Tensor:
    return torch.randn(count, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_maximum_is_the_plain_one():
    x = patches()
    assert torch.equal(patch_max(x), x.amax(dim=1))


def test_gradients_agree_with_differences():
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(3, 7, generator=generator, dtype=torch.float64).requires_grad_()
    bias = torch.randn(3, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(patch_max, (patches().requires_grad_(),))
    assert torch.autograd.gradcheck(linear_max, (patches().requires_grad_(), weight, bias))


@pytest.mark.parametrize("count", [1, 7, 32, 48])
def test_any_number_of_patches_gives_the_plain_gradients(count):
    x = torch.randn(count, 4, 10).requires_grad_()
    weight, bias, slope = (
        torch.randn(6, 10).requires_grad_(),
        torch.randn(6).requires_grad_(),
        torch.randn(count, 6),
    )
    ours = torch.autograd.grad((linear_max(x, weight, bias) * slope).sum(), (x, weight, bias))
    plain = torch.autograd.grad((F.linear(x, weight, bias).amax(dim=1) * slope).sum(), (x, weight, bias))
    for left, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(left, right)


def test_the_first_of_equal_points_has_the_gradient():
    x = torch.ones(1, 3, 2, requires_grad=True)
    patch_max(x).sum().backward()
    assert x.grad.tolist() == [[[1, 1], [0, 0], [0, 0]]]


def test_the_number_of_threads_does_not_change_the_gradient():
    x, weight, bias = (
        torch.randn(32, 4, 10).requires_grad_(),
        torch.randn(6, 10).requires_grad_(),
        torch.zeros(6),
    )
    found, slope = [], torch.randn(32, 6)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(torch.autograd.grad(linear_max(x, weight, bias), weight, slope)[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
