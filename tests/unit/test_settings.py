"""Settings: who wins, what is refused, and that the reference file tells the truth."""

import dataclasses
import typing
from pathlib import Path

import pytest

from pipeline import resources
from pipeline.errors import BadSetting
from pipeline.settings import Settings, load
from pipeline.settings_loader import Bytes, Seconds, known_paths


def settings(*assignments: str, file: Path | None = None, **environment: str) -> Settings:
    return load(file or resources.deployed("reference.toml"), assignments, environment)


def test_the_reference_file_is_exactly_the_defaults() -> None:
    assert load(resources.deployed("reference.toml"), (), {}) == Settings()


def test_the_reference_file_names_every_setting() -> None:
    text = resources.deployed("reference.toml").read_text("utf-8")
    tables = {path for path in known_paths(Settings) if path.startswith(("kafka.contracts", "kafka.client"))}
    for path in set(known_paths(Settings)) - tables:
        key = path.rsplit(".", 1)[-1]
        assert f"\n{key} = " in text or f".{key}]" in text, path


def test_the_command_line_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "millrace.toml"
    file.write_text('[job]\nname = "file"\n[kafka]\nbootstrap = "file:1"\ntopics = ["file"]\n')
    environment = {"MILLRACE_KAFKA__BOOTSTRAP": "env:1", "MILLRACE_KAFKA__TOPICS": "a, b"}
    loaded = settings("kafka.topics=c", file=file, **environment)
    assert (loaded.job.name, loaded.kafka.bootstrap, loaded.kafka.topics) == ("file", "env:1", ("c",))


def test_naming_one_dimension_in_a_file_replaces_the_default_ones(tmp_path: Path) -> None:
    file = tmp_path / "millrace.toml"
    file.write_text('[dimensions.promotion]\nmemory = "8 MiB"\n')
    assert list(settings(file=file).dimensions) == ["promotion"]


def test_the_command_line_changes_one_dimension_and_keeps_the_others() -> None:
    dimensions = load(None, ["dimensions.store.memory=8 MiB"], {}).dimensions
    assert {n: d.memory for n, d in dimensions.items()} == {
        "product": 32 << 20,
        "customer": 32 << 20,
        "store": 8 << 20,
    }


def test_keys_with_dots_reach_the_kafka_client_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "millrace.toml"
    file.write_text('[kafka.client]\nsecurity.protocol = "SSL"\n"ssl.ca.location" = "/ca.pem"\n')
    assert settings(file=file).kafka.client == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("kafka.topcs=x", "Did you mean kafka.topics?"),
        ("dimensions.product.memory=lots", "must be a size such as 64 MiB"),
        ("dimensions.product.algorithm=magic", "one of: auto, inlj, meshjoin"),
        ("job.max_offsets_per_trigger=0", "1 or more"),
        ("job.trigger=sometimes", "a period such as 2 s, or available-now"),
        ("warehouse.writer=pen", "arrow or spark"),
        ("kafka.topics=", "at least one topic"),
        ("worker.memory=100 MiB", "Raise worker.memory"),
        ("metrics.port=high", "a whole number"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_origin_and_remedy(assignment: str, says: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        load(None, [assignment], {})
    key, _, _ = assignment.partition("=")
    assert says in str(refusal.value)
    assert key.rsplit(".", 1)[-1] in str(refusal.value)
    assert f"--set {key}" in str(refusal.value)


def test_a_file_that_is_not_toml_or_not_there_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[job\n")
    with pytest.raises(BadSetting, match=r"broken\.toml is not TOML"):
        settings(file=broken)
    with pytest.raises(BadSetting, match="does not exist"):
        settings(file=tmp_path / "nowhere.toml")


def test_a_password_is_never_printed() -> None:
    loaded = settings("master.password=hunter2")
    assert loaded.master.password == "hunter2"
    assert "hunter2" not in repr(loaded)
    with pytest.raises(BadSetting) as refusal:
        settings("master.password=hunter2", "master.port=x")
    assert "hunter2" not in str(refusal.value)


def test_sizes_and_durations_read_and_print_the_same() -> None:
    for text in ("1 GiB", "64 MiB", "3 KiB", "17 B"):
        assert str(Bytes.parse(text)) == text
    assert [float(Seconds.parse(t)) for t in ("500 ms", "2 s", "1.5 min", "1 h", "3")] == [0.5, 2, 90, 3600, 3]


def test_every_leaf_of_the_tree_is_of_a_type_the_loader_knows() -> None:
    known = (str, int, float, bool, Bytes, Seconds)

    def leaves(tree: type) -> None:
        for field in dataclasses.fields(tree):
            kind = typing.get_type_hints(tree)[field.name]
            if dataclasses.is_dataclass(kind):
                leaves(kind)
            else:
                assert kind in known or typing.get_origin(kind) in (tuple, dict) or issubclass(kind, str), kind

    leaves(Settings)
