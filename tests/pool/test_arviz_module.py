"""ArviZ is imported though another process imports it at the same moment."""

import sys
import warnings

import pytest

from synthstats_lightning.pool.arviz_module import arviz_module, has_data_tree


def test_the_installed_one():
    import arviz

    assert arviz_module() is arviz
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what it has no longer
        assert has_data_tree(arviz) is hasattr(arviz, "convert_to_datatree")


@pytest.mark.parametrize("failures", [1, 2])
def test_a_note_that_another_process_put_in_place(failures, tmp_path, monkeypatch):
    tries = tmp_path / "tries"
    (tmp_path / "arviz.py").write_text(
        "from pathlib import Path\n"
        f"tries = Path({str(tries)!r})\n"
        "tries.write_text((tries.read_text() if tries.exists() else '') + '.')\n"
        f"if len(tries.read_text()) <= {failures}:\n"
        "    (tries.parent / 'note.tmp').replace(tries.parent / 'note')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "arviz")
    if failures == 1:
        assert arviz_module().__file__ == str(tmp_path / "arviz.py")
    else:
        with pytest.raises(FileNotFoundError):
            arviz_module()
    assert len(tries.read_text()) == 2
