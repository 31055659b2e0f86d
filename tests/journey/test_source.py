"""What Spark's Kafka source is told, and who has the last word."""

from __future__ import annotations

from pipeline import source
from pipeline.config.settings import KafkaSettings

TIMES = {"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "20000", "fetchOffset.numRetries": "9"}


def times(kafka: KafkaSettings) -> dict[str, str]:
    return {name: value for name, value in source._options(kafka).items() if "timeout" in name or "Retries" in name}


def test_a_leader_that_is_gone_is_given_up_after_twenty_seconds_of_planning_unless_the_settings_say_otherwise() -> None:
    assert times(KafkaSettings()) == TIMES
    own = KafkaSettings(client_java={"request.timeout.ms": "40000"})
    assert times(own) == {"kafka.request.timeout.ms": "40000"}


def test_where_spark_reads_itself_it_waits_as_kafka_does() -> None:
    assert times(KafkaSettings(reader="spark")) == {}
