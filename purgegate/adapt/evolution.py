"""CMA-ES (Hansen, "The CMA evolution strategy: a tutorial", 2016): search without gradients."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


class EvolutionStrategy:
    """A normal distribution that moves to where values are small; its draws come from a generator.

    `tell` takes any number of candidates, drawn or not; the best half of a population of them count.
    """

    def __init__(self, size: int, *, population: int | None = None, spread: float = 1.0) -> None:
        self.population = population or default_population(size)
        ranks = torch.arange(1, self.population // 2 + 1, dtype=torch.float64)
        weights = math.log(self.population / 2 + 0.5) - ranks.log()
        self.weights = weights / weights.sum()
        self.size, self.spread, self.generation = size, spread, 0
        self.mean, self.path, self.step_path = torch.zeros(3, size, dtype=torch.float64)
        self.covariance = torch.eye(size, dtype=torch.float64)
        self.axes, self.lengths = torch.eye(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64)
        self._decomposed = 0
        self._set_rates(float(1 / self.weights.square().sum()))

    def _set_rates(self, effective: float) -> None:
        """The published rates, from the size and the effective number of parents."""
        n = self.size
        self.effective = effective
        self.path_rate = (4 + effective / n) / (n + 4 + 2 * effective / n)
        self.step_rate = (effective + 2) / (n + effective + 5)
        self.one_rate = 2 / ((n + 1.3) ** 2 + effective)
        wanted = 2 * (effective - 2 + 1 / effective) / ((n + 2) ** 2 + effective)
        self.many_rate = min(1 - self.one_rate, wanted)
        self.damping = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (n + 1)) - 1) + self.step_rate
        self.usual_length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # of a standard normal vector

    def ask(self, generator: torch.Generator) -> Float[Tensor, "p n"]:
        """A population of candidates."""
        draws = torch.randn(self.population, self.size, generator=generator, dtype=torch.float64)
        return self.mean + self.spread * (draws * self.lengths) @ self.axes.T

    def tell(self, candidates: Float[Tensor, "m n"], values: Float[Tensor, " m"]) -> None:
        """Move towards the best candidates, and along with them shape and size of the distribution."""
        self.generation += 1
        best = values.nan_to_num(nan=torch.inf).argsort(stable=True)[: len(self.weights)]
        steps = (candidates[best].double() - self.mean) / self.spread
        weights = self.weights[: len(steps)] / self.weights[: len(steps)].sum()
        step = weights @ steps
        self.mean = self.mean + self.spread * step
        whitened = self.axes @ ((self.axes.T @ step) / self.lengths)
        self.step_path = _faded(self.step_path, whitened, self.step_rate, self.effective)
        length = float(self.step_path.norm())
        # A path that is far too long would let the covariance grow along a step that is too large itself.
        settled = 1 - (1 - self.step_rate) ** (2 * self.generation)
        calm = length / math.sqrt(settled) / self.usual_length < 1.4 + 2 / (self.size + 1)
        self.path = _faded(self.path, step * calm, self.path_rate, self.effective)
        self._reshape(steps, weights, lost=0.0 if calm else self.path_rate * (2 - self.path_rate))
        self.spread *= math.exp(min(1.0, self.step_rate / self.damping * (length / self.usual_length - 1)))

    def _reshape(self, steps: Float[Tensor, "q n"], weights: Float[Tensor, " q"], *, lost: float) -> None:
        kept = 1 - self.one_rate * (1 - lost) - self.many_rate
        self.covariance *= kept
        self.covariance += self.one_rate * torch.outer(self.path, self.path)
        self.covariance += self.many_rate * (steps.T * weights) @ steps
        # Decomposed only when it has changed enough: the cost grows with the cube of the size.
        due = 1 / (10 * self.size * (self.one_rate + self.many_rate))
        if self.generation - self._decomposed > due:
            values, self.axes = torch.linalg.eigh((self.covariance + self.covariance.T) / 2)
            self.lengths = values.clamp(min=1e-20).sqrt()
            self._decomposed = self.generation


def default_population(size: int) -> int:
    """The usual number of candidates for so many numbers."""
    return 4 + int(3 * math.log(size))


def _faded(path: Float[Tensor, " n"], step: Float[Tensor, " n"], rate: float, effective: float) -> Tensor:
    return (1 - rate) * path + math.sqrt(rate * (2 - rate) * effective) * step
