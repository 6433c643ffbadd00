"""Action rows: what a commit did, and what survives a rewrite."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olympia_cli.errors import Damaged
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, commit_info, decode_action, encode_action
from olympia_cli.format.definitions import encode
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.pb.actions_pb2 import ActionDef, ActionType, CommitInfoDef, RenameDef
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, ObjectDef, ObjectType, TableDef
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
KEYS = KeyCodec(100, 100, 100)
ODD = [
    "a",
    ".",
    "..",
    "/",
    '"',
    "\\",
    "=",
    "é",
    "漢",
    "\U0001f600",
    "\U0010ffff",
    "\x80",
    "\xa0",
    "catalog_def",
    "B===",
]
NAMES = st.one_of(
    st.sampled_from(ODD),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=[chr(code) for code in (*range(0x21), 0x7F)]),
        min_size=1,
        max_size=20,
    ),
)
OBJECTS = st.one_of(
    st.none(), st.builds(NamespaceName, NAMES), st.builds(TableName, NAMES, NAMES), st.builds(ViewName, NAMES, NAMES)
)
CREATE = Action(ActionType.TABLE_CREATE, TableName("n", "t"), definitions.body(TableDef(id="i")), b"payload")


def row(message):
    return b64encode(message.SerializeToString()).decode()


def plain(action):
    return action.type, action.name, action.definition, action.payload


class TestRoundTrips:
    @QUICK
    @given(st.sampled_from(ActionType.values()), OBJECTS, st.binary(max_size=40), st.binary(max_size=40))
    def test_an_action_reads_back(self, type, name, definition, payload):
        action = Action(type, name, definition, payload)
        key, value = encode_action(action, KEYS)
        found = decode_action(key, value, "vn/x")
        assert plain(found) == plain(action)
        assert encode_action(found, KEYS) == (key, value)
        assert key == ("catalog_def" if name is None else KEYS.encode(name))
        assert value.isascii()

    @pytest.mark.parametrize("name", ODD, ids=ascii)
    def test_names_with_odd_characters_read_back(self, name):
        for of in (NamespaceName(name), TableName(name, name), ViewName(name, name)):
            key, value = encode_action(Action(ActionType.TABLE_CREATE, of), KEYS)
            assert decode_action(key, value, "vn/x").name == of

    def test_the_row_is_that_of_the_format(self):
        key, value = encode_action(CREATE, KEYS)
        assert key == "C===n" + " " * 99 + "t" + " " * 99
        message = ActionDef.FromString(b64decode(value, validate=True))
        assert message.type == ActionType.TABLE_CREATE
        assert getattr(message, "def") == b"payload"
        assert message.object_def == ObjectDef(
            type=ObjectType.TABLE, namespaceName="n", namespaceObjectName="t", **{"def": b"\x0a\x01i"}
        )

    def test_catalog_action_is_stored_under_the_key_catalog_def(self):
        key, value = encode_action(Action(ActionType.CATALOG_ALTER, None, b"d", b"p"), KEYS)
        assert key == "catalog_def"
        assert ActionDef.FromString(b64decode(value)).object_def.type == ObjectType.CATALOG

    def test_the_definition_in_an_action_is_tied_to_no_file(self):
        namespace = NamespaceDef(id="i", properties={"a": "1"})
        file = encode(definitions.body(namespace), "def/ns/x.binpb")
        assert definitions.body(NamespaceDef.FromString(file)) == definitions.body(namespace)


class TestNewerPrograms:
    @pytest.mark.parametrize("type", [26, 999, 1999, 2**31 - 1])
    def test_an_unknown_action_type_survives(self, type):
        message = ActionDef(type=type, object_def=ObjectDef(type=ObjectType.NAMESPACE, namespaceName="n"))
        action = decode_action(KEYS.encode(NamespaceName("n")), row(message), "vn/x")
        assert action.type == type
        assert action.type_name == str(type)
        assert action.name == NamespaceName("n")
        assert encode_action(action, KEYS) == (KEYS.encode(NamespaceName("n")), row(message))

    def test_unknown_fields_survive(self):
        # field 77 of the action, and field 78 of its object
        message = ActionDef.FromString(
            ActionDef(type=ActionType.NAMESPACE_DROP).SerializeToString()
            + b"\x0a\x0c\x08\x01\x1a\x01n\xf2\x04\x04deep"
            + b"\xea\x04\x03new"
        )
        assert message.object_def.namespaceName == "n"
        action = decode_action("key", row(message), "vn/x")
        key, value = encode_action(action, KEYS)
        assert key == KEYS.encode(NamespaceName("n"))
        assert ActionDef.FromString(b64decode(value)) == message
        assert b"deep" in b64decode(value)
        assert b64decode(value).endswith(b"\xea\x04\x03new")

    @pytest.mark.parametrize("type", [ObjectType.DISTRIBUTED_TRANSACTION, 5, 64])
    def test_an_object_of_an_unknown_type_survives(self, type):
        message = ActionDef(
            type=2000, object_def=ObjectDef(type=type, namespaceName="n", namespaceObjectName="o", **{"def": b"d"})
        )
        action = decode_action("F===n", row(message), "vn/x")
        _, value = encode_action(action, KEYS)
        assert ActionDef.FromString(b64decode(value)) == message

    def test_a_payload_that_cannot_be_read_is_an_empty_one(self):
        action = Action(ActionType.COMMIT_INFO, None, b"\xff", b"\xff")
        assert action.parse_payload(CommitInfoDef) == CommitInfoDef()
        assert action.parse_definition() is None
        assert action.id == ""


class TestDamage:
    @pytest.mark.parametrize(
        "value",
        [
            *[
                "x",
                "xx",
                "xxx",
                "====",
                "AA=",
                "A===",
                "AAAA\n",
                " AAAA",
                "AA AA",
                "é",
                "\U0001f600AAA",
                "\0",
                "AA==AA==",
            ],
            *["AAAA=", "CgE_", "CgE-", "{}", b64encode(b"\xff\xff").decode(), b64encode(b"\x0a\x05").decode()],
        ],
        ids=ascii,
    )
    def test_an_action_row_that_cannot_be_decoded_is_damage(self, value):
        with pytest.raises(Damaged, match="its action row for 'C===n' cannot be decoded") as caught:
            decode_action("C===n  ", value, "vn/x")
        assert caught.value.path == "vn/x"
        assert caught.value.exit_code == 40

    @pytest.mark.parametrize(
        "found",
        [
            ObjectDef(type=ObjectType.NAMESPACE),
            ObjectDef(type=ObjectType.TABLE, namespaceName="n"),
            ObjectDef(type=ObjectType.VIEW, namespaceObjectName="v"),
            ObjectDef(type=ObjectType.TABLE, namespaceName="n", namespaceObjectName="a b"),
            ObjectDef(type=ObjectType.NAMESPACE, namespaceName="\0"),
        ],
        ids=lambda found: ascii(str(found)),
    )
    def test_an_object_without_a_name_that_the_format_allows_is_damage(self, found):
        with pytest.raises(Damaged):
            decode_action("key", row(ActionDef(type=1, object_def=found)), "vn/x")

    def test_the_message_is_short_and_can_be_printed(self):
        with pytest.raises(Damaged) as caught:
            decode_action("\U0001f600\n" * 100_000, "x", "vn/x")
        assert len(str(caught.value)) < 1_000
        assert str(caught.value).isprintable()

    @QUICK
    @given(st.text(st.sampled_from("ABCgEaQx09+/="), max_size=24))
    def test_any_text_is_an_action_or_damage(self, value):
        try:
            action = decode_action("key", value, "vn/x")
        except Damaged:
            return
        assert plain(decode_action(*encode_action(action, KEYS), "vn/x")) == plain(action)


class TestActions:
    def test_every_type_has_its_name(self):
        assert Action(ActionType.TABLE_RENAME).type_name == "TABLE_RENAME"
        assert Action(ActionType.CATALOG_SNOW_NAMESPACES).type_name == "CATALOG_SNOW_NAMESPACES"

    def test_the_kind_is_that_of_the_object(self):
        assert Action(ActionType.CATALOG_ALTER).kind is Kind.CATALOG
        assert CREATE.kind is Kind.TABLE
        assert CREATE.id == "i"

    def test_a_payload_is_parsed_as_its_own_message(self):
        payload = RenameDef(new_namespace_name="m", new_name="u")
        action = Action(ActionType.TABLE_RENAME, TableName("n", "t"), b"", payload.SerializeToString())
        found = decode_action(*encode_action(action, KEYS), "vn/x")
        assert found.parse_payload(RenameDef) == payload

    def test_the_commit_info_is_found_among_the_actions(self):
        info = CommitInfoDef(transaction_id="t", by="a@b", message="é\n", began_at_version=7)
        actions = (CREATE, Action(ActionType.COMMIT_INFO, None, b"", info.SerializeToString()))
        assert commit_info(actions) == info
        assert commit_info((CREATE,)) is None
        assert commit_info(()) is None
