"""Definition files, and the wire format of all messages."""

import hashlib
import itertools
import random

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from olympia_cli.errors import Damaged
from olympia_cli.format.definitions import (
    Digest,
    bare,
    body,
    check_digest,
    decode,
    encode,
    examine,
    remains,
    written_as,
)
from olympia_cli.format.pb import actions_pb2, objects_pb2
from olympia_cli.format.pb.objects_pb2 import (
    CatalogDef,
    DistributedTransactionDef,
    IsolationLevel,
    NamespaceDef,
    TableDef,
    ViewDef,
)
from tests.helpers.damage import flipped
from tests.helpers.damage_sample import digest_last

PATH = "def/table/0b1e2d3c-4f5a-4678-9abc-def012345678-n-t.binpb"
FILE = PATH.rpartition("/")[2]
TABLE = TableDef(id="i", properties={"b": "2", "a": "1"}, iceberg_metadata_location="s3://b/m.json")
VIEW = ViewDef(id="i", default_namespace_name="n", properties={"a": "1"}, substrait_read_rel=b"\x00\x01\x02\x03")
CATALOG = CatalogDef(id="i", order=128, properties={"a": "1"})
EVERY = [CatalogDef, NamespaceDef, TableDef, ViewDef, DistributedTransactionDef]

# A protobuf encoder of its own, so that nothing here depends on the generated code


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """A field on the wire: a number as a varint, anything else with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(number, key, value):
    """An entry of a map."""
    return field(number, field(1, key) + field(2, value))


def fixed32(number, value):
    return varint(number << 3 | 5) + value.to_bytes(4, "little")


def integrity(content, file=FILE):
    """The first field of a file."""
    sha256 = hashlib.sha256(content).digest()
    return field(1000, field(1, file) + field(2, sha256) + fixed32(3, len(content)))


def older_integrity(content, file=FILE):
    """The last field of an older program's file."""
    return field(1000, field(1, file) + field(2, hashlib.sha256(content).digest()))


class TestDigest:
    @pytest.mark.parametrize("cls", EVERY)
    def test_a_definition_reads_back_verified(self, cls):
        content = body(cls(id="i"))
        data = encode(content, PATH)
        definition, verified = examine(cls, data, PATH)
        assert definition.id == "i"
        assert verified
        assert check_digest(data, PATH) is Digest.VERIFIED
        assert body(definition) == content

    def test_the_bytes_are_those_of_the_format(self):
        content = field(1, "i") + entry(3, "a", "1") + entry(3, "b", "2") + field(4, "s3://b/m.json")
        assert body(TABLE) == content
        assert encode(content, PATH) == integrity(content) + content

    @pytest.mark.parametrize("length", [1, 85, 86, 87, 88, 90, 127, 128, 200, 211, 212, 249, 300])
    def test_names_of_any_length_fit(self, length):
        path = "def/ns/" + "x" * length
        data = encode(field(1, "i"), path)
        assert data == integrity(field(1, "i"), "x" * length) + field(1, "i")
        assert check_digest(data, path) is Digest.VERIFIED

    def test_equal_definitions_have_equal_bodies(self):
        keys = [f"key{number}" for number in range(50)]
        one = NamespaceDef(id="i", properties=dict.fromkeys(keys, "v"))
        other = NamespaceDef(id="i", properties=dict.fromkeys(reversed(keys), "v"))
        assert body(one) == body(other)
        assert body(decode(NamespaceDef, encode(body(one), PATH), PATH)) == body(one)

    def test_without_one_a_definition_is_unverified(self):
        assert examine(TableDef, body(TABLE), PATH) == (TABLE, False)

    def test_a_copy_of_another_file_is_damage(self):
        data = encode(body(TABLE), PATH)
        other = PATH.replace("0b1e2d3c-4f5a-4678", "77c7aace-baef-434a")
        assert check_digest(data, other) is Digest.MISMATCH
        with pytest.raises(Damaged, match=f"it is a copy of '{FILE}'"):
            decode(TableDef, data, other)
        assert written_as(TableDef, data) == FILE
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, data + field(5, "changed"), other)
        assert written_as(TableDef, data + field(5, "changed")) == ""

    def test_another_program_that_knows_no_field_1000_writes_it_last(self):
        """Google's own library writes unknown fields at the end."""
        upstreams = without_integrity(TableDef)
        data = encode(body(TABLE), PATH)
        known = upstreams.FromString(data)
        known.iceberg_metadata_location = "s3://b/other.json"
        again = known.SerializeToString(deterministic=True)
        assert again.endswith(integrity(body(TABLE)))
        for path in (PATH, PATH.replace("0b1e2d3c", "77c7aace")):
            definition, verified = examine(TableDef, again, path)
            assert (definition.iceberg_metadata_location, verified) == ("s3://b/other.json", False)

    def test_one_that_is_not_the_first_field_says_nothing(self):
        content = body(TABLE)
        for data in (content + integrity(content), field(1, "i") + integrity(content) + field(4, "s3://b/m.json")):
            definition, verified = examine(TableDef, data, PATH)
            assert (definition.iceberg_metadata_location, verified) == ("s3://b/m.json", False)

    @pytest.mark.parametrize(
        "content",
        [
            field(1, "j") + field(4, "s3://b/m.json"),
            field(1, "i") + field(4, "s3://b/m.jsox"),
            field(1, "i"),
            b"",
            field(1, "i") + field(4, "s3://b/m.json") + field(77, "x"),
            field(4, "s3://b/m.json") + field(1, "i"),
        ],
    )
    def test_another_content_is_damage(self, content):
        data = integrity(field(1, "i") + field(4, "s3://b/m.json")) + content
        assert check_digest(data, PATH) is Digest.MISMATCH
        with pytest.raises(Damaged, match=r"checksum mismatch|truncated") as caught:
            decode(TableDef, data, PATH)
        assert (caught.value.path, caught.value.code) == (PATH, "F304")

    @pytest.mark.parametrize("size", [0, 1, 2**32 - 1])
    def test_a_size_that_is_not_that_of_the_content_is_damage(self, size):
        content = body(TABLE)
        data = field(1000, field(1, FILE) + field(2, hashlib.sha256(content).digest()) + fixed32(3, size)) + content
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, data, PATH)

    @pytest.mark.parametrize("sha256", [b"", b"x", b"\0" * 31, b"\0" * 32, b"\0" * 33], ids=len)
    def test_one_that_is_wrong_is_damage(self, sha256):
        content = field(1, "i")
        data = field(1000, field(1, FILE) + field(2, sha256) + fixed32(3, len(content))) + content
        assert check_digest(data, PATH) is Digest.MISMATCH
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, data, PATH)

    def test_definition_path_that_is_not_unicode_can_be_examined(self):
        path = "def/table/\udc80.binpb"
        assert examine(TableDef, body(TABLE), path) == (TABLE, False)
        with pytest.raises(Damaged):
            decode(TableDef, encode(body(TABLE), PATH), path)


def without_integrity(cls):
    """The message as another program has it that knows only the fields of the format."""
    file = descriptor_pb2.FileDescriptorProto()
    objects_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = "upstream.proto"
    for message in file.message_type:
        for number in reversed(range(len(message.field))):
            if message.field[number].number >= 1000:
                del message.field[number]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(cls.DESCRIPTOR.full_name))


class TestOlderDigest:
    """The digest of an older program is the last field. Names are UUIDs of version 4, and later of version 8."""

    VERSION_8 = PATH.replace("-4678-", "-8678-")
    PATHS = pytest.mark.parametrize("path", [PATH, VERSION_8], ids=["version 4", "version 8"])

    @PATHS
    @pytest.mark.parametrize("cls", EVERY)
    def test_a_definition_reads_verified(self, cls, path):
        content = field(1, "i")
        data = content + older_integrity(content, path.rpartition("/")[2])
        assert examine(cls, data, path) == (cls.FromString(data), True)
        assert digest_last(content, path) == data

    @pytest.mark.parametrize("length", [1, 90, 91, 92, 93, 200, 249, 300])
    def test_names_of_any_length_fit(self, length):
        path = "def/ns/" + "x" * length
        data = field(1, "i") + older_integrity(field(1, "i"), "x" * length)
        assert check_digest(data, path) is Digest.VERIFIED

    def test_a_digest_made_for_another_file_counts_as_absent(self):
        content = body(TABLE)
        other = PATH.replace("0b1e2d3c-4f5a-4678", "77c7aace-baef-434a")
        for data in (content + older_integrity(content), content + field(5, "changed") + older_integrity(content)):
            assert check_digest(data, other) is Digest.ABSENT

    def test_one_that_is_not_the_last_field_any_more_says_nothing(self):
        content = body(TABLE)
        data = content + older_integrity(content) + field(5, "added")
        definition = decode(TableDef, data, PATH)
        assert definition.iceberg_metadata_location == "s3://b/m.json"
        assert check_digest(data, PATH) is Digest.ABSENT

    def test_a_file_rewritten_by_a_program_that_keeps_our_field_is_unverified(self):
        # what a protobuf library without our field does: known fields first, unknown ones behind, ours among them
        content = body(TABLE)
        data = field(1, "i") + field(4, "s3://b/other.json") + older_integrity(content) + entry(3, "a", "1")
        assert check_digest(data, PATH) is Digest.ABSENT

    @pytest.mark.parametrize("data", [body(TABLE), body(TABLE)[:3]], ids=["rewritten", "cut"])
    def test_without_one_a_file_of_version_8_is_damage(self, data):
        assert check_digest(data, self.VERSION_8) is Digest.ABSENT
        with pytest.raises(Damaged, match="its checksum is missing") as caught:
            decode(TableDef, data, self.VERSION_8)
        assert caught.value.code == "F304"
        assert decode(TableDef, data, PATH).id == "i"

    @PATHS
    @pytest.mark.parametrize(
        "content",
        [
            field(1, "j") + field(4, "s3://b/m.json"),
            field(1, "i") + field(4, "s3://b/m.jsox"),
            field(1, "i"),
            b"",
            field(1, "i") + field(4, "s3://b/m.json") + field(77, "x"),
            field(4, "s3://b/m.json") + field(1, "i"),
        ],
    )
    def test_another_content_is_damage(self, content, path):
        # without a content the field stands at the head of the file
        data = content + older_integrity(field(1, "i") + field(4, "s3://b/m.json"), path.rpartition("/")[2])
        assert check_digest(data, path) is Digest.MISMATCH
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, data, path)

    def test_one_that_is_wrong_is_damage(self):
        data = field(1, "i") + field(1000, field(1, FILE) + field(2, b"\0" * 32))
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, data, PATH)

    @pytest.mark.parametrize("sha256", [b"", b"x", b"\0" * 31, b"\0" * 33], ids=len)
    def test_one_that_is_no_digest_verifies_nothing(self, sha256):
        data = field(1, "i") + field(1000, field(1, FILE) + field(2, sha256))
        assert check_digest(data, PATH) is not Digest.VERIFIED

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_a_file_cut_short_is_damage_or_unverified_up_to_the_cut(self, definition):
        cls = type(definition)
        data = digest_last(body(definition), PATH)
        for length in range(len(data)):
            try:
                found = decode(cls, data[:length], PATH)
            except Damaged:
                continue
            assert check_digest(data[:length], PATH) is Digest.ABSENT
            assert data.startswith(found.SerializeToString(deterministic=True))

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_a_file_of_version_8_cut_short_is_damage(self, definition):
        data = digest_last(body(definition), self.VERSION_8)
        for length in range(len(data)):
            with pytest.raises(Damaged):
                decode(type(definition), data[:length], self.VERSION_8)

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_no_flipped_byte_makes_another_definition(self, definition):
        cls = type(definition)
        data = digest_last(body(definition), PATH)
        fields = [descriptor.name for descriptor in cls.DESCRIPTOR.fields if descriptor.name != "integrity"]
        for at, flip in itertools.product(range(len(data)), range(1, 256)):
            flipped = bytearray(data)
            flipped[at] ^= flip
            try:
                found = decode(cls, bytes(flipped), PATH)
            except Damaged:
                continue
            for name in fields:
                assert getattr(found, name) == getattr(definition, name), f"byte {at} with {flip:#x}: {name}"


class TestDamage:
    @pytest.mark.parametrize(
        "data",
        [
            *[
                b"\xff",
                b"\x0a",
                b"\x0a\x05abc",
                b"\x07",
                b"\x0a\x01\xff",
                b"\0\0",
                b"ARROW1",
                b"{}",
                b"\x1a\x02\x0a\x05",
            ],
            *[field(1000, b"\xff"), field(1000, field(1, b"\xff")), body(TABLE)[:-1]],
        ],
    )
    def test_invalid_protobuf_is_damage(self, data):
        with pytest.raises(Damaged, match="it is not a TableDef") as caught:
            decode(TableDef, data, PATH)
        assert caught.value.exit_code == 40

    @pytest.mark.parametrize("cls", EVERY)
    @pytest.mark.parametrize("data", [b"", field(99, "x"), integrity(b"")], ids=["nothing", "no id", "only a digest"])
    def test_a_definition_without_an_id_is_damage(self, cls, data):
        with pytest.raises(Damaged):
            decode(cls, data, PATH)

    @pytest.mark.parametrize("cls", EVERY)
    def test_each_kind_of_file_has_its_codes(self, cls):
        data = encode(field(1, "i") + field(99, "x"), PATH)
        changed = flipped(data, len(data) - 1)
        for broken, code in ((b"", "F302"), (data[:9], "F303"), (data[:-1], "F303"), (changed, "F304")):
            with pytest.raises(Damaged) as caught:
                decode(cls, broken, PATH)
            assert caught.value.code == {CatalogDef: "F307", DistributedTransactionDef: "F501"}.get(cls, code)

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_a_file_cut_short_is_damage(self, definition):
        """Wherever it is cut: what is left of the field at its head cannot be parsed, or names the size."""
        data = encode(body(definition), PATH)
        head = len(data) - len(body(definition))
        for length in range(len(data)):
            with pytest.raises(Damaged) as caught:
                decode(type(definition), data[:length], PATH)
            told = caught.value.reason == f"truncated: {length} of {len(data)} bytes"
            assert told is (length >= head), (length, caught.value.reason)

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_every_flipped_byte_is_damage(self, definition):
        data = encode(body(definition), PATH)
        for at, flip in itertools.product(range(len(data)), range(1, 256)):
            with pytest.raises(Damaged) as caught:
                decode(type(definition), data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :], PATH)
            assert "truncated" not in caught.value.reason, (at, flip)

    @pytest.mark.parametrize("others", [0, 1, 2, 8, 20])
    def test_changed_bytes_at_the_head_hide_no_other_content(self, others):
        """The tag of the field is another one, so a parser takes the field for one that it does not know."""
        numbers = random.Random(others)
        content = body(TABLE)
        data = bytearray(encode(content, PATH).replace(b"m.json", b"x.json"))
        head = len(data) - len(content)
        data[1] ^= 1
        for at in numbers.sample(range(5, head - 37), others):
            data[at] = numbers.randrange(256)
        assert TableDef.FromString(data).iceberg_metadata_location == "s3://b/x.json"
        assert not TableDef.FromString(data).HasField("integrity")
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode(TableDef, bytes(data), PATH)

    def test_a_truncated_definition_reports_its_size_with_thousands_separators(self):
        data = encode(body(TableDef(id="i", properties={"a": "x" * 5000})), PATH)
        with pytest.raises(Damaged, match=r"truncated: 4,000 of 5,\d\d\d bytes"):
            decode(TableDef, data[:4000], PATH)


class TestRemains:
    """The rest of a definition that lost its end."""

    def test_the_fields_before_the_cut(self):
        data = encode(body(TABLE), PATH)
        found = [remains(TableDef, data[:length], PATH) for length in range(len(data))]
        left = [bare(one) for one in found if one is not None]
        assert left == [
            TableDef(id="i"),
            TableDef(id="i", properties={"a": "1"}),
            TableDef(id="i", properties={"a": "1", "b": "2"}),
        ]

    def test_the_fields_before_the_cut_of_an_older_file(self):
        data = digest_last(body(TABLE), PATH)
        found = [remains(TableDef, data[:length], PATH) for length in range(len(data))]
        assert [bare(one) for one in found if one is not None][-1] == TABLE

    def test_nothing_where_bytes_have_changed(self):
        for data in (encode(body(TABLE), PATH), digest_last(body(TABLE), PATH)):
            for at in range(len(data)):
                assert remains(TableDef, flipped(data, at), PATH) is None, at

    def test_nothing_of_another_file(self):
        assert remains(TableDef, encode(body(TABLE), "def/table/other.binpb"), PATH) is None

    def test_all_of_another_programs(self):
        assert remains(TableDef, body(TABLE), PATH) == TABLE


UNKNOWN = [field(99, "text"), field(100, 12345), varint(101 << 3 | 1) + b"12345678", varint(102 << 3 | 5) + b"1234"]


class TestUnknownFields:
    @pytest.mark.parametrize("cls", EVERY)
    def test_they_survive_a_rewrite_and_the_digest_stays_first(self, cls):
        content = field(1, "i") + b"".join(UNKNOWN) + field(1999, b"\0\xff")
        definition = decode(cls, integrity(content) + content, PATH)
        again = encode(body(definition), "def/x/other.binpb")
        for unknown in [*UNKNOWN, field(1999, b"\0\xff")]:
            assert again.count(unknown) == 1
        assert again.startswith(integrity(body(definition), "other.binpb"))
        assert again.count(varint(1000 << 3 | 2)) == 1
        found = decode(cls, again, "def/x/other.binpb")
        assert check_digest(again, "def/x/other.binpb") is Digest.VERIFIED
        assert body(found) == body(definition)

    def test_they_survive_a_change(self):
        content = field(1, "i") + entry(3, "a", "1") + field(99, "new")
        definition = decode(TableDef, integrity(content) + content, PATH)
        definition.properties["a"] = "2"
        definition.iceberg_metadata_location = "s3://b/other.json"
        assert body(definition) == field(1, "i") + entry(3, "a", "2") + field(4, "s3://b/other.json") + field(99, "new")

    def test_they_survive_deep_inside(self):
        column = field(1, 7) + field(2, "c") + field(55, "new") + field(9, field(2, "element") + field(56, "newer"))
        content = field(1, "i") + field(4, field(1, column) + field(57, "newest"))
        assert body(decode(ViewDef, content, PATH)).count(b"new") == 3

    def test_numbers_that_an_enum_does_not_know_survive(self):
        content = field(1, "i") + field(2, 7)
        definition = decode(TableDef, content, PATH)
        assert definition.table_format == 7
        assert body(definition) == content


# The wire facts, message by message: name, number, type. R marks repeated fields.

FACTS = {
    "ObjectDef": "type=1:ObjectType def=2:bytes namespaceName=3:string namespaceObjectName=4:string",
    "CatalogDef": "id=1:string major_version=2:uint32 order=3:uint32 namespace_name_max_size_bytes=4:uint32 "
    "table_name_max_size_bytes=5:uint32 view_name_max_size_bytes=6:uint32 node_file_max_size_bytes=7:uint64 "
    "properties=8:map txn_ttl_millis=9:uint64 txn_isolation_level=10:IsolationLevel exported_snapshots=11:map",
    "NamespaceDef": "id=1:string properties=2:map",
    "TableDef": "id=1:string table_format=2:TableFormat properties=3:map iceberg_metadata_location=4:string "
    "iceberg_previous_metadata_location=5:string",
    "ViewDef": "id=1:string view_format=2:ViewFormat schema_binding=3:bool schema=4:Schema "
    "default_namespace_name=5:string referenced_object_full_names=6:R:NamespaceObjectFullName properties=7:map "
    "substrait_read_rel=8:bytes",
    "DistributedTransactionDef": "id=1:string isolation_level=2:IsolationLevel beginning_root_node_file_path=3:string "
    "running_root_node_file_path=4:string began_at_millis=5:uint64 expire_at_millis=6:uint64",
    "NamespaceObjectFullName": "namespace_name=1:string name=2:string",
    "Schema": "columns=1:R:Column",
    "Column": "id=1:uint32 name=2:string type=3:DataType nullable=4:bool properties=5:map struct_fields=6:R:Column "
    "map_key=7:Column map_value=8:Column list_element=9:Column",
    "ActionDef": "object_def=1:ObjectDef type=2:ActionType def=3:bytes",
    "NamespaceSetPropertiesDef": "keys=1:R:string",
    "NamespaceUnsetPropertiesDef": "keys=1:R:string",
    "TableAlterAddColumnsDef": "column_names=1:R:string",
    "TableAlterRemoveColumnsDef": "column_names=1:R:string",
    "TableInsertDef": "iceberg_data_files_json=1:R:string selects=2:R:TableSelectContext",
    "TableUpdateDef": "iceberg_added_data_files_json=1:R:string iceberg_removed_data_files_json=2:R:string "
    "iceberg_expression_json=3:string selects=4:R:TableSelectContext",
    "TableDeleteDef": "iceberg_data_files_json=1:R:string selects=2:R:TableSelectContext",
    "TableSelectDef": "column_names=1:R:string iceberg_expression_json=2:string",
    "TableSelectContext": "namespaceName=1:string tableName=2:string select_context=3:TableSelectDef",
}
ENUMS = {
    "ObjectType": "CATALOG NAMESPACE TABLE VIEW DISTRIBUTED_TRANSACTION",
    "IsolationLevel": "SNAPSHOT SERIALIZABLE",
    "TableFormat": "ICEBERG",
    "ViewFormat": "SUBSTRAIT",
    "DataType": "BOOLEAN INT2 INT4 INT8 DECIMAL FLOAT4 FLOAT8 CHAR VARCHAR DATE TIME3 TIME6 TIME9 TIMETZ3 TIMETZ6 "
    "TIMETZ9 TIMESTAMP3 TIMESTAMP6 TIMESTAMP9 TIMESTAMPTZ3 TIMESTAMPTZ6 TIMESTAMPTZ9 FIXED BINARY STRUCT MAP LIST",
    "ActionType": "CATALOG_SNOW_NAMESPACES NAMESPACE_EXISTS NAMESPACE_DESCRIBE NAMESPACE_CREATE NAMESPACE_ALTER "
    "NAMESPACE_ALTER_SET_PROPERTIES NAMESPACE_ALTER_UNSET_PROPERTIES NAMESPACE_DROP NAMESPACE_SHOW_TABLES "
    "NAMESPACE_SHOW_VIEWS TABLE_EXISTS TABLE_DESCRIBE TABLE_SELECT TABLE_CREATE TABLE_ALTER TABLE_ALTER_ADD_COLUMNS "
    "TABLE_ALTER_REMOVE_COLUMNS TABLE_INSERT TABLE_UPDATE TABLE_DELETE TABLE_DROP VIEW_EXISTS VIEW_DESCRIBE "
    "VIEW_CREATE VIEW_REPLACE VIEW_DROP",
}
OWN_ACTIONS = {
    "CATALOG_CREATE": 1000,
    "CATALOG_ALTER": 1001,
    "CATALOG_ROLLBACK": 1002,
    "CATALOG_EXPORT": 1003,
    "CATALOG_COMPACT": 1004,
    "CATALOG_REPAIR": 1005,
    "COMMIT_INFO": 1006,
    "NAMESPACE_RENAME": 1007,
    "TABLE_RENAME": 1008,
    "TABLE_RESTORE": 1009,
    "VIEW_RENAME": 1010,
    "CATALOG_EXPIRE_MARK": 1011,
    "CATALOG_EXPIRE_UNDO": 1012,
    "CATALOG_EXPIRE_PURGE": 1013,
}
DIGEST = {"integrity": 1000}
INTEGRITY = "file=1:string sha256=2:bytes size=3:fixed32"
OWN_FIELDS = {
    "ViewDef": {"iceberg_metadata_location": 1001, "iceberg_previous_metadata_location": 1002},
    "ActionDef": {"merged": 1000},
}
OWN_VALUES = {"ViewFormat": {"ICEBERG_VIEW": 1000}}
MESSAGES = {**objects_pb2.DESCRIPTOR.message_types_by_name, **actions_pb2.DESCRIPTOR.message_types_by_name}
ENUM_TYPES = {**objects_pb2.DESCRIPTOR.enum_types_by_name, **actions_pb2.DESCRIPTOR.enum_types_by_name}
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
}


def shown(descriptor):
    """A field as the table above writes it."""
    message = descriptor.message_type
    if message is not None and message.GetOptions().map_entry:
        assert [shown(part) for part in message.fields] == ["key=1:string", "value=2:string"]
        return f"{descriptor.name}={descriptor.number}:map"
    named = message if message is not None else descriptor.enum_type
    type_name = named.name if named is not None else SCALARS[descriptor.type]
    return f"{descriptor.name}={descriptor.number}:{'R:' if descriptor.is_repeated else ''}{type_name}"


class TestWireFacts:
    def test_the_packages_are_upstreams(self):
        assert objects_pb2.DESCRIPTOR.package == "org.format.olympia.proto.objects"
        assert actions_pb2.DESCRIPTOR.package == "org.format.olympia.proto.actions"

    @pytest.mark.parametrize("message", FACTS)
    def test_fields_are_upstreams_and_ours_begin_at_1000(self, message):
        fields = MESSAGES[message].fields
        assert [shown(descriptor) for descriptor in fields if descriptor.number < 1000] == FACTS[message].split()
        ours = {descriptor.name: descriptor.number for descriptor in fields if descriptor.number >= 1000}
        assert ours.items() <= {**DIGEST, **OWN_FIELDS.get(message, {})}.items()

    @pytest.mark.parametrize("enum", ENUMS)
    def test_numbers_of_enums_are_upstreams_and_ours_begin_at_1000(self, enum):
        values = {value.name: value.number for value in ENUM_TYPES[enum].values}
        assert {name: number for name, number in values.items() if number < 1000} == {
            name: number for number, name in enumerate(ENUMS[enum].split())
        }
        if enum != "ActionType":
            assert {name: number for name, number in values.items() if number >= 1000} == OWN_VALUES.get(enum, {})

    def test_our_actions_have_the_numbers_of_the_format(self):
        values = {value.name: value.number for value in ENUM_TYPES["ActionType"].values}
        assert OWN_ACTIONS.items() <= values.items()
        assert len(set(values.values())) == len(values)

    def test_the_digest_has_the_fields_of_the_format(self):
        assert [shown(descriptor) for descriptor in MESSAGES["Integrity"].fields] == INTEGRITY.split()
        for cls in EVERY:
            assert shown(cls.DESCRIPTOR.fields_by_name["integrity"]) == "integrity=1000:Integrity"

    @pytest.mark.parametrize("message", FACTS)
    def test_bytes_made_by_hand_are_read_field_by_field(self, message):
        module = objects_pb2 if message in objects_pb2.DESCRIPTOR.message_types_by_name else actions_pb2
        cls = getattr(module, message)
        for fact in FACTS[message].split():
            name, _, rest = fact.partition("=")
            number, *repeated, kind = rest.split(":")
            at = int(number)
            if kind == "map":
                found = getattr(cls.FromString(entry(at, "k", "v") + entry(at, "l", "w")), name)
                assert dict(found) == {"k": "v", "l": "w"}
                continue
            value, wire = sample(kind)
            found = getattr(cls.FromString(field(at, wire)), name)
            if repeated:
                assert list(found) == [value]
                assert len(getattr(cls.FromString(field(at, wire) * 2), name)) == 2
            else:
                assert found == value
            other = cls.FromString(field(at, wire))
            assert other.SerializeToString() == field(at, wire)

    def test_a_hand_made_catalog_definition_decodes_to_its_fields(self):
        data = b"".join(
            [
                *[field(1, "id"), field(3, 128), field(4, 100), field(5, 101), field(6, 102), field(7, 1 << 40)],
                *[entry(8, "p", "q"), field(9, 259_200_000), field(10, 1), entry(11, "nightly", "s3://b/vn/0")],
            ]
        )
        assert decode(CatalogDef, data, PATH) == CatalogDef(
            id="id",
            order=128,
            namespace_name_max_size_bytes=100,
            table_name_max_size_bytes=101,
            view_name_max_size_bytes=102,
            node_file_max_size_bytes=1 << 40,
            properties={"p": "q"},
            txn_ttl_millis=259_200_000,
            txn_isolation_level=IsolationLevel.SERIALIZABLE,
            exported_snapshots={"nightly": "s3://b/vn/0"},
        )


def sample(kind):
    """A value of a type, as Python has it and as the wire has it (a number, or the bytes behind a length)."""
    if kind in ENUM_TYPES:
        # zero is not written, and the enums of formats have nothing else; an open enum keeps what it does not know
        return 1, 1
    if kind in MESSAGES:
        module = objects_pb2 if kind in objects_pb2.DESCRIPTOR.message_types_by_name else actions_pb2
        wire = (
            field(2, "x") if kind in ("NamespaceObjectFullName", "Column", "TableSelectContext", "ObjectDef") else b""
        )
        return getattr(module, kind).FromString(wire), wire
    return {
        "string": ("é漢\U0001f600", "é漢\U0001f600"),
        "bytes": (b"\0\xff", b"\0\xff"),
        "bool": (True, 1),
        "uint32": (2**32 - 1, 2**32 - 1),
        "uint64": (2**64 - 1, 2**64 - 1),
    }[kind]
