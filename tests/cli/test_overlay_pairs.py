"""Any two overlays that make sense together go together: in either order, on every base."""

import pytest
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.runtime.shipped import shipped_configs
from synthstats_lightning.testing import overlays
from synthstats_lightning.testing.overlays import Pair, failing_pairs, faults, leaves, overlay_pairs


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("base", "at_least"),
    [
        pytest.param("quickstart", 1000, marks=pytest.mark.long),
        pytest.param("six_tasks", 400, marks=pytest.mark.slow),
        ("episodes", 250),
    ],
)
def test_all_pairs_keep_the_target(base, at_least):
    pairs = [pair for pair in overlay_pairs() if pair.base == base]
    assert len(pairs) > at_least
    assert failing_pairs(pairs) == {}


def test_an_overlay_that_changes_the_target_without_saying_so_is_found(monkeypatch):
    whole = overlays.merged

    def without_a_prior(names):
        return whole(names) | ({"scoring.reward.prior_weight": 0.0} if "trainer/ddp" in names else {})

    monkeypatch.setattr(overlays, "merged", without_a_prior)
    found = faults(Pair("quickstart", "trainer/ddp", "tasks/csv"))
    assert "trainer/ddp + tasks/csv changes scoring.reward.prior_weight, which neither names" in found
    assert not faults(Pair("quickstart", "trainer/dask", "tasks/csv"))


def test_an_order_that_matters_without_a_shared_key_is_found(monkeypatch):
    whole = overlays.merged

    def by_the_last(names):
        return whole(names) | {"scoring.max_records": len(names[-1])}

    monkeypatch.setattr(overlays, "merged", by_the_last)
    found = faults(Pair("quickstart", "trainer/ddp", "tasks/csv"))
    assert any("decides scoring.max_records, which they do not share" in line for line in found)


@pytest.mark.parametrize(
    ("base", "pair"),
    [
        ("quickstart", ("trainer/ddp", "tasks/csv")),
        ("episodes", ("trainer/tensorboard", "trainer/ddp")),
        ("quickstart", ("objective/log_variance", "trainer/synchronous")),
        ("six_tasks", ("trainer/ddp", "policy/qwen3")),
    ],
)
def test_the_command_line_merges_them_so(capsys, base, pair):
    names = [*overlays.BASES[base], *pair]
    with pytest.raises(SystemExit) as stop:
        main(["fit", *(f"--config={name}" for name in names), "--print_config"])
    assert stop.value.code == 0
    printed = leaves(yaml.safe_load(capsys.readouterr().out))
    expected = overlays.merged(tuple(names))
    sections = {key: value for key, value in expected.items() if key.partition(".")[0] in overlays.SECTIONS}
    assert {key: printed[key] for key in sections} == sections
    for name in names:
        for key in leaves(overlays.text(name)):
            if not key.endswith("class_path") and not isinstance(expected[key], list) and key in printed:
                assert printed[key] == expected[key], key


def test_every_overlay_is_in_a_pair():
    folder = shipped_configs()
    names = {str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.yaml")}
    names = {name for name in names if not name.endswith("pretraining")} - {"episodes/dugongs"}
    assert {name for pair in overlay_pairs() for name in pair[1:]} == names
