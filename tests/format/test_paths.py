"""The paths of files, and the pointers that may be followed."""

import ntpath
import posixpath
import random
import re
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.format.paths import (
    JAVA_WIDTH,
    LATEST,
    LEAST_LIMIT,
    MAX_VERSION,
    OLDEST,
    WIDTH,
    FileKind,
    all_plain,
    check_pointer,
    file_kind,
    new_definition_path,
    new_node_path,
    parse_root_path,
    parse_transaction_path,
    root_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage import protocol
from olympia_cli.storage.protocol import check_path

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
UUID = "0b1e2d3c-4f5a-4678-9abc-def012345678"
NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=[chr(code) for code in (*range(0x21), 0x7F)]),
    min_size=1,
    max_size=120,
)


class TestRoots:
    def test_version_100_is_the_example_of_the_format(self):
        assert root_path(100) == "vn/00100110000000000000000000000000"

    @pytest.mark.parametrize(
        ("version", "name"), [(0, "0" * 32), (1, "1" + "0" * 31), (2, "01" + "0" * 30), (MAX_VERSION, "1" * 32)]
    )
    def test_the_lowest_bit_comes_first(self, version, name):
        assert root_path(version) == "vn/" + name

    def test_the_java_sdk_writes_64_characters(self):
        assert root_path(100, JAVA_WIDTH) == "vn/0010011" + "0" * 57

    @QUICK
    @given(st.integers(0, MAX_VERSION), st.sampled_from([WIDTH, JAVA_WIDTH]))
    @example(0, WIDTH)
    @example(MAX_VERSION, WIDTH)
    @example(MAX_VERSION, JAVA_WIDTH)
    def test_a_path_reads_back_as_its_version(self, version, width):
        path = root_path(version, width)
        assert len(path) == len("vn/") + width
        assert parse_root_path(path) == version
        assert file_kind(path) is FileKind.ROOT

    @pytest.mark.parametrize("version", [-1, MAX_VERSION + 1, 2**64])
    def test_versions_that_have_no_name_are_refused(self, version):
        with pytest.raises(InvalidOption):
            root_path(version)

    @pytest.mark.parametrize(
        "path",
        [
            *["", "vn", "vn/", "vn/0", LATEST, OLDEST, "0" * 32, "vn/" + "0" * 31, "vn/" + "0" * 33, "vn/" + "0" * 63],
            *["vn/" + "0" * 15 + "2" + "0" * 16, "vn/" + "٠" * 32, "vn//" + "0" * 31, "vn/" + " " + "0" * 31],
            *[
                "vn/" + "0" * 32 + "/",
                "vn/" + "0" * 31 + "\n",
                "a/vn/" + "0" * 32,
                "VN/" + "0" * 32,
                "vn/0b" + "0" * 30,
            ],
            *["vn/+" + "0" * 31, "vn/-" + "1" * 31, "vn/" + "0_" * 16],
        ],
    )
    def test_a_path_that_resembles_a_root_is_no_root(self, path):
        assert parse_root_path(path) is None
        assert file_kind(path) is not FileKind.ROOT


class TestDefinitionPaths:
    @QUICK
    @given(NAMES, NAMES)
    @example("/", "..")
    @example("..", "../../etc/passwd")
    @example("\U0001f600" * 60, "漢" * 60)
    @example("a" * 300, "b")
    def test_names_are_escaped_and_cut(self, namespace, name):
        for kind, folder, of in (
            (Kind.NAMESPACE, "ns", NamespaceName(namespace)),
            (Kind.TABLE, "table", TableName(namespace, name)),
            (Kind.VIEW, "view", ViewName(namespace, name)),
        ):
            path = new_definition_path(kind, of)
            file = path.removeprefix(f"def/{folder}/")
            assert len(file.encode()) <= 255
            assert uuid.UUID(file[:36]).version == 4
            assert re.fullmatch(r"[0-9a-f-]{36}-(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})*\.binpb", file)
            assert check_pointer(path, "the test") == path
            assert file_kind(path) is FileKind.DEFINITION

    @pytest.mark.parametrize("length", range(195, 215))
    def test_no_cut_leaves_half_of_an_escape(self, length):
        path = new_definition_path(Kind.NAMESPACE, NamespaceName("a" * length + "/" * 20))
        file = path.rpartition("/")[2]
        assert 253 <= len(file) <= 255
        assert re.fullmatch(r"[0-9a-f-]{36}-a+(?:%2F)*\.binpb", file)

    def test_short_names_are_complete_in_definition_paths(self):
        assert new_definition_path(Kind.NAMESPACE, NamespaceName("A-z_0.~")).endswith("-A-z_0.~.binpb")
        assert new_definition_path(Kind.TABLE, TableName("a/b", "é\U0001f600%")).endswith(
            "-a%2Fb-%C3%A9%F0%9F%98%80%25.binpb"
        )
        assert new_definition_path(Kind.VIEW, ViewName("..", "\\")).endswith("-..-%5C.binpb")

    def test_the_definition_of_the_catalog_has_no_name(self):
        assert re.fullmatch(r"def/catalog/[0-9a-f-]{36}\.binpb", new_definition_path(Kind.CATALOG, None))

    def test_every_path_is_fresh(self):
        name = NamespaceName("a")
        assert len({new_definition_path(Kind.NAMESPACE, name) for _ in range(100)}) == 100
        assert len({new_node_path() for _ in range(100)}) == 100


class TestPointers:
    @pytest.mark.parametrize(
        "pointer",
        [
            *["a", "vn/" + "0" * 32, f"node/{UUID}.arrow", f"def/ns/{UUID}-a.binpb", f"def/ns/{UUID}-...binpb"],
            *["a/b/c", "...", ".a", "a.", "..a/b..", "a b", "a/ ", "é/漢\U0001f600", "a%2F..%2Fb", "~", "a/b:c", "1:a"],
            f"def/table/{UUID}-10:30.binpb",
        ],
    )
    def test_relative_paths_are_followed(self, pointer):
        assert check_pointer(pointer, "vn/x") == pointer

    @pytest.mark.parametrize(
        "pointer",
        [
            *["", "/", "/a", "//a", "a/", "a//b", ".", "..", "./a", "../a", "a/.", "a/..", "a/./b", "a/../b"],
            *["\\", "a\\b", "..\\a", "\\\\host\\share", "\0", "a\0", "a/b\0.arrow"],
            *["s3://bucket/a", "s3:a", "gs://b/a", "file:///a", "file:a", "file:", "FILE:a", "http://h/a", "a+b.c-d:e"],
            *["C:", "C:a", "c:/a", "C:\\a", "data:,x"],
        ],
    )
    def test_a_pointer_that_leads_outside_is_damage(self, pointer):
        with pytest.raises(Damaged, match=r"^vn/x: it points outside the catalog") as caught:
            check_pointer(pointer, "vn/x")
        assert caught.value.path == "vn/x"
        assert caught.value.exit_code == 40
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize("name", ["back\\slash", "a\\b\\c", "\\", "\\\\x", "s3:/x/y", "C:\\x", "...\\..a"])
    def test_a_definition_may_be_called_as_the_java_sdk_calls_it(self, name):
        pointer = f"def/table/{UUID}-n-{name}.binpb"
        assert check_pointer(pointer, "vn/x") == check_path(pointer) == pointer
        for other in (f"node/{name}.arrow", f"vn/{name}", f"dtxn/{name}.binpb"):
            if "\\" in name:
                with pytest.raises(Damaged):
                    check_pointer(other, "vn/x")

    @settings(QUICK, max_examples=1000)
    @given(st.text(st.sampled_from("./\\:aC\0~"), max_size=12), st.sampled_from(["", "def/", "def/table/x-"]))
    @example("..\\..\\x", "def/")
    @example("a\\../../x", "def/")
    @example("//host/x", "")
    def test_no_pointer_leads_outside_with_any_separator(self, text, before):
        """Pointers that are followed lie below the root: on a disk, in a bucket, and with backslashes as separators."""
        pointer = before + text
        try:
            check_pointer(pointer, "vn/x")
        except Damaged:
            return
        assert check_path(pointer) == pointer
        assert posixpath.normpath(posixpath.join("/root/lake", pointer)).startswith("/root/lake/")
        assert ntpath.normpath(f"C:\\root\\lake\\{pointer}").startswith("C:\\root\\lake\\")
        # a bucket has no folders: what is there has exactly that name
        assert posixpath.normpath(f"lake/{pointer}") == f"lake/{pointer}"

    def test_a_very_long_pointer_gives_a_short_message(self):
        with pytest.raises(Damaged) as caught:
            check_pointer("/" + "\U0001f600" * 1_000_000, "vn/x")
        assert len(str(caught.value)) < 2_500


class TestFileKinds:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("vn/" + "01" * 16, FileKind.ROOT),
            ("vn/" + "01" * 32, FileKind.ROOT),
            ("vn/latest", FileKind.HINT),
            ("vn/oldest", FileKind.HINT),
            (f"node/{UUID}.arrow", FileKind.NODE),
            (f"def/catalog/{UUID}.binpb", FileKind.DEFINITION),
            (f"def/ns/{UUID}.binpb", FileKind.DEFINITION),
            (f"def/ns/{UUID}-a.binpb", FileKind.DEFINITION),
            (f"def/table/{UUID}-a-b.binpb", FileKind.DEFINITION),
            (f"def/view/{UUID}-a-b.binpb", FileKind.DEFINITION),
            (f"def/view/{UUID}-\n.binpb", FileKind.DEFINITION),
            (f"dtxn/{UUID}.binpb", FileKind.TRANSACTION),
            (f"dtxn/{UUID}.0.binpb", FileKind.TRANSACTION),
            (f"dtxn/{UUID}.12.binpb", FileKind.TRANSACTION),
            (f"def/dtxn/{UUID}.binpb", FileKind.TRANSACTION),
            (f"ops/expire/1794744000000-{UUID}.json", FileKind.OPERATION),
            ("ops/last-fsck.json", FileKind.OPERATION),
            ("ops/last-export.json", FileKind.OPERATION),
            ("ops/last-expire.json", FileKind.OPERATION),
            ("data/ns/t-0/metadata/00000.metadata.json", FileKind.DATA),
            (f"data/.tmp-{UUID}", FileKind.DATA),
            (f".tmp-{UUID}", FileKind.TEMPORARY),
            (f"vn/.tmp-{UUID}", FileKind.TEMPORARY),
            (f"def/table/.tmp-{UUID}", FileKind.TEMPORARY),
        ],
    )
    def test_every_file_of_the_format_is_known_by_its_name(self, path, kind):
        assert file_kind(path) is kind

    @pytest.mark.parametrize(
        "path",
        [
            *[
                "",
                "README.md",
                "vn/LATEST",
                "vn/latest2",
                "vn/latest/",
                "latest",
                "vn/.latest",
                "vn/" + "0" * 32 + ".bak",
            ],
            *[f"node/{UUID}", f"node/{UUID}.arrow.bak", f"node/{UUID.upper()}.arrow", f"node/{UUID[:-1]}.arrow"],
            *[f"node/{UUID}.arrow\n", f"node/a/{UUID}.arrow", f"x/node/{UUID}.arrow", f"node/{UUID}-a.arrow", "node/a"],
            *[f"node/{UUID}Xarrow", f"def/{UUID}.binpb", f"def/tables/{UUID}.binpb", f"def/table/{UUID}a.binpb"],
            *[f"def/table/{UUID}-a/b.binpb", f"def/table/{UUID}-a.binpb.tmp", "def/table/data.parquet"],
            *[f"def/table/{UUID}-a-b", f"dtxn/{UUID}.-1.binpb", f"dtxn/{UUID}..binpb", f"dtxn/{UUID}.1.2.binpb"],
            *["dtxn/a.binpb", f"dtxn/{UUID}.٣.binpb", f"ops/expire/{UUID}.json", f"ops/expire/x-{UUID}.json"],
            *["ops/last-gc.json", "ops/last-fsck.json.bak", "ops/notes.txt", ".tmp-", ".tmp-1", f".tmp-{UUID}/a"],
            *[
                f"a.tmp-{UUID}",
                f"vn/.tmp-{UUID}x",
                f"warehouse/{UUID}-a.binpb",
                "data",
                "data/",
                "x/data/part-0.parquet",
            ],
        ],
    )
    def test_paths_that_resemble_the_format_are_unknown(self, path):
        assert file_kind(path) is FileKind.UNKNOWN

    @QUICK
    @given(st.text(max_size=60))
    def test_any_name_has_a_kind(self, path):
        assert file_kind(path) in FileKind


class TestTransactionPaths:
    def test_the_hint_and_the_saves(self):
        assert transaction_path(UUID) == f"dtxn/{UUID}.binpb"
        assert transaction_save_path(UUID, 3) == f"dtxn/{UUID}.3.binpb"

    def test_they_read_back(self):
        assert parse_transaction_path(transaction_path(UUID)) == (UUID, None)
        for save in (0, 1, 9, 10, 10**9):
            assert parse_transaction_path(transaction_save_path(UUID, save)) == (UUID, save)

    @pytest.mark.parametrize(
        "path",
        [
            *["", "dtxn/", "dtxn/a.binpb", f"dtxn/{UUID}", f"dtxn/{UUID}.x.binpb", f"dtxn/{UUID}.1.binpb/"],
            *[f"def/dtxn/{UUID}.binpb", f"a/dtxn/{UUID}.binpb", f"dtxn/{UUID}.1.binpb\n", f"dtxn/{UUID}_binpb"],
        ],
    )
    def test_other_paths_are_no_transactions(self, path):
        assert parse_transaction_path(path) is None


def test_no_pointer_of_any_shape_leads_out_of_the_catalog():
    chosen = random.Random(7)
    accepted = 0
    for _ in range(20_000):
        pointer = "".join(chosen.choices("ad./\\:\0-", weights=(8, 8, 4, 4, 1, 1, 1, 2), k=chosen.randrange(1, 9)))
        scheme = re.match("[A-Za-z][A-Za-z0-9+.-]*:", pointer)
        parts = re.split(r"[/\\]", pointer)
        outside = (
            bool(scheme) or "\0" in pointer or "" in pointer.split("/") or "\\" in pointer or {".", ".."} & {*parts}
        )
        if outside:
            with pytest.raises(Damaged, match="outside the catalog"):
                check_pointer(pointer, "holder")
        else:
            assert check_pointer(pointer, "holder") == pointer
            accepted += 1
    assert accepted > 1_000


def test_pointers_are_plain_together_when_each_is():
    chosen = random.Random(8)
    seen = {True: 0, False: 0}
    for _ in range(5_000):
        pointers = [
            "".join(chosen.choices("ad./\\:\0\n", weights=(9, 9, 1, 4, 0.2, 0.2, 0.2, 1), k=chosen.randrange(6)))
            for _ in range(chosen.randrange(1, 4))
        ]
        plain = not any(
            not part or part[0] == "." or {":", "\\", "\0"} & {*part} for one in pointers for part in one.split("/")
        )
        assert all_plain(pointers) is plain
        for pointer in pointers if plain else ():
            assert check_pointer(pointer, "holder") == check_path(pointer) == pointer
        seen[plain] += 1
    assert min(seen.values()) > 500


def test_no_limit_is_below_the_one_that_stores_assume():
    assert LEAST_LIMIT >= protocol.LEAST_LIMIT
