"""What may come of any input: an answer, or an error that says what is wrong."""

import warnings
from collections.abc import Callable
from typing import Any

import jaxtyping

# Under pytest shapes and types are checked at the door, which is a refusal too; `make fuzz` goes without.
CHECKED = (jaxtyping.TypeCheckError,)


def answer_or_refusal(call: Callable[[], Any], *, lines: bool = True) -> Any:
    """What the call returns, or None if it refuses in one line; any other exception is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries think of damaged bytes
        try:
            return call()
        except CHECKED:
            return None
        except (ValueError, OSError) as error:
            message = str(error)
    assert message.strip(), "an error without a message"
    assert not lines or "\n" not in message, f"an error of several lines: {message}"
    return None
