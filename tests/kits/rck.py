"""Iceberg's own REST compatibility kit against `olympia serve`: `python -m tests.kits.rck FOLDER`, or `make test-rck`.

Maven's client, as this machine has it set up, downloads the kit and its dependencies from Maven Central into the
folder. If Maven Central cannot be reached, or there is no Java, the kit is skipped with a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

POM = Path(__file__).parent / "pom.xml"
CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
PATIENCE = 1800


def main(folder: str) -> int:
    if missing := next((name for name in ("java", "mvn") if shutil.which(name) is None), None):
        print(f"skipped: there is no {missing} here", file=sys.stderr)
        return 0
    jars = Path(folder) / "jars"
    fetch = ("mvn", "-q", "-B", "-Dstyle.color=never", "-f", POM, "dependency:copy-dependencies")
    if subprocess.run((*fetch, f"-DoutputDirectory={jars.absolute()}"), timeout=PATIENCE).returncode:
        print("skipped: Maven Central is not reached, or does not have the kit", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as scratch, served(scratch) as url:
        reports = Path(scratch) / "reports"
        subprocess.run(kit(jars, url, reports), cwd=scratch, timeout=PATIENCE, stdout=subprocess.DEVNULL)
        return tell(reports)


@contextmanager
def served(folder: str) -> Iterator[str]:
    """The URL of a server for a new catalog on this disk."""
    program = (sys.executable, "-m", "olympia_cli", "-c", f"{folder}/lake")
    subprocess.run((*program, "init"), check=True, stdout=subprocess.DEVNULL)
    command = (*program, "serve", "--port", "0")
    with (
        open(f"{folder}/serve.log", "wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            if server.wait(PATIENCE):
                print(f"the server ended with {server.returncode}", file=sys.stderr)


def kit(jars: Path, url: str, reports: Path) -> list[str]:
    """The command that runs it. What the kit knows by itself is the protocol; namespaces must be made before tables."""
    settings = {
        "uri": url,
        "warehouse": "olympia",
        "rck.local": "false",
        "rck.requires-namespace-create": "true",
        "rck.supports-names-with-dot": "true",
        "rck.supports-serverside-retry": "true",
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
    }
    chosen = [word for name in CLASSES for word in ("-c", f"org.apache.iceberg.rest.{name}")]
    return [
        "java",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        os.path.join(jars.absolute(), "*"),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        *chosen,
        "--config=rck.local=false",
        f"--reports-dir={reports}",
    ]


def tell(reports: Path) -> int:
    """Say what passed, what failed, and what the kit left out; whether anything failed, or nothing ran."""
    cases = [case for report in sorted(reports.glob("*.xml")) for case in ElementTree.parse(report).iter("testcase")]
    left_out = [case for case in cases if case.find("skipped") is not None]
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    for words, some in (("left out by the kit", left_out), ("failed", failed)):
        for case in some:
            reason = next((found for found in case if found.tag in ("skipped", "failure", "error")), None)
            said = "" if reason is None else (reason.get("message") or reason.text or "").strip().partition("\n")[0]
            print(f"{words}: {case.get('name')}: {said}"[:300])
    print(f"{len(cases) - len(left_out) - len(failed)} passed, {len(failed)} failed, {len(left_out)} left out")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
