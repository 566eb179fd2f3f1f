"""Everything that labkit raises on purpose.

::

    LabError                      what went wrong, and what to do about it
    ├── BadInput                  the caller asked for something that cannot be
    ├── WaitTimedOut              a condition did not come true in time
    ├── Unsupported               this host cannot do it
    ├── ToolError                 a binary could not be had
    ├── ClusterError              a cluster is absent, broken or in the way
    ├── ApiError                  the API server refused or did not answer
    └── LabFailed                 a notebook, a check or an exercise failed

A subclass exists only where somebody catches it or where its exit code differs.
The original exception is always chained, so a log has the whole story while a
person reads two lines.
"""

from __future__ import annotations

from typing import ClassVar


class LabError(Exception):
    """Something went wrong that a person can do something about.

    Args:
        message: what happened, where, with the values that matter; one or two
            sentences without a final period needed.
        hint: what to do next, as an imperative sentence.
        see: a command that shows more, copyable as it stands.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", see: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.see = see

    def __str__(self) -> str:
        lines = [self.message]
        if self.hint:
            lines.append(f"  do:  {self.hint}")
        if self.see:
            lines.append(f"  see: {self.see}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses may build their message from other arguments, so a pickled
        # error (a worker process reporting to its parent) is rebuilt from its
        # state rather than by calling __init__ again.
        return (_rebuild, (type(self), self.args, self.__dict__))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the error itself, no frames."""
        return [f"{type(self).__name__}: {self}"]


def _rebuild(cls: type[LabError], args: tuple[object, ...], state: dict[str, object]) -> LabError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class BadInput(LabError):
    """An option, a file or a name is wrong; nothing was done."""

    exit_code = 2


class WaitTimedOut(LabError):
    """A condition did not come true within its time.

    Args:
        what: the condition, readable after "waited for", e.g. "node lab-0 to be Ready".
        waited_s: how long was waited, in seconds.
        last_state: what was seen last, so that the message alone is enough to act on.
        hint: see `LabError`.
        see: see `LabError`.
    """

    exit_code = 4

    def __init__(
        self, what: str, *, waited_s: float, last_state: str, hint: str = "", see: str = ""
    ) -> None:
        super().__init__(
            f"waited {waited_s:.1f} s for {what}; last seen: {last_state or 'nothing'}",
            hint=hint,
            see=see,
        )
        self.what = what
        self.waited_s = waited_s
        self.last_state = last_state


class Unsupported(LabError):
    """This host refuses what is needed (no user namespaces, wrong platform, ...)."""

    exit_code = 3


class ToolError(LabError):
    """A binary could not be found, downloaded, verified or built."""


class ClusterError(LabError):
    """A cluster is absent, broken, in the way, or one of its parts failed to start."""


class ApiError(LabError):
    """The API server refused a request or could not be reached.

    Attributes:
        status: HTTP status code, or 0 when no answer came.
        reason: the machine-readable reason of the `Status` object, e.g. ``NotFound``.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", hint: str = "", see: str = ""
    ) -> None:
        super().__init__(message, hint=hint, see=see)
        self.status = status
        self.reason = reason


class LabFailed(LabError):
    """A notebook did not do what it promises; the report says which cell and why."""
