"""A master table against its contract: every departure is a sentence, and no odd row passes for a miss."""

import pyarrow as pa
import pytest

from pipeline.config.contracts import Contracts
from pipeline.errors import BadContract
from pipeline.keys import pack
from tests.kit.master_fixtures import COLUMNS, Server, dimension

pytestmark = pytest.mark.mysql


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def test_the_shipped_dimensions_fit_their_tables(server):
    for name in ("product", "customer", "store"):
        server.execute(Contracts().ddl(name))
        assert server.master(Contracts().dimension(name)).verify() == []


@pytest.mark.parametrize("surrogate", ["NULL", "-1"])
def test_a_row_without_a_surrogate_key_of_its_own_is_an_error_not_a_miss(server, surrogate):
    server.table("code VARCHAR(9)", [["a"], ["b"]])
    server.execute(f"UPDATE t SET sk = {surrogate} WHERE code = 'b'")
    master = server.master(dimension({"code": "string"}))
    with pytest.raises(BadContract, match=f"t.sk is {surrogate} where code = 'b'.* Correct that row"):
        master.lookup(pack([pa.array(["a", "b"])]))


def test_a_value_that_is_no_value_of_the_contracts_type_is_named(server):
    server.table("n BIGINT UNSIGNED", [[2**63]])
    master = server.master(dimension({"n": "int64"}))
    [note] = master.verify()
    assert "t.n is BIGINT" in note
    assert "Set the type of this natural key, and of the sale's field, to uint64" in note
    with pytest.raises(BadContract, match=r"t\.n: a value is no int64 \(.*9223372036854775808"):
        master.page(None, None, 1)


OF_COLUMNS = [
    ("code VARCHAR(9), PRIMARY KEY (code)", {"nr": "int64"}, r"t\.nr: the contract of dimension thing"),
    ("code VARCHAR(9), PRIMARY KEY (code)", {"code": "int64"}, r"t\.code is VARCHAR\(9\), .* Set its type to string"),
    ("code INT, PRIMARY KEY (code)", {"code": "string"}, r"t\.code is INT.*, .* Set its type to int64"),
    ("code VARBINARY(9), PRIMARY KEY (code)", {"code": "string"}, r"Set its type to binary"),
    ("u BIGINT, PRIMARY KEY (u)", {"u": "uint64"}, r"t\.u is BIGINT.*, .* Set its type to int64"),
    ("u VARCHAR(9), PRIMARY KEY (u)", {"u": "uint64"}, r"t\.u is VARCHAR\(9\), .* Set its type to string"),
    ("code ENUM('a'), PRIMARY KEY (code)", {"code": "string"}, r"A key of this kind needs CHAR or VARCHAR"),
]
OF_INDEXES = [
    ("code VARCHAR(9)", {"code": "string"}, r"on exactly \(code\).*ADD UNIQUE INDEX \(code\)"),
    ("code VARCHAR(9), KEY (code)", {"code": "string"}, r"no usable unique index"),
    ("code VARCHAR(9), UNIQUE KEY (code(3))", {"code": "string"}, r"no usable unique index"),
    ("code VARCHAR(9), n INT, UNIQUE KEY (code, n)", {"code": "string"}, r"no usable unique index"),
    ("code VARCHAR(9), n INT, UNIQUE KEY (n)", {"code": "string", "n": "int64"}, r"exactly \(code, n\)"),
]


@pytest.mark.parametrize(("ddl", "key", "sentence"), OF_COLUMNS + OF_INDEXES)
def test_a_table_that_breaks_the_contract_is_refused_with_a_sentence(server, ddl, key, sentence):
    server.execute(f"CREATE TABLE t ({COLUMNS}, {ddl})")
    master = server.master(dimension(key))
    with pytest.raises(BadContract, match=sentence):
        master.verify()


@pytest.mark.parametrize(("ddl", "key", "sentence"), OF_COLUMNS)
def test_a_table_whose_columns_break_the_contract_is_not_read_either(server, ddl, key, sentence):
    server.execute(f"CREATE TABLE t ({COLUMNS}, {ddl})")
    master = server.master(dimension(key))
    for read in (lambda: master.scan(None, 1), lambda: master.page(None, None, 1), lambda: master.unique):
        with pytest.raises(BadContract, match=sentence):
            read()


def test_a_view_is_not_told_to_change_itself(server):
    server.table("code VARCHAR(9)", [["a"]])
    server.execute("CREATE VIEW v AS SELECT * FROM t")
    master = server.master(dimension({"code": "string"}, table="v"))
    sentence = (
        r"^v is a view, .* Name the table behind it in the contract of dimension thing .* unique index on \(code\)"
    )
    for look in (master.verify, lambda: master.verify(needs_unique_index=False), master.statistics):
        with pytest.raises(BadContract, match=sentence) as refused:
            look()
        assert "ALTER TABLE" not in str(refused.value)


def test_every_violation_is_told_at_once(server):
    server.execute("CREATE TABLE t (code INT, sk VARCHAR(9), changed DATE, price VARCHAR(9))")
    with pytest.raises(BadContract) as refused:
        server.master(dimension({"code": "string"}, {"price": pa.decimal128(18, 2)})).verify()
    sentences = str(refused.value).splitlines()
    assert [sentence.split()[0] for sentence in sentences] == ["t.code", "t.sk", "t.changed", "t.price", "t"]


def test_names_of_tables_and_columns_are_only_ever_names(server):
    server.execute(
        "CREATE TABLE `a``; DROP TABLE t -- x` (`k``ey` INT PRIMARY KEY, sk INT, changed DATETIME, `sélect 'x'` INT)"
    )
    server.execute("INSERT INTO `a``; DROP TABLE t -- x` VALUES (1, 2, NOW(), 3)")
    contract = dimension({"K`EY": "int64"}, {"sélect 'x'": pa.int32()}, "a`; DROP TABLE t -- x")
    assert server.master(contract).lookup(pa.array([1])).to_pylist()[0]["sélect 'x'"] == 3


def test_a_table_that_is_not_there_is_refused(server):
    with pytest.raises(BadContract, match=r"nowhere: there is no such table.*grant SELECT"):
        server.master(dimension({"n": "int64"}, table="nowhere")).verify()
