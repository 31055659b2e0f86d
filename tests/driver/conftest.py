from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.config.settings import Settings
from pipeline.driver.session import open_session


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()
