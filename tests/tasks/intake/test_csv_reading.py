"""CSV files as people have them."""

import pytest

from synthstats_lightning.tasks.intake.csv_reading import read_csv_table


@pytest.fixture
def read(tmp_path):
    def reader(content, **settings):
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv_table(path, **settings)

    return reader


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("a,b\n1,2\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\r\n1,2\r\n3,4\r\n\x1a", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\n1,2\n3,4\x1a", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a;b\n1,5;2\n3;4\n", {"a": ["1,5", "3"], "b": ["2", "4"]}),
        ("a\tb\n1\t2\n", {"a": ["1"], "b": ["2"]}),
        (
            "a;b;c\n1,5;2,5;3,25\n4,0;5,5;6,5\n",
            {"a": ["1,5", "4,0"], "b": ["2,5", "5,5"], "c": ["3,25", "6,5"]},
        ),
        ("a  b\n1.5 2\n3   4\n", {"a": ["1.5", "3"], "b": ["2", "4"]}),
        ("full name,b\nJo Ann,2 kg\nTo Bo,4 kg\n", {"full name": ["Jo Ann", "To Bo"], "b": ["2 kg", "4 kg"]}),
        ("a;b\n" + "1,5;2,5\n" * 6, {"a": ["1,5"] * 6, "b": ["2,5"] * 6}),
        ("a|b\n1|2\n", {"a": ["1"], "b": ["2"]}),
        ("a\n1\n2\n", {"a": ["1", "2"]}),
        ("\ufeffa,b\r\n1,2\r\n", {"a": ["1"], "b": ["2"]}),
        ('a,b\n"two\nlines","say ""x"", y"\n', {"a": ["two\nlines"], "b": ['say "x", y']}),
        ("a,b,\n1,2,\n3,4,\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\n1,2\n\n3,4\n,\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a, b\n1, 2\n", {"a": ["1"], "b": ["2"]}),
        ("a,a,\n1,2,3\n", {"a": ["1"], "a_2": ["2"], "column_3": ["3"]}),
        ("a,b\nr1,1,2\nr2,3,4\n", {"row_names": ["r1", "r2"], "a": ["1", "3"], "b": ["2", "4"]}),
        ("# made up\na,b\n1,2\n", {"a": ["1"], "b": ["2"]}),
        ("sep=;\na;b\n1;2\n", {"a": ["1"], "b": ["2"]}),
        ("größe,b\n1,2\n".encode("cp1252"), {"größe": ["1"], "b": ["2"]}),
        ("größe,b\n1,2\n".encode("utf-16"), {"größe": ["1"], "b": ["2"]}),
    ],
)
def test_files_are_read(read, content, columns):
    assert dict(read(content).columns) == columns


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3: 1 fields, the header has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields, the header has 2"),
        ("a,b\n", "needs a header line and at least one row"),
        ("", "needs a header line and at least one row"),
        (b"PK\x03\x04\x00\x00", "is no text file"),
    ],
)
def test_what_cannot_be_read_is_refused(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


def test_settings_and_what_was_decided(read, tmp_path):
    assert read("a;b\n1;2\n", delimiter=",").columns == {"a;b": ["1;2"]}
    assert read("é\n1\n".encode("cp437"), encoding="cp437").columns == {"é": ["1"]}
    assert "read as cp1252" in read("é\n1\n".encode("cp1252")).notes
    german = read("a;b\n1,5;2\n3,25;4\n")
    assert german.decimal_comma
    assert "numbers have decimal commas" in german.notes
    with pytest.raises(ValueError, match="delimiter must be one character, got '::'"):
        read("a\n1\n", delimiter="::")
    with pytest.raises(ValueError, match="cannot be read as encoding 'utf-9'"):
        read("a\n1\n", encoding="utf-9")
    with pytest.raises(FileNotFoundError, match="no CSV file at"):
        read_csv_table(tmp_path / "nowhere.csv")


TABLE = "x;y;g\n1;2.5;a\n2;3.5;b\n3;4.5;a\n"


@pytest.mark.parametrize(
    ("above", "below", "notes"),
    [
        ("Sales 2023\n\n", "", ["left out above the header: the line 'Sales 2023'"]),
        ("Sales 2023;;\nby day;;\n;;\n", "", ["left out above the header: the line 'Sales 2023' and 1 more"]),
        ("", "\nSource: office\n", ["left out below the table: the line 'Source: office'"]),
        ("", "", []),
    ],
)
def test_titles_and_remarks_are_left_out(read, above, below, notes):
    found = read(above + TABLE + below)
    assert found.columns == {"x": ["1", "2", "3"], "y": ["2.5", "3.5", "4.5"], "g": ["a", "b", "a"]}
    assert [note for note in found.notes if "left out" in note] == notes


def test_headers_and_rows_with_gaps_stay(read):
    gappy = read("x,,\n1,2,3\n4,5,6\n")
    assert [len(cells) for cells in gappy.columns.values()] == [2, 2, 2]
    assert read("x,y\n1,\n2,\n3,4\n").columns == {"x": ["1", "2", "3"], "y": ["", "", "4"]}
    with pytest.raises(ValueError, match=r"line 4: 1 fields, the header has 2"):
        read("x,y\n1,2\n2,3\n3\n")


@pytest.mark.parametrize(
    ("content", "comma"),
    [
        ("a;b\n0,094;x\n1,506;y\n", True),  # no thousand begins with 0
        ("a;b\n2,094;3\n-1,506;4\n", True),  # what semicolons are for
        ("a;b\n2,094;3.5\n1,506;4.5\n", False),
        ("a;b\n2,094;1\n1,506,200;2\n", False),
        ("a;b\n2,094;1\n812;2\n", False),
        ("a\tb\n2,094\t1\n1,506\t2\n", False),
        ('a,b\n"2,094",1\n"1,506",2\n', False),
    ],
)
def test_a_comma_before_three_digits(read, content, comma):
    found = read(content)
    assert found.decimal_comma == comma
    assert any("1,234 is taken for 1.234" in note for note in found.notes) == (
        comma and "0,094" not in content
    )
