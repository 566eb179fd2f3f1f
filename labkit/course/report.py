"""Reports of a run: a page per lab for people, one JUnit file for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from labkit.course.runner import Result

# The lab's page as JupyterLab shows it, with nothing fetched from elsewhere when it is opened.
_TEMPLATE = """\
{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block extra_css -%}<style>body { max-width: 62rem; margin: auto }</style>{%- endblock -%}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Where the reports are.

    Attributes:
        junit: all results in one file.
        pages: a page per lab, by the lab; without nbconvert there are none.
    """

    junit: Path
    pages: dict[str, Path]


def write(results: Sequence[Result], folder: Path) -> Reports:
    """Write all reports into a folder, beside the executed notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    junit = folder / "junit.xml"
    junit.write_text(as_junit(results), encoding="utf-8")
    pages = {result.lab: write_page(result.notebook) for result in results if result.notebook}
    return Reports(junit=junit, pages={lab: page for lab, page in pages.items() if page})


def as_json(results: Sequence[Result], reports: Reports) -> list[dict[str, Any]]:
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
            "notebook": str(result.notebook) if result.notebook else None,
            "page": str(reports.pages[result.lab]) if result.lab in reports.pages else None,
            "junit": str(reports.junit),
        }
        for result in results
    ]


def as_text(result: Result, reports: Reports) -> str:
    """One result in a few lines, not wider than a terminal where that can be helped."""
    counts = f"{result.cells} of {result.total} cells, {len(result.exercises)} exercise(s) checked"
    lines = [
        f"{'passed' if result.passed else 'FAILED'}  {result.lab}",
        f"        {counts}, {result.seconds:.1f} s",
        *("        " + problem.replace("\n", "\n          ") for problem in result.problems),
    ]
    if result.notebook:
        lines.append(f"        executed: {result.notebook}")
    if result.lab in reports.pages:
        lines.append(f"        page:     {reports.pages[result.lab]}")
    return "\n".join(lines)


def as_junit(results: Sequence[Result]) -> str:
    """All results as one JUnit test suite."""
    suite = ET.Element(
        "testsuite",
        name="labkit",
        tests=str(len(results)),
        failures=str(sum(not result.passed for result in results)),
        time=f"{sum(result.seconds for result in results):.1f}",
    )
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname="labs", name=result.lab, time=f"{result.seconds:.1f}"
        )
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=result.problems[0])
            failure.text = "\n".join(result.problems)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def write_page(notebook: Path) -> Path | None:
    """Write an executed notebook as a web page beside it; None without nbconvert."""
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        return None
    exporter: Any = HTMLExporter(raw_template=_TEMPLATE)  # type: ignore[no-untyped-call]
    body, _ = exporter.from_filename(str(notebook))
    page = notebook.with_suffix(".html")
    page.write_text(body, encoding="utf-8")
    return page
