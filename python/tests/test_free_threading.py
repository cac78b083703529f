"""Builds of CPython without the GIL are refused, until they are supported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hosting import KIND

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="a package of ours")
ROOT = Path(__file__).parents[2]
# A Python that pretends to have no GIL, and runs its arguments.
FREE_THREADED = """\
import sys, sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
exec(sys.argv[1])
"""


def test_the_package_says_that_it_does_not_load_there():
    arguments = [sys.executable, "-P", "-c", FREE_THREADED, "import tidegate"]
    ended = subprocess.run(arguments, capture_output=True, text=True, cwd="/")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: tidegate does not support free-threaded builds"), last


def test_scripts_skip_such_an_interpreter(tmp_path):
    minor = "3.%d" % sys.version_info[1]
    interpreter = tmp_path / f".pyenv/versions/{minor}.99t/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{FREE_THREADED}' \"$2\"\n")
    interpreter.chmod(0o755)
    surroundings = {**os.environ, "HOME": str(tmp_path), "PYTHONS": minor}
    script = [str(ROOT / "scripts/python"), "list"]
    listed = subprocess.run(script, capture_output=True, text=True, env=surroundings)
    assert listed.returncode == 0, listed.stderr
    assert "99t" not in listed.stdout
