"""New ids."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

from olympia_cli.names import new_uuid


def test_an_id_is_a_random_uuid_as_others_write_it():
    made = [new_uuid() for _ in range(1000)]
    assert len(set(made)) == 1000
    for text in made:
        found = uuid.UUID(text)
        assert (str(found), found.version, found.variant) == (text, 4, uuid.RFC_4122)
    # what is not fixed is any digit
    assert {text[at] for text in made for at in (0, 13 + 2, 35)} == set("0123456789abcdef")
    assert {text[19] for text in made} == set("89ab")


CHILD = """
import os, random
import tests.conftest
from olympia_cli import names

names.urandom = random.Random(1).randbytes
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, names.new_uuid().encode())
    os._exit(0)
os.close(writing)
with open(reading) as child:
    print(child.read(), names.new_uuid())
os.wait()
"""


def test_a_child_draws_other_ids_than_its_parent():
    """Also where those of a test are the same in each run. In a small process: one of the tests may be too large to be
    forked."""
    here = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", CHILD], cwd=here, capture_output=True, text=True, check=True)
    child, parent = done.stdout.split()
    assert child != parent
