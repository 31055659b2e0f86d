"""The registry of joins: one line each, chosen by name in the settings. `make` is the only way to a join."""

from pipeline.joins import join
from pipeline.joins.auto import AUTO
from pipeline.joins.cachejoin import CACHEJOIN, SSCJ
from pipeline.joins.cmeshjoin import CMESHJOIN
from pipeline.joins.cost.door import with_offers
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Relation
from pipeline.joins.fetch import Fetch
from pipeline.joins.frontstage import SETTINGS, FrontStage, before
from pipeline.joins.hybridjoin import HybridJoin
from pipeline.joins.inlj import INLJ
from pipeline.joins.join import Join
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.partitioned import PartitionedJoin
from pipeline.joins.recipe import Options, Recipe, relation
from pipeline.joins.rmeshjoin import ReducedMeshJoin
from pipeline.joins.ssij import SemiStreamingIndexJoin
from pipeline.joins.xhybridjoin import X_HYBRIDJOIN
from pipeline.master.port import Master

JOINS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        AUTO,
        INLJ,
        Recipe.of(MeshJoin),
        Recipe.of(ReducedMeshJoin),
        CMESHJOIN,
        Recipe.of(HybridJoin),
        X_HYBRIDJOIN,
        CACHEJOIN,
        SSCJ,
        Recipe.of(PartitionedJoin),
        Recipe.of(SemiStreamingIndexJoin),
    )
}
_STAGED = {behind.name: before(behind) for behind in JOINS.values() if not behind.has_front_stage}
_PARTS = (Recipe.of(Fetch), before(Recipe.of(Fetch)))  # no joins for a user, but measured and tested alone
_ALL = JOINS | {recipe.name: recipe for recipe in (*_STAGED.values(), *_PARTS)}
# With settings: [dimensions.<d>.<name>].
ALGORITHMS = {recipe.main.name: recipe.main for recipe in JOINS.values()} | {SETTINGS: FrontStage}

USUAL = Options()

__all__ = [
    "ALGORITHMS",
    "JOINS",
    "USUAL",
    "Join",
    "Options",
    "Prediction",
    "Recipe",
    "check",
    "least_memory",
    "make",
    "predict",
    "recipe",
    "relation",
    "with_front_stage",
]


def with_front_stage(name: str) -> str:
    """The name of this join behind a front stage."""
    return _STAGED[name].name


def recipe(name: str) -> Recipe:
    """By its name in the registry, behind a front stage as `with_front_stage` says it."""
    return _ALL[name]


def make(name: str, master: Master, memory: int, options: Options = USUAL) -> Join:
    """The join of this name. Refuses a budget it cannot work in, and a table it cannot read."""
    return Join(_ALL[name], master, memory, options)


def check(name: str, master: Master, memory: int, options: Options = USUAL) -> None:
    """Refuse what `make` would refuse, and make nothing."""
    join.check(_ALL[name], master, memory, options)


def least_memory(name: str, R: Relation, options: Options = USUAL) -> int:
    """The least memory it takes."""
    return options.accounting.memory_for(_ALL[name].model.least(_ALL[name].question(0, R, options)))


def predict(name: str, memory: int, R: Relation, options: Options = USUAL) -> Prediction:
    """What the cost model says of it."""
    question = _ALL[name].question(memory, R, options)
    return question.caps.held(with_offers(_ALL[name].model.predict(question), question))
