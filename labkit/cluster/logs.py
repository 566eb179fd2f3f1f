"""Reading the components' logs, and following them as they grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labkit.cluster import records
from labkit.cluster.layout import Layout
from labkit.errors import BadInput, ClusterError
from labkit.waiting import NotYet, Seen, wait_until


def choose(layout: Layout, component: str | None) -> list[str]:
    """The components whose logs are meant.

    Raises:
        ClusterError: there is no such cluster.
        BadInput: it has no such component.
    """
    known = sorted(path.stem for path in layout.logs.glob("*.log"))
    if not known:
        raise ClusterError(f"there is no cluster {layout.name!r}", see="labkit list")
    if component is None:
        return known
    if component not in known:
        raise BadInput(f"there is no component {component!r}", hint=f"choose: {', '.join(known)}")
    return [component]


def lines(layout: Layout, chosen: Sequence[str], *, tail: int, follow: bool) -> Iterator[str]:
    """The last lines of the chosen logs, headed by their names when there are several.

    Args:
        layout: the cluster.
        chosen: components.
        tail: how many lines of each; negative for all.
        follow: whether to go on with new lines until the cluster is gone.
    """
    several = len(chosen) > 1
    seen = {}
    for name in chosen:
        seen[name] = _size(layout, name)
        if several:
            yield f"==> {name} <=="
        yield from _last(layout, name, tail)
    while follow and layout.folder.exists():
        grown = wait_until(
            lambda: _grown(layout, seen),
            what="a line in the logs",
            timeout_s=float("inf"),
            interval_s=0.2,
        )
        for name, texts in grown:
            yield from (_label(name, text, several) for text in texts)


def _label(name: str, text: str, several: bool) -> str:
    return f"{name}: {text}" if several else text


def _last(layout: Layout, name: str, tail: int) -> list[str]:
    if tail >= 0:
        return records.tail(layout, name, tail)
    return layout.log(name).read_text(encoding="utf-8", errors="replace").splitlines()


def _size(layout: Layout, name: str) -> int:
    try:
        return layout.log(name).stat().st_size
    except OSError:
        return 0


def _grown(layout: Layout, seen: dict[str, int]) -> Seen[list[tuple[str, list[str]]]] | NotYet:
    found = []
    for name, start in seen.items():
        if _size(layout, name) <= start:
            continue
        with layout.log(name).open("rb") as log:
            log.seek(start)
            whole, newline, _ = log.read().rpartition(b"\n")
        if newline:
            seen[name] = start + len(whole) + 1
            found.append((name, whole.decode("utf-8", "replace").split("\n")))
    gone = not layout.folder.exists()
    return Seen(found) if found or gone else NotYet("nothing new")
