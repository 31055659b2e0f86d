"""The registry of joins: one line each, chosen by name in the settings."""

from pipeline.joins.base import Join
from pipeline.joins.inlj import IndexNestedLoopJoin

JOINS: dict[str, type[Join]] = {
    IndexNestedLoopJoin.name: IndexNestedLoopJoin,
}
