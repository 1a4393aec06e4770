"""Bars for long work."""

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

WINDOW = 3600.0  # seconds of the past by which the speed is told: a row alone may take half an hour


def crew_bar() -> Progress:
    """A bar that also says how many workers there are, and how much they do a minute."""
    return counting_bar(CrewColumn())


class CrewColumn(ProgressColumn):
    """Workers and speed of a task with the fields `workers` and `unit`."""

    def render(self, task: Task) -> Text:
        """As in "2 workers, 35 rows/min", or "0.05 rows/min" where they are long."""
        count, rate = task.fields["workers"], 60 * (task.speed or 0.0)
        speed = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
        crew = f"{count} worker{'s' * (count != 1)}"
        return Text(f"{crew}, {speed} {task.fields['unit']}/min" if rate else crew)


class Joined:
    """Show on a bar how many workers there are and, if asked, print once where Dask's page is."""

    def __init__(self, progress: Progress, task: TaskID, *, dashboard: bool) -> None:
        self.progress, self.task, self.dashboard = progress, task, dashboard

    def __call__(self, workers: int, page: str) -> None:
        """Take the number of workers, and the address of their page or nothing."""
        self.progress.update(self.task, workers=workers)
        if self.dashboard:
            self.progress.console.print(page or "there is no page to watch without --cluster", soft_wrap=True)
            self.dashboard = False


def counting_bar(*more: ProgressColumn, transient: bool = False) -> Progress:
    """A bar on stderr that counts what is done and says when it will end; a transient one is wiped then."""
    columns = BarColumn(), MofNCompleteColumn(), *more, TimeRemainingColumn()
    title = TextColumn("{task.description}", markup=False)
    console = Console(stderr=True)
    unseen = transient and not console.is_terminal
    return CountingBar(
        title, *columns, console=console, transient=transient, disable=unseen, speed_estimate_period=WINDOW
    )


class CountingBar(Progress):
    """A bar that leaves nothing behind where a mistake ends the work before any is done."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wipe the bar where an error message is all that should be seen."""
        if kind is not None and not any(task.completed for task in self.tasks):
            self.live.transient = True
            self.live.stop()
        else:
            super().__exit__(kind, error, trace)


class Bar(Progress):
    """One bar per epoch, with loss and accuracy so far; a line is left for each that is done."""

    def __init__(self) -> None:
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [
            TimeRemainingColumn(),
            TextColumn("loss {task.fields[loss]:.3f}, accuracy {task.fields[acc]:.1%}"),
        ]
        super().__init__(*columns, console=Console(stderr=True), transient=True)
        self.current = TaskID(0)

    def begin(self, epoch: int, *, epochs: int, steps: int) -> None:
        """Show a new epoch."""
        self.current = self.add_task(f"epoch {epoch}/{epochs}", total=steps, loss=0.0, acc=0.0)

    def step(self, loss: float, accuracy: float) -> None:
        """Move on by a step."""
        self.update(self.current, advance=1, loss=loss, acc=accuracy)

    def end(self, row: dict[str, int | float]) -> None:
        """Leave a line for an epoch."""
        self.remove_task(self.current)
        tested = f", test accuracy {row['test_accuracy']:.2%}" if "test_accuracy" in row else ""
        self.console.print(
            f"epoch {row['epoch']:.0f}: loss {row['loss']:.4f}, accuracy {row['train_accuracy']:.2%}"
            f"{tested}, {row['seconds']:.0f} s"
        )
