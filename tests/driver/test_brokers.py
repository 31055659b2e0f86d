"""Topics are made and listed on any broker, and a broker that is not there is told once."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from confluent_kafka import KafkaException

from pipeline import cli
from pipeline.config.settings import KafkaSettings
from pipeline.driver.brokers import Brokers, NoBroker, TopicRefused
from pipeline.driver.topics import Topics
from pipeline.errors import BadSetting
from pipeline.laptop.stack.stack import Stack


def millrace(stack: Stack, *words: str) -> object:
    with pytest.raises(SystemExit) as left:
        cli.main(["--set", f"kafka.bootstrap={stack.kafka.bootstrap}", *words])
    return left.value.code


def test_a_topic_is_made_listed_and_not_made_twice(
    stack: Stack, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert millrace(stack, "topic", "create", topic, "--partitions", "3") == 0
    assert stack.kafka.topics()[topic] == 3
    capsys.readouterr()
    assert millrace(stack, "topic", "list") == 0
    assert f"{topic} 3" in capsys.readouterr().out.splitlines()
    assert millrace(stack, "topic", "create", topic) == 2
    assert f"millrace: topic {topic} is there already" in capsys.readouterr().err
    assert stack.kafka.topics()[topic] == 3


def test_a_name_the_broker_refuses_is_told_with_its_reason(stack: Stack) -> None:
    with pytest.raises(TopicRefused, match=r"topic no/slash cannot be made at .*: Topic name is invalid"):
        Brokers(stack.kafka.bootstrap).create("no/slash", 1)


def test_a_setting_that_the_client_does_not_know_is_refused(stack: Stack) -> None:
    with pytest.raises(BadSetting, match=r'No such configuration property: "colour"\. Correct \[kafka\.client\]'):
        Brokers(stack.kafka.bootstrap, {"colour": "red"})


def test_a_broker_that_is_not_there_is_told_once_with_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        NoBroker, match=r"no Kafka broker answers at .*:1 within 1 s \(Connect .* Connection refused\)\."
    ):
        Brokers("127.0.0.1:1", within=1).topics()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("ask", ["ids", "extents", "backlog"])
def test_a_broker_that_is_frozen_is_always_told_as_kafkas_word_which_callers_are_patient_with(ask: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never says anything
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        topics = Topics(KafkaSettings(bootstrap=address, topics=("sales",)), within=0.3)
        with pytest.raises(KafkaException):
            topics.ids() if ask == "ids" else getattr(topics, ask)({"sales": {"0": 1}})


def test_two_who_ask_a_frozen_broker_at_once_do_not_take_the_answer_from_each_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as other:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        topics = Topics(KafkaSettings(bootstrap=address, topics=("sales",)), within=1.0)
        first = other.submit(topics.backlog, {"sales": {"0": 1}})
        assert not wait([first], timeout=0.5).done
        began = time.monotonic()
        with pytest.raises(KafkaException):
            topics.ids()
        assert isinstance(first.exception(), KafkaException)
        assert time.monotonic() - began < 5.0, "the one who came first had its client taken away"
