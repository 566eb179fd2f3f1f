"""Reports of a run: a page per lab for people, one JUnit file for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from labkit.course.runner import Result


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """The results as plain values."""
    return [
        {
            "lab": result.lab,
            "passed": result.passed,
            "problems": list(result.problems),
            "cells": result.cells,
            "total": result.total,
            "exercises": list(result.exercises),
            "seconds": round(result.seconds, 1),
            "notebook": str(result.notebook),
        }
        for result in results
    ]


def write_junit(results: list[Result], path: Path) -> None:
    """Write all results as one JUnit test suite."""
    suite = ET.Element(
        "testsuite",
        name="labkit",
        tests=str(len(results)),
        failures=str(sum(not result.passed for result in results)),
    )
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname="labs", name=result.lab, time=f"{result.seconds:.1f}"
        )
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=result.problems[0])
            failure.text = "\n".join(result.problems)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_html(notebook: Path) -> Path | None:
    """Write an executed notebook as a web page beside it; None without nbconvert or notebook."""
    if not notebook.exists():
        return None
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        return None
    body, _ = HTMLExporter().from_filename(str(notebook))  # type: ignore[no-untyped-call]
    page = notebook.with_suffix(".html")
    page.write_text(body, encoding="utf-8")
    return page
