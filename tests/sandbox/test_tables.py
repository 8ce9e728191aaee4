"""`data` as a pandas table, names of rows, and tables that hold the response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning.cli.data import task_yaml
from synthstats_lightning.programs.canonical import canonical_hash, canonicalise
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.tasks import CSVTask, TableTask, task_prompt, understand

TREES = {
    "tree": ["Ash", "Beech", "Cedar", "Fir", "Elm", "Oak"],
    "wood": ["soft", "hard", "soft", "soft", "hard", "hard"],
    "age": [10.0, 40.0, 25.0, 60.0, 33.0, 51.0],
    "height": [3.2, 9.8, 7.1, 15.5, 9.0, 12.2],
}
PLAIN = """
with pm.Model() as model:
    b = pm.Normal("b", 0, 1)
    pm.Normal("h", b * age, 1, observed=height)
"""
SAME = {
    "columns of a table": "df = data[['age', 'height']]\nage, height = df['age'], df.height",
    "a copy with a column more": "df = data.copy()\ndf['mine'] = df.age\nage = df['mine']",
    "made by pandas": (
        "import pandas as pd\ndf = pd.DataFrame({'a': age, 'h': height})\nage, height = df.a, df['h']"
    ),
    "columns that pandas makes": (
        "import pandas as pd\ndf = data.copy()\n"
        "df['kind'] = pd.Series(df['wood']).map({'soft': 1, 'hard': 2})\n"
        "assert df['kind'].values.tolist() == [1, 2, 1, 1, 2, 2] and df.kind.max() == 2\n"
        "df['code'] = pd.Categorical(df.wood)\nassert df.code.cat.codes.tolist() == [1, 0, 1, 1, 0, 0]\n"
        "df.wood = df.wood.astype('category')\nassert list(df.wood.cat.categories) == ['hard', 'soft']\n"
        "df['one'] = 1\nassert df.one.sum() == 6\n"
        "df['place'] = list(range(6))\nassert df.place.values[5] == 5"
    ),
    "read from a file": (
        "import pandas as pd\nfrom pathlib import Path\n"
        "df = pd.read_csv(Path('data') / 'trees.csv', sep=';', index_col=0)\n"
        "age, height = df['age'], df.height\n"
        "assert pd.read_csv('data/trees.csv', usecols=['age']).shape == (6, 1)\n"
        "assert pd.read_csv('data/trees.csv', index_col='tree').loc['Oak', 'wood'] == 'hard'\n"
        "try:\n    pd.read_csv('/etc/passwd')\n    raise ValueError\nexcept FileNotFoundError:\n    pass"
    ),
    "a file by its name": "import pandas as pd\ndf = pd.read_csv(pm.get_data('a.csv'))\nage = df.age.values",
    "a table of them all": (
        "import pandas as pd\ndf = pd.DataFrame(data)\nassert type(df) is pd.DataFrame\n"
        "age, height = df['age'].values, df['height']"
    ),
    "what pandas makes of columns": (
        "import pandas as pd\nassert pd.to_datetime(np.array(['2020-03-01'])).dt.month[0] == 3\n"
        "assert pd.cut(data.age, 2).cat.codes.values.tolist() == [0, 1, 0, 1, 0, 1]\n"
        "assert pd.cut(age, 2).codes[1] == 1 and len(pd.cut(age, 2).cat.categories) == 2"
    ),
    "a list of rows": "height = data['height'].tolist()",
    "a table as an array": (
        "X = data[['age', 'age_z']].values\nassert X.shape == (6, 2) and X[3, 0] == 60\n"
        "assert data[['age']].to_numpy().sum() == age.sum() and len(list(data.values())) > 5\n"
        "height = data[['height']].values.ravel()"
    ),
    "missing rows left out": (
        "df = data.dropna()\nassert not height.isna().any()\nage, height = df.age, df.height.dropna()"
    ),
    "reshaped and back": (
        "t = data.pivot(index='age', columns='wood', values='height')\nassert t.shape == (6, 2)\n"
        "age = data.age.to_numpy().copy()"
    ),
    "asked about": (
        "assert len(data) == 6 and data.wood.nunique() == 2 and list(wood.unique()) == ['soft', 'hard']\n"
        "assert tree[0] == 'Ash' and data.tree.values[5] == 'Oak'\n"
        "one = data.drop_duplicates('wood').set_index('wood')\nassert one.loc['hard', 'age'] == 40\n"
        "assert data.groupby('wood')['age'].mean()['soft'] == 95 / 3\n"
        "assert 'height' not in data.groupby('wood').first().columns\n"
        "assert data.age.median() == 36.5 and data.age.isin([10]).sum() == 1\n"
        "assert list(data.head(2).columns) == ['wood_code', 'age', 'tree', 'wood', 'height']\n"
        "assert list(data[['age_z', 'wood_hard']].head(2).columns) == ['age_z', 'wood_hard']\n"
        "df = data.copy()\ndf['age_z'] = df.age / 2\n"
        "assert 'age_z' in df.head(1) and 'wood_hard' not in df.head(1)"
    ),
}
REFUSED = {
    "a column's": "import pandas as pd\nm = pd.DataFrame({'h': height})['h'].mean()",
    "an attribute's": "m = data.sort_values('age').height.std()",
    "a series'": "import pandas as pd\nm = pd.Series(height).max()",
    "NumPy's": "import pandas as pd\nm = np.std(pd.Series(height))",
    "applied": "m = data[['age', 'height']].head(6).apply(lambda column: column.mean())",
    "a group's": "m = data.groupby('wood')['height'].mean()",
    "a table's": "m = data[['age', 'height']].describe()",
    "of its logarithm": "df = data.copy()\ndf['l'] = np.log(df.height)\nm = df['l'].mean()",
    "of some rows": "m = data.query('age > 20')['height'].mean()",
    "a comparison": "m = data.sort_values('age').height > 5",
}


@pytest.fixture(scope="module")
def task() -> TableTask:
    """Six trees, each of its name."""
    return TableTask(understand(TREES, "height"))


def built(sandbox: Sandbox, task: TableTask, source: str) -> dict[str, Any]:
    """The graph of a program."""
    return json.loads(sandbox.build(source, task.schema, task.covariates))


@pytest.mark.parametrize("name", SAME)
def test_tables_are_those_of_pandas(sandbox: Sandbox, task: TableTask, name: str) -> None:
    assert built(sandbox, task, f"{SAME[name]}\n{PLAIN}") == built(sandbox, task, PLAIN)


@pytest.mark.parametrize("name", REFUSED)
def test_the_response_has_no_statistics_in_a_table(sandbox: Sandbox, task: TableTask, name: str) -> None:
    with pytest.raises(ProgramFailure, match="the response 'height' has no values here") as caught:
        built(sandbox, task, REFUSED[name] + PLAIN)
    assert caught.value.category is FailureCategory.RAISED


def test_rows_in_another_order_are_rows_of_the_response(sandbox: Sandbox, task: TableTask) -> None:
    ordered = "df = data.sort_values('age', ascending=False).reset_index(drop=True)"
    found = sandbox.build(
        f"{ordered}\nage, height = df.age, df.height\n{PLAIN}", task.schema, task.covariates
    )
    plain = sandbox.build(PLAIN, task.schema, task.covariates)
    assert len({canonical_hash(canonicalise(parse_graph(each, task.schema))) for each in (found, plain)}) == 1


RATIOS = {
    "in a column": "df = data.copy()\ndf['r'] = df['height'] / df['age']\nratio = df['r'].values",
    "of series": "ratio = pd.Series(height) / pd.Series(age)",
    "assigned": "ratio = data.copy().assign(r=lambda df: df.height / df.age)['r']",
}


@pytest.mark.parametrize("name", RATIOS)
def test_ratios_of_columns(sandbox: Sandbox, task: TableTask, name: str) -> None:
    model = PLAIN.replace("observed=height", "observed=ratio")
    found = built(sandbox, task, f"import pandas as pd\n{RATIOS[name]}\n{model}")
    assert found == built(sandbox, task, f"ratio = height / age\n{model}")
    with pytest.raises(ProgramFailure, match="the response 'height' has no values here"):
        built(sandbox, task, f"import pandas as pd\n{RATIOS[name]}\nm = ratio.mean()\n{model}")


def test_numbers_that_look_like_rows_are_a_covariate(sandbox: Sandbox) -> None:
    table = {**TREES, "hours": [24, 24, 11, 11, 24, 11]}
    task = TableTask(understand(table, "height"))
    built(sandbox, task, "m = data.sort_values('age').hours.mean()\nassert m == 17.5\n" + PLAIN)
    # two of them that differ, one for each kind of wood
    kinds = "one = data.drop_duplicates('wood')\nassert list(one['born'].values + 1) == [25, 38]\n"
    task = TableTask(understand({**TREES, "born": [24, 37, 50, 31, 29, 63]}, "height"))
    built(sandbox, task, kinds + "assert one.born.mean() == 30.5\n" + PLAIN)
    with pytest.raises(ProgramFailure, match="the response 'height' has no values here"):
        built(sandbox, task, kinds + "m = one.height.mean()\n" + PLAIN)


def test_names_of_rows_are_no_covariate_and_can_be_read_again(tmp_path: Path, sandbox: Sandbox) -> None:
    path = tmp_path / "trees.csv"
    rows = [",".join(TREES), *(",".join(map(str, row)) for row in zip(*TREES.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    task = CSVTask(path, "height")
    assert list(task.covariates) == ["wood_code", "age"]
    assert task.views["tree"].levels == tuple(TREES["tree"])
    assert "Ash" not in str(task_prompt(task))
    assert "tree (names the rows)" in task_prompt(CSVTask(path, "height", tell_views=True)).request
    written = task_yaml(task, {"path": str(path), "response": "height", "description": None})
    assert "tree: label" in written
    again = CSVTask(path, "height", columns=["wood", "age", "tree"], roles={"tree": "label"})
    assert again.views == task.views
    assert again.fingerprint == task.fingerprint
    assert "tree" not in CSVTask(path, "height", columns=["wood", "age"]).views
    named = PLAIN.replace("as model", "as model").replace("pm.Model()", "pm.Model(coords={'tree': tree})")
    assert built(sandbox, again, named) == built(sandbox, again, PLAIN)


def test_texts_that_are_too_many_for_levels_are_names_too() -> None:
    table = {**TREES, "place": ["a", "b", "c", "d", "e", "e"]}
    found = understand(table, "height")
    assert found.views["place"].names_rows
    assert "place" not in understand(table, "height", roles={"place": "left_out"}).views


def test_numbers_are_no_names() -> None:
    with pytest.raises(ValueError, match="column 'age' holds no texts, which its role 'label' asks for"):
        understand(TREES, "height", roles={"age": "label"})
    with pytest.raises(ValueError, match="label"):
        understand(TREES, "height", roles={"age": "lable"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data.height.shift(1)", "its lags are columns of the data"),
        ("height.rolling(3)", "its lags are columns of the data"),
        ("np.diff(height)", "its lags are columns of the data"),
        ("height.quantile(0.9)", "priors and scales may not come from it"),
        ("pd.to_datetime(age)", "dates are numbers here, .* where the task asks for them"),
        ("pd.to_datetime(data.copy()['age'])", "dates are numbers here"),
    ],
)
def test_what_has_another_spelling_says_so(
    sandbox: Sandbox, task: TableTask, line: str, message: str
) -> None:
    with pytest.raises(ProgramFailure, match=message) as caught:
        built(sandbox, task, f"import pandas as pd\nm = {line}\n{PLAIN}")
    assert caught.value.category is FailureCategory.RAISED


def test_dates_that_are_made_of_numbers_with_a_unit(sandbox: Sandbox, task: TableTask) -> None:
    lines = (
        "import pandas as pd\nday = pd.to_datetime(age, unit='D')\nassert (day - day.min()).days[1] == 30\n"
    )
    assert built(sandbox, task, lines + PLAIN) == built(sandbox, task, PLAIN)
