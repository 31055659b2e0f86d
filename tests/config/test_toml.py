"""What is written as TOML is read again as it was, whatever it is."""

import stat

from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import toml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # halves of a character are no text
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
VALUES = st.recursive(TEXTS | NUMBERS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES)))
def test_what_is_written_is_read_again(tables):
    assert toml.loads(toml.written(tables)) == tables


def test_a_file_that_may_hold_passwords_is_its_owners_alone(tmp_path):
    file = tmp_path / "my.toml"
    for password in ("hush", 'a"b\\c\n'):
        toml.write_private(file, "Written by a test.", {"master": {"password": password}})
        assert toml.loads(file.read_text("utf-8")) == {"master": {"password": password}}
        assert file.read_text("utf-8").startswith("# Written by a test.\n[master]\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
