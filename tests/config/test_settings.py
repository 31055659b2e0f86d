"""Settings: who wins, what is refused, and that the reference file tells the truth."""

import dataclasses
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from pipeline.config import resources
from pipeline.config.loader import OtherTables, known_paths
from pipeline.config.measures import Bytes, Seconds
from pipeline.config.settings import Settings, load
from pipeline.errors import BadContract, BadSetting, BudgetTooSmall
from pipeline.joins import ALGORITHMS, JOINS, auto, inlj, meshjoin, rmeshjoin, xhybridjoin
from pipeline.plan import resolve


def settings(*assignments: str, file: Path | None = None, **environment: str) -> Settings:
    return load(file or resources.deployed("reference.toml"), assignments, environment)


def test_the_reference_file_is_exactly_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    reference = shutil.copy(resources.deployed("reference.toml"), tmp_path)
    told, defaults = load(reference, (), {}), load(tmp_path / "empty.toml", (), {})
    assert without_tables_of_joins(told) == defaults
    assert resolve(told).options("product").settings == {name: kind.Settings() for name, kind in ALGORITHMS.items()}


def without_tables_of_joins(settings: Settings) -> Settings:
    dimensions = {n: dataclasses.replace(d, joins=OtherTables()) for n, d in settings.dimensions.items()}
    return dataclasses.replace(settings, dimensions=dimensions)


def test_the_reference_file_names_every_setting_of_every_join() -> None:
    tables = settings().dimensions["product"].joins
    for name, algorithm in ALGORITHMS.items():
        assert set(tables[name]) == {field.name for field in dataclasses.fields(algorithm.Settings)}, name


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


def file_with(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "own.toml"
    file.write_text(text)
    return file


SHIPPED = ["product", "customer", "store"]


@pytest.mark.parametrize(
    ("in_file", "beside", "there"),
    [
        ("", [], SHIPPED),
        ("", ["store.memory=8 MiB"], SHIPPED),
        ("", ["store.memory=8 MiB", "store.batch=7"], SHIPPED),
        ("", ["store.contract=shop"], SHIPPED),
        ("", ["promotion.contract=promo"], ["promotion"]),
        ("", ["promotion.memory=8 MiB", "store.memory=8 MiB"], ["promotion", "store"]),
        ('[dimensions.promotion]\nmemory = "8 MiB"', [], ["promotion"]),
        ('[dimensions.promotion]\nmemory = "8 MiB"', ["promotion.memory=4 MiB"], ["promotion"]),
        ("[dimensions.promotion]\n[dimensions.store]\nbatch = 9", ["store.batch=4"], ["promotion", "store"]),
        ("[dimensions.store]", [], ["store"]),
        ("[dimensions]", ["store.batch=4"], SHIPPED),
    ],
)
def test_dimensions_are_those_that_are_named_and_what_changes_one_never_adds_one(
    tmp_path: Path, in_file: str, beside: list[str], there: list[str]
) -> None:
    as_environment = {
        f"MILLRACE_DIMENSIONS__{key.upper().replace('.', '__')}": value
        for key, _, value in (entry.partition("=") for entry in beside)
    }
    file = file_with(tmp_path, in_file)
    for loaded in (load(file, [f"dimensions.{b}" for b in beside], {}), load(file, (), as_environment)):
        assert list(loaded.dimensions) == there


def test_the_command_line_changes_the_dimension_it_names_and_no_other() -> None:
    dimensions = load(None, ["dimensions.store.memory=8 MiB"], {}).dimensions
    assert [d.memory for d in dimensions.values()] == [32 << 20, 32 << 20, 8 << 20]


@pytest.mark.parametrize(("name", "hint"), [("product", ""), ("promotio", "Did you mean promotion? ")])
def test_a_dimension_that_the_file_does_not_name_cannot_be_changed(tmp_path: Path, name: str, hint: str) -> None:
    file = file_with(tmp_path, "[dimensions.promotion]\n[dimensions.store]\n")
    with pytest.raises(BadSetting) as refusal:
        load(file, [f"dimensions.{name}.memory=8 MiB"], {})
    assert str(refusal.value) == (
        f"--set dimensions.{name}.memory: there is no dimensions.{name} to be changed. {file} names promotion, store. "
        f"{hint}A file that names any names them all: add [dimensions.{name}] to it."
    )


@pytest.mark.parametrize("assignment", ["dimensions=product", "dimensions.product=8 MiB", "kafka=here"])
def test_a_value_in_the_place_of_a_table_is_refused(assignment: str) -> None:
    with pytest.raises(BadSetting, match="must be a table"):
        load(None, [assignment], {})


def test_a_table_of_facts_for_dimensions_that_nobody_names_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadContract, match=r"is from dimension customer, and the settings name product\. Name it too"):
        resolve(load(file_with(tmp_path, "[dimensions.product]"), (), {}))


PLACES = (
    "job.checkpoint",
    "master.password_file",
    "master.tls_ca",
    "master.costs",
    "contracts.folder",
    "warehouse.path",
)


def places(loaded: Settings) -> dict[str, str]:
    return {path: getattr(getattr(loaded, path.split(".")[0]), path.split(".")[1]) for path in PLACES}


def test_a_relative_path_is_below_the_folder_of_what_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    own = file_with(home, "".join(f'{path} = "sub/../{path}"\n' for path in PLACES))
    (home / "empty.toml").touch()
    monkeypatch.chdir(elsewhere)
    assert places(load(own, (), {})) == {path: str(home / path) for path in PLACES}
    assert places(load("../home/own.toml", (), {})) == places(load(own, (), {}))
    assert load(home / "empty.toml", (), {}).warehouse.path == str(home / ".millrace" / "warehouse")
    assert load(None, (), {}).warehouse.path == str(elsewhere / ".millrace" / "warehouse")
    assert load(own, ["warehouse.path=lake"], {}).warehouse.path == str(elsewhere / "lake")
    assert load(own, (), {"MILLRACE_JOB__CHECKPOINT": "done"}).job.checkpoint == str(elsewhere / "done")


def test_absolute_paths_addresses_and_empty_texts_stay_as_they_are(tmp_path: Path) -> None:
    given = {
        "job.checkpoint": "/c",
        "warehouse.path": "s3a://lake/shop",
        "master.tls_ca": "",
        "contracts.folder": "~/c",
    }
    loaded = load(file_with(tmp_path, "".join(f'{path} = "{text}"\n' for path, text in given.items())), (), {})
    assert {**places(loaded), "contracts.folder": "~/c"}.items() >= given.items()
    assert loaded.contracts.folder == str(Path.home() / "c")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("MILLRACE_KAFKA_TOPICS", "Did you mean MILLRACE_KAFKA__TOPICS?"),
        ("MILLRACE_MASTER_PASSWORD_FILE", "Did you mean MILLRACE_MASTER__PASSWORD_FILE?"),
        ("MILLRACE_DIMENSIONS_PRODUCT_MEMORY", "Did you mean MILLRACE_DIMENSIONS__PRODUCT__MEMORY?"),
        ("MILLRACE_CONFG", "Did you mean MILLRACE_CONFIG?"),
        ("MILLRACE_QQQ", "is not known. A setting's parts are divided by two underscores"),
    ],
)
def test_a_variable_that_would_do_nothing_is_refused(variable: str, hint: str) -> None:
    with pytest.raises(BadSetting, match=f"environment variable {variable} is not known") as refusal:
        load(None, (), {variable: "x"})
    assert hint in str(refusal.value)


def test_the_variables_that_kubernetes_sets_for_a_service_of_our_name_are_not_ours() -> None:
    service = {"MILLRACE_SERVICE_HOST": "10.0.0.1", "MILLRACE_SERVICE_PORT": "80", "MILLRACE_PORT_80_TCP_ADDR": "x"}
    metrics = {"MILLRACE_METRICS_SERVICE_HOST": "10.0.0.2", "MILLRACE_METRICS_PORT": "tcp://10.0.0.2:9464"}
    assert load(None, (), {**service, **metrics, "MILLRACE_KAFKA__TOPICS": "a"}).kafka.topics == ("a",)


@pytest.mark.parametrize("others", [["kafka.topics=sales,returned"], ["kafka.topic_pattern=return"]])
def test_a_contract_for_a_topic_that_is_not_read_is_refused(others: list[str]) -> None:
    with pytest.raises(
        BadSetting, match=r"kafka\.contracts\.returns = 'return\.v1' must be for a topic that is read: "
    ):
        load(None, ["kafka.contracts.returns=return.v1", *others], {})


@pytest.mark.parametrize(
    "others", ["kafka.topics=sales,returns", "kafka.topic_pattern=ret.*", r"kafka.topic_pattern=\p{L}+"]
)
def test_a_contract_for_a_topic_that_may_be_read_is_taken(others: str) -> None:
    assert load(None, ["kafka.contracts.returns=return.v1", others], {}).kafka.contracts == {"returns": "return.v1"}


def test_only_the_settings_an_error_is_about_are_said_to_be_its_origin(tmp_path: Path) -> None:
    file = file_with(tmp_path, '[job]\nname = "x"\n[dimensions.store]\nbatch = 5\n')
    environment = {"MILLRACE_DIMENSIONS__STORE__MAX_STALENESS": "5 s"}
    with pytest.raises(BadSetting) as refusal:
        load(file, ["dimensions.store.skew=9", "kafka.topics=a"], environment)
    assert str(refusal.value).startswith("dimensions.store.skew = 9.0 must be Zipf's exponent")
    assert str(refusal.value).endswith("Given in: --set dimensions.store.skew.")
    with pytest.raises(BadSetting, match=r"Given in: --set worker\.window_bytes\.$"):
        load(file, ["worker.window_bytes=1 GiB", "job.name=y"], environment)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"algorithm": "magic"}, r"dimensions\.store\.algorithm = 'magic' must be one of: auto, inlj, meshjoin"),
        ({"algorithm": "cmeshjoin", "front_stage": "true"}, r"dimensions\.store\.front_stage = true must be false"),
        ({"front_stage": "true"}, "since auto has one of its own"),
    ],
)
def test_a_join_that_is_not_there_is_refused_by_the_plan(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadSetting, match=says):
        resolve(load(None, [f"dimensions.store.{key}={value}" for key, value in given.items()], {}))


def options_of_store(*assignments: str, file: Path | None = None, **environment: str) -> dict[str, typing.Any]:
    return dict(
        resolve(load(file, [f"dimensions.store.{a}" for a in assignments], environment)).options("store").settings
    )


def test_a_joins_own_settings_are_read_from_its_table_wherever_they_are_given(tmp_path: Path) -> None:
    file = tmp_path / "millrace.toml"
    tables = ["product", "customer", "store", "store.meshjoin", "store.x-hybridjoin"]
    file.write_text("".join(f"[dimensions.{table}]\n" for table in tables) + "d = 40\nl = 2\n")
    environment = {"MILLRACE_DIMENSIONS__STORE__R_MESHJOIN__B": "500"}
    given = options_of_store("x-hybridjoin.l=3", "inlj.batch=1", file=file, **environment)
    assert given == {
        "x-hybridjoin": xhybridjoin.Settings(d=40, l=3),
        "r-meshjoin": rmeshjoin.Settings(b=500),
        "inlj": inlj.Settings(batch=1),
        "meshjoin": meshjoin.Settings(),
    }


def test_batch_beside_the_algorithm_is_the_chosen_joins_own() -> None:
    assert options_of_store("algorithm=inlj", "batch=1") == {"inlj": inlj.Settings(batch=1)}
    assert options_of_store("batch=300") == {"auto": auto.Settings(batch=300)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            ["meshjoin.batch=1"],
            r"^--set dimensions\.store\.meshjoin\.batch: .*is not a setting. It has: b, w, k, published\.$",
        ),
        (
            ["algorithm=meshjoin", "batch=1"],
            r"batch = 1: meshjoin asks for no key .*it has .*\.meshjoin: b, w, k, published\.",
        ),
        (["algorithm=inlj", "batch=1", "inlj.batch=2"], "leave out one of them"),
        (["meshjion.b=1"], r"dimensions\.store\.meshjion is no join .* Did you mean meshjoin\?"),
        (["cmeshjoin.b=1"], r"cmeshjoin\.b is not a setting\. It has: h_R, threshold, published\."),
        (["cmeshjoin.h_R=-1"], r"dimensions\.store\.cmeshjoin\.h_R = -1 must be at least 0\. Given in: --set"),
        (["inlj.batch=0"], r"dimensions\.store\.inlj\.batch = 0 must be at least 1\. Given in: --set"),
        (["inlj.batch=few"], r"--set dimensions\.store\.inlj\.batch: .*must be a whole number"),
        (["memroy=1 MiB"], r"dimensions\.store\.memroy is not a setting"),
        # A job's budget is what is taken: to count as the papers do is for experiments.
        (["accounting=published"], r"dimensions\.store\.accounting is not a setting"),
    ],
)
def test_what_a_join_does_not_know_is_refused_by_name(given: list[str], says: str) -> None:
    with pytest.raises(BadSetting, match=says):
        options_of_store(*given)


def test_reading_settings_loads_neither_numpy_nor_pyarrow() -> None:
    loaded = "import sys, pipeline.config.settings; print(*{'numpy', 'pyarrow', 'pipeline.joins'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "\n"


def test_to_plan_and_to_ask_the_models_loads_no_compiler() -> None:
    """It takes a third of a second and a hundred megabytes, in a driver that joins nothing."""
    asked = (
        "import sys; from pipeline import joins; from pipeline.plan import resolve; "
        "from pipeline.config.settings import Settings; from pipeline.master.memory import MemoryMaster; "
        "R = MemoryMaster.of({b'a': 1}); plan = resolve(Settings()); plan.check_join('product', R); "
        "print(*{'numba', 'llvmlite'} & set(sys.modules)); "
        "plan.make_join('product', R).offer(*[R.table['surrogate_key'].to_numpy(), R.table['key'].combine_chunks()]); "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "\nTrue\n"


@pytest.mark.parametrize("front_stage", [False, True])
@pytest.mark.parametrize("algorithm", JOINS)
def test_a_memory_that_is_too_little_for_any_table_is_refused_without_a_table(
    algorithm: str, front_stage: bool
) -> None:
    if front_stage and JOINS[algorithm].has_front_stage:
        return
    of_store = {"algorithm": algorithm, "front_stage": str(front_stage).lower(), "memory": "1 KiB"}
    with pytest.raises(BudgetTooSmall, match=r"dimensions\.store\.memory = 1 KiB is too little") as refusal:
        resolve(load(None, [f"dimensions.store.{key}={value}" for key, value in of_store.items()], {}))
    least = re.search(r"needs ([\d,]+) bytes", str(refusal.value))
    assert least
    of_store["memory"] = least[1].replace(",", "")
    resolve(load(None, [f"dimensions.store.{key}={value}" for key, value in of_store.items()], {}))


def test_keys_with_dots_reach_the_kafka_client_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "millrace.toml"
    file.write_text('[kafka.client]\nsecurity.protocol = "SSL"\n"ssl.ca.location" = "/ca.pem"\n')
    assert settings(file=file).kafka.client == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("kafka.topcs=x", "Did you mean kafka.topics?"),
        ("dimensions.product.memory=lots", "must be a size such as 64 MiB"),
        ("job.max_offsets_per_trigger=0", "1 or more"),
        ("job.trigger=sometimes", "a period such as 2 s, or available-now"),
        ("warehouse.writer=pen", "arrow or spark"),
        ("kafka.topics=", "at least one topic"),
        ("worker.memory=100 MiB", "Raise worker.memory"),
        ("metrics.port=high", "a whole number"),
        ("metrics.port=65536", "to 65535"),
        ("master.port=0", "from 1 to 65535"),
        ("job.checkpoint=", "a folder or a URI"),
        ("warehouse.path=", "a folder or a URI"),
        ('kafka.starting_offsets={"sales": 3}', 'earliest, latest or offsets as {"sales": {"0": 17}}'),
        ("kafka.starting_offsets={sales", "earliest, latest or offsets as"),
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
    broken.write_text("job = " + "[" * 5_000)
    with pytest.raises(BadSetting, match=r"broken\.toml is not TOML: nested too deep"):
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
    assert float(Seconds.parse("30 d")) == 30 * 24 * 3600


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


@pytest.mark.parametrize(
    ("algorithm", "published", "order"),
    [
        ("x-hybridjoin", "true", "by frequency"),
        ("x-hybridjoin", "false", "scattered"),
        ("hybridjoin", "true", "scattered"),
    ],
)
def test_only_who_sets_x_hybridjoin_as_published_says_that_the_rows_wanted_most_come_first(
    algorithm: str, published: str, order: str
) -> None:
    told = [f"dimensions.store.algorithm={algorithm}", f"dimensions.store.{algorithm}.published={published}"]
    assert resolve(load(None, told, {})).options("store").order == order
