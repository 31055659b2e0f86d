"""What is attached to a question says all that is asked for, and no secret, wherever one may have got to."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.config.settings import load
from pipeline.doctor import bundle
from pipeline.doctor.examine import Line
from pipeline.doctor.findings import warning
from pipeline.plan import resolve
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import make_warehouse

SECRETS = {
    "master.password": "hunter-two-and-more",
    "kafka.client.\"sasl.jaas.config\"": 'org.x.PlainLoginModule required username="u" password="jaas-pass-word";',
    "kafka.client_java.\"ssl.keystore.key\"": "-----BEGIN PRIVATE KEY----- keystore-key",
    "warehouse.storage_options.AZURE_STORAGE_ACCOUNT_KEY": "YWNjb3VudC1rZXk9PQ==",
    "spark.conf.\"spark.hadoop.fs.s3a.secret.key\"": "s3a-secret-value",
    "kafka.client_librdkafka.\"sasl.password\"": "${file:kafka.password}",
}  # fmt: skip
WORDS = (
    "hunter-two-and-more",
    "jaas-pass-word",
    "keystore-key",
    "YWNjb3VudC1rZXk9PQ==",
    "s3a-secret-value",
    "file-pass",
    'refer"red-to',
    "shown-token-of-metrics",
)


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        return {
            entry.name.partition("/")[2]: (opened.extractfile(entry) or pytest.fail(entry.name)).read().decode()
            for entry in opened
        }


def settings_file(folder: Path) -> Path:
    """A settings file with a secret in every place that may hold one."""
    (folder / "password").write_text("file-pass\n")
    (folder / "kafka.password").write_text('refer"red-to\n')
    (folder / "token").write_text("shown-token-of-metrics\n")
    lines = ['kafka.bootstrap = "127.0.0.1:1"', "master.port = 1", 'master.password_file = "password"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in SECRETS.items()]
    lines += [
        'metrics.token_file = "token"',
        'kafka.client."security.protocol" = "SASL_SSL"',
        'warehouse.path = "lake"',
    ]
    file = folder / "my.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_archive_holds_what_is_asked_for_and_none_of_the_secrets(tmp_path: Path) -> None:
    settings = load(settings_file(tmp_path), [], {})
    plan = resolve(settings)
    plain = load(None, [f"warehouse.path={tmp_path / 'lake'}"], {}).warehouse
    tables = make_warehouse(plain, plan.facts, [plan.rejects], settings.job.name, None)
    tables.prepare()
    tables.commit(Batch(0, [], {}, {"ends": {"sales": {"0": 7}}}))
    log = tmp_path / "job.log"
    connected = 'connected with jaas-pass-word, refer"red-to, shown-token-of-metrics and file-pass'
    log.write_text(f"password=whatever-else\n{connected}\nthe last line\n")
    examined = [Line("kafka topics", warning("a warning with hunter-two-and-more", "its remedy"))]
    bundle.write(tmp_path / "shop.tar.gz", settings, examined, [log])
    found = contents(tmp_path / "shop.tar.gz")
    assert (tmp_path / "shop.tar.gz").stat().st_mode & 0o077 == 0
    for name, text in found.items():
        assert not [word for word in (*WORDS, "whatever-else") if word in text], name
    shown = dict(line.partition(" = ")[::2] for line in found["settings.txt"].splitlines())
    assert shown["master.password"] == "***"
    assert shown["kafka.client.sasl.jaas.config"] == "***"
    assert shown["kafka.client.security.protocol"] == "SASL_SSL"
    assert shown["dimensions.product.algorithm"] == "auto"
    assert "pyspark 4.2.0" in found["versions.txt"]
    assert found["plan.txt"].startswith("application  millrace")
    assert found["doctor.txt"] == "warning\tkafka topics\ta warning with *** its remedy\n"
    assert found["metrics.txt"].startswith("no job answers at")
    assert json.loads(found["batches.json"])[0]["note"] == {"ends": {"sales": {"0": 7}}}
    assert found["log-1-job.log"].endswith("the last line\n")


def test_it_is_written_where_servers_are_down_and_no_file_is_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "shop.tar.gz"
    words = ["bundle", str(archive), "--within", "0.3", "--config", str(settings_file(tmp_path))]
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 0
    assert "shop/doctor.txt" in capsys.readouterr().out.split()
    assert "failure\tkafka topics\t" in contents(archive)["doctor.txt"]
    before = archive.read_bytes()
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 2
    assert "is there already; it was left as it is" in capsys.readouterr().err
    assert archive.read_bytes() == before
