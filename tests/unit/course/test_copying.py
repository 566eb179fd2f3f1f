import pytest

from labkit.course import notebooks
from labkit.course.copying import copy_course
from labkit.errors import BadInput

COUNT = len(notebooks.all_labs())


def test_a_new_folder_gets_the_whole_course(tmp_path):
    copied = copy_course(tmp_path / "my folder" / "ü")
    assert len(copied.new) == COUNT
    assert copied.first.name.startswith("01-")
    assert copied.first.is_file()


def test_what_somebody_changed_is_never_overwritten_and_told(tmp_path):
    first = copy_course(tmp_path).first
    first.write_text("mine")
    copied = copy_course(tmp_path)
    assert first.read_text() == "mine"
    assert copied.kept == (first,)
    assert len(copied.same) == COUNT - 1
    assert copied.new == ()


def test_a_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(BadInput, match="cannot be used"):
        copy_course(tmp_path / "taken")
