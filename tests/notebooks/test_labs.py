"""Every lab of the course on a cluster, exercises included."""

import pytest

from labkit.course import notebooks, runner

pytestmark = [pytest.mark.local, pytest.mark.notebook]


@pytest.mark.parametrize("number", list(notebooks.all_labs()))
def test_a_lab_keeps_its_word(number, cluster, tmp_path):
    result = runner.run(
        notebooks.find(number),
        cluster=cluster.name,
        kubeconfig=cluster.kubeconfig,
        output_dir=tmp_path / "reports with spaces {and} braces",
    )
    assert result.passed, "\n".join(result.problems)
    assert result.cells == result.total
    assert result.notebook.is_file()
