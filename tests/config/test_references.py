"""A secret is read where it is used; settings only say where that is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pipeline.config.settings import Settings, load
from pipeline.driver.preflight import that_travel
from pipeline.errors import BadSetting
from pipeline.kafka.client import client_of

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="shop" password="{}";'
SECRET = 'p;w "1" \\ ü'


def settings(folder: Path, password: str) -> Settings:
    file = folder / "my.toml"
    file.write_text(
        "[kafka.client]\n"
        '"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "SCRAM-SHA-512"\n'
        f"\"sasl.jaas.config\" = '{JAAS.format(password)}'\n"
    )
    return load(file, environment={})


@pytest.mark.parametrize("password", ["${file:kafka.password}", "${env:SHOP_PASSWORD}"])
def test_a_reference_stays_one_until_a_client_is_made(
    tmp_path: Path, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kafka.password").write_text(f"{SECRET}\n")
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    given = settings(tmp_path, password)
    monkeypatch.chdir("/")  # a relative file is below the folder of the settings
    assert SECRET.encode() not in pickle.dumps(given)
    assert SECRET not in repr(given)
    assert that_travel(given) == []
    login = client_of("kafka:1", pickle.loads(pickle.dumps(given)).kafka.java).login
    assert login is not None
    assert (login.user, login.password) == ("shop", SECRET)


def test_what_is_not_there_is_told_by_setting_and_place_where_it_is_wanted(tmp_path: Path) -> None:
    for password, says in (
        ("${file:nowhere}", r"kafka\.client: sasl\.jaas\.config wants the file .*/nowhere, .* here: No such file"),
        ("${env:NO_SUCH_VARIABLE}", r"sasl\.jaas\.config wants the environment variable NO_SUCH_VARIABLE"),
    ):
        given = settings(tmp_path, password)
        with pytest.raises(BadSetting, match=says):
            given.kafka.java  # noqa: B018


def test_secrets_that_travel_with_the_plan_are_known_by_name() -> None:
    given = load(
        None,
        [
            "master.password=x",
            "warehouse.storage_options.AWS_SECRET_ACCESS_KEY=x",
            "warehouse.storage_options.AWS_REGION=x",
        ],
        {},
    )
    assert that_travel(given) == ["master.password", "warehouse.storage_options.AWS_SECRET_ACCESS_KEY"]
    assert that_travel(load(None, ["master.password_file=x", "metrics.token_file=x"], {})) == []
