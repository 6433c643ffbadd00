"""The log that goes on, and the log as a page."""

from __future__ import annotations

import json
import signal
import subprocess
from html.parser import HTMLParser

import pytest

from tests.cli.conftest import command_line
from tests.helpers.names import location, ns, table


class TestFollow:
    def test_in_a_pipe_until_it_is_interrupted(self, sample):
        """A process, because a pipe and Ctrl-C are the point."""
        words = [*command_line(), "-c", sample.uri, "log", "--follow", "-n", "2", "-o", "jsonl", "--interval", "100ms"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]
            for number in range(2):
                with sample.catalog.transaction(f"message {number}") as transaction:
                    transaction.create_namespace(ns(f"n{number}"))
                lines.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=30)
        assert [line["version"] for line in lines] == [6, 7, 8, 9]
        assert lines[-1]["message"] == "message 1"
        assert (process.returncode, rest, said) == (130, "", "interrupted\n")

    @pytest.mark.parametrize(
        "args",
        [["--until", "v3"], ["--html", "x.html"], ["--graph"], ["--json"], ["--interval", "1ms"], ["--interval", "2h"]],
        ids=" ".join,
    )
    def test_follow_refuses_incompatible_options(self, olympia, args):
        assert olympia("log", "--follow", *args).exit_code == 2


class Tags(HTMLParser):
    """The tags and the text of a page; what is not closed is a failure."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.ids: list[str] = []
        self.classes: dict[str, str] = {}
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        found = dict(attrs)
        if "id" in found:
            self.ids.append(found["id"])
            self.classes[found["id"]] = found["class"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


class TestPage:
    def test_page_lists_all_versions_and_marks_undone_and_reverted(self, olympia, tmp_path):
        olympia("ns", "create", "x").ok()
        olympia("revert", "latest", "--yes").ok()
        done = olympia("log", "--html", "log.html").ok()
        assert (done.stdout, done.stderr) == ("", "10 versions in log.html\n")
        tags = Tags((tmp_path / "log.html").read_text())
        assert tags.ids == [f"v{number}" for number in range(9, -1, -1)]
        assert tags.classes["v5"] == "version undone"
        assert tags.classes["v6"] == "version rollback"
        assert tags.classes["v8"] == "version reverted"
        for words in (
            "reverts v8",
            "reverted by v9",
            "rollback to v4",
            "undone by v6",
            "tidy up",
            "- table sales.lines",
        ):
            assert words in tags.text

    def test_filters_and_json(self, olympia, tmp_path):
        found = olympia("log", "sales.lines", "--html", "x.html", "--json").ok().json
        assert found == {"html": "x.html", "count": 3}
        assert Tags((tmp_path / "x.html").read_text()).ids == ["v5", "v2", "v1"]
        assert olympia("log", "--by", "nobody", "--html", "x.html").ok().stderr.endswith("no version matches\n")

    def test_values_are_data_and_nothing_comes_from_elsewhere(self, olympia, sample, tmp_path):
        evil = '<script>alert("x")</script><img/src=http://evil>\u202e'
        with sample.catalog.transaction(f"{evil}\n- table sales.orders") as transaction:
            transaction.create_namespace(ns(evil))
        olympia("log", "--html", "x.html").ok()
        page = (tmp_path / "x.html").read_text()
        tags = Tags(page)
        assert not {"script", "img", "link", "iframe", "a"} & set(tags.names)
        assert "\u202e" not in page
        assert "default-src 'none'" in page
        assert "prefers-color-scheme: dark" in page
        quote = page.index("<blockquote>")
        assert quote < page.index("- table sales.orders") < page.index("</blockquote>"), "a message is never an action"

    def test_many_actions_are_folded_and_can_be_opened(self, olympia, sample, tmp_path):
        with sample.catalog.transaction() as transaction:
            for number in range(300):
                transaction.create_table(table(f"sales.n{number:03}"), location())
        olympia("log", "-n", "1", "--html", "x.html").ok()
        tags = Tags((tmp_path / "x.html").read_text())
        assert "+ 300 tables  sales.n000 … n299" in tags.text
        assert "and 100 more" in tags.text
        assert tags.names.count("details") == 1

    def test_a_file_that_cannot_be_written(self, olympia):
        olympia("log", "--html", "no/such/folder/x.html").failed(2, "cannot be written")
