"""A learner's own copy of the course."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from labkit.course import notebooks
from labkit.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What became of each notebook.

    Attributes:
        new: copied now.
        kept: there already and different from ours: the learner's work, left as it is.
        same: there already.
    """

    new: tuple[Path, ...]
    kept: tuple[Path, ...]
    same: tuple[Path, ...]

    @property
    def first(self) -> Path | None:
        """The notebook to begin with."""
        return min((*self.new, *self.kept, *self.same), default=None)


def copy_course(folder: Path) -> Copied:
    """Copy the course's notebooks into a folder, never over what somebody changed there.

    Raises:
        BadInput: the folder cannot be made or written to.
    """
    new: list[Path] = []
    kept: list[Path] = []
    same: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in notebooks.all_labs().values():
            target = folder / source.name
            if not target.exists():
                shutil.copyfile(source, target)
                new.append(target)
            else:
                unchanged = target.read_bytes() == source.read_bytes()
                (same if unchanged else kept).append(target)
    except OSError as exc:
        raise BadInput(
            f"{folder} cannot be used: {exc.strerror}", hint="name another folder"
        ) from exc
    return Copied(new=tuple(new), kept=tuple(kept), same=tuple(same))
