"""olympia_cli/format/pb is what proto/ says."""

import importlib.util
import pickle
from pathlib import Path
from types import ModuleType

import pytest

from olympia_cli.format.pb import actions_pb2, objects_pb2

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def generate_proto() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_proto", TOP / "tools" / "generate_proto.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_code_is_up_to_date(generate_proto: ModuleType) -> None:
    difference = "\n".join(generate_proto.differences())
    assert not difference, f"run `make proto`\n{difference}"


def test_the_check_sees_a_change(generate_proto: ModuleType, tmp_path: Path) -> None:
    for name, content in generate_proto.generate().items():
        (tmp_path / name).write_text(content)
    generate_proto.PACKAGE = tmp_path
    assert list(generate_proto.differences()) == []

    (tmp_path / "objects_pb2.py").write_text("# edited by hand\n")
    assert "-# edited by hand" in list(generate_proto.differences())


def test_file_names_in_the_descriptor_pool() -> None:
    assert objects_pb2.DESCRIPTOR.name == "proto/objects.proto"
    assert actions_pb2.DESCRIPTOR.name == "proto/actions.proto"


def test_messages_can_be_pickled() -> None:
    namespace = objects_pb2.NamespaceDef(id="n", properties={"a": "b"})
    assert pickle.loads(pickle.dumps(namespace)) == namespace


@pytest.mark.parametrize(
    "definition",
    [
        objects_pb2.CatalogDef,
        objects_pb2.NamespaceDef,
        objects_pb2.TableDef,
        objects_pb2.ViewDef,
        objects_pb2.DistributedTransactionDef,
    ],
)
def test_integrity_is_one_field_in_all_definitions(definition: type) -> None:
    """`definitions.encode` writes it first, whatever its number."""
    assert definition.DESCRIPTOR.fields_by_number[1000].name == "integrity"
