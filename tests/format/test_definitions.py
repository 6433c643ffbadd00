"""Definition files, and the wire format of all messages."""

import hashlib
import itertools

import pytest
from google.protobuf.descriptor import FieldDescriptor

from olympia_cli.errors import Damaged
from olympia_cli.format.definitions import Digest, body, check_digest, decode, encode
from olympia_cli.format.pb import actions_pb2, objects_pb2
from olympia_cli.format.pb.objects_pb2 import (
    CatalogDef,
    DistributedTransactionDef,
    IsolationLevel,
    NamespaceDef,
    TableDef,
    ViewDef,
)

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


def integrity(content, file=FILE):
    return field(1000, field(1, file) + field(2, hashlib.sha256(content).digest()))


class TestDigest:
    @pytest.mark.parametrize("cls", EVERY)
    def test_a_definition_reads_back_verified(self, cls):
        content = body(cls(id="i"))
        data = encode(content, PATH)
        definition = decode(cls, data, PATH)
        assert definition.id == "i"
        assert check_digest(data, PATH) is Digest.VERIFIED
        assert body(definition) == content

    def test_the_bytes_are_those_of_the_format(self):
        content = field(1, "i") + entry(3, "a", "1") + entry(3, "b", "2") + field(4, "s3://b/m.json")
        assert body(TABLE) == content
        assert encode(content, PATH) == content + integrity(content)

    @pytest.mark.parametrize("length", [1, 90, 91, 92, 93, 200, 249, 300])
    def test_names_of_any_length_fit(self, length):
        path = "def/ns/" + "x" * length
        data = encode(field(1, "i"), path)
        assert data == field(1, "i") + integrity(field(1, "i"), "x" * length)
        assert check_digest(data, path) is Digest.VERIFIED

    def test_equal_definitions_have_equal_bodies(self):
        keys = [f"key{number}" for number in range(50)]
        one = NamespaceDef(id="i", properties=dict.fromkeys(keys, "v"))
        other = NamespaceDef(id="i", properties=dict.fromkeys(reversed(keys), "v"))
        assert body(one) == body(other)
        assert body(decode(NamespaceDef, encode(body(one), PATH), PATH)) == body(one)

    def test_without_one_a_definition_is_unverified(self):
        data = body(TABLE)
        assert check_digest(data, PATH) is Digest.ABSENT

    def test_one_made_for_another_file_says_nothing(self):
        content = body(TABLE)
        other = PATH.replace("0b1e2d3c-4f5a-4678", "77c7aace-baef-434a")
        for data in (content + integrity(content), content + field(5, "changed") + integrity(content)):
            assert check_digest(data, other) is Digest.ABSENT

    def test_one_that_is_not_the_last_field_any_more_says_nothing(self):
        content = body(TABLE)
        for data in (integrity(content) + content, content + integrity(content) + field(5, "added")):
            definition = decode(TableDef, data, PATH)
            assert definition.iceberg_metadata_location == "s3://b/m.json"
            assert check_digest(data, PATH) is Digest.ABSENT

    def test_a_file_rewritten_by_a_program_that_keeps_our_field_is_unverified(self):
        # what a protobuf library without our field does: known fields first, unknown ones behind, ours among them
        content = body(TABLE)
        data = field(1, "i") + field(4, "s3://b/other.json") + integrity(content) + entry(3, "a", "1")
        assert check_digest(data, PATH) is Digest.ABSENT

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
        data = content + integrity(field(1, "i") + field(4, "s3://b/m.json"))
        assert check_digest(data, PATH) is Digest.MISMATCH
        with pytest.raises(Damaged, match=r"not what its digest says|it has no id") as caught:
            decode(TableDef, data, PATH)
        assert caught.value.path == PATH

    def test_one_that_is_wrong_is_damage(self):
        data = field(1, "i") + field(1000, field(1, FILE) + field(2, b"\0" * 32))
        with pytest.raises(Damaged, match="not what its digest says"):
            decode(TableDef, data, PATH)

    @pytest.mark.parametrize("sha256", [b"", b"x", b"\0" * 31, b"\0" * 33], ids=len)
    def test_one_that_is_no_digest_verifies_nothing(self, sha256):
        data = field(1, "i") + field(1000, field(1, FILE) + field(2, sha256))
        assert check_digest(data, PATH) is not Digest.VERIFIED


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
    def test_what_is_no_protobuf_is_damage(self, data):
        with pytest.raises(Damaged, match="it is not a TableDef") as caught:
            decode(TableDef, data, PATH)
        assert caught.value.exit_code == 40

    @pytest.mark.parametrize("cls", EVERY)
    @pytest.mark.parametrize("data", [b"", field(99, "x"), integrity(b"")], ids=["nothing", "no id", "only a digest"])
    def test_a_definition_without_an_id_is_damage(self, cls, data):
        with pytest.raises(Damaged):
            decode(cls, data, PATH)

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_a_file_cut_short_is_damage_or_unverified_up_to_the_cut(self, definition):
        cls = type(definition)
        data = encode(body(definition), PATH)
        for length in range(len(data)):
            try:
                found = decode(cls, data[:length], PATH)
            except Damaged:
                continue
            assert check_digest(data[:length], PATH) is Digest.ABSENT
            assert data.startswith(found.SerializeToString(deterministic=True))

    @pytest.mark.parametrize("definition", [TABLE, VIEW, CATALOG], ids=["table", "view", "catalog"])
    def test_no_flipped_byte_makes_another_definition(self, definition):
        cls = type(definition)
        data = encode(body(definition), PATH)
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


UNKNOWN = [field(99, "text"), field(100, 12345), varint(101 << 3 | 1) + b"12345678", varint(102 << 3 | 5) + b"1234"]


class TestUnknownFields:
    @pytest.mark.parametrize("cls", EVERY)
    def test_they_survive_a_rewrite_and_the_digest_stays_last(self, cls):
        content = field(1, "i") + b"".join(UNKNOWN) + field(1999, b"\0\xff")
        definition = decode(cls, content + integrity(content), PATH)
        again = encode(body(definition), "def/x/other.binpb")
        for unknown in [*UNKNOWN, field(1999, b"\0\xff")]:
            assert again.count(unknown) == 1
        assert again.endswith(integrity(body(definition), "other.binpb"))
        assert again.count(varint(1000 << 3 | 2)) == 1
        found = decode(cls, again, "def/x/other.binpb")
        assert check_digest(again, "def/x/other.binpb") is Digest.VERIFIED
        assert body(found) == body(definition)

    def test_they_survive_a_change(self):
        content = field(1, "i") + entry(3, "a", "1") + field(99, "new")
        definition = decode(TableDef, content + integrity(content), PATH)
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
        assert [shown(descriptor) for descriptor in MESSAGES["Integrity"].fields] == ["file=1:string", "sha256=2:bytes"]
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

    def test_a_catalog_definition_made_by_hand(self):
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
