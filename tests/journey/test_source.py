"""What Spark's Kafka source is told, and who has the last word."""

from __future__ import annotations

from pipeline import source
from pipeline.config.settings import KafkaSettings


def test_a_broker_that_hangs_is_given_up_after_ten_seconds_unless_the_settings_say_otherwise() -> None:
    assert source._options(KafkaSettings())["kafka.request.timeout.ms"] == "10000"
    own = KafkaSettings(client_java={"request.timeout.ms": "40000"})
    assert source._options(own)["kafka.request.timeout.ms"] == "40000"
