# The summing of test results: what could not start counts as failed, what skipped itself says why.
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

REPORT = Path(__file__).resolve().parents[1] / "report.py"

CTEST = """<testsuite>
<testcase name="A.Pass" status="run"/>
<testcase name="A.Fail" status="fail"><failure message=""/></testcase>
<testcase name="A.Skip" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN      ] A.Skip
t.cpp:4: Skipped
no GPU here
[  SKIPPED ] A.Skip (0 ms)</system-out></testcase>
<testcase name="A.Off" status="disabled"/>
<testcase name="gone" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
<testcase classname="test_x" name="test_a"/>
<testcase classname="test_x" name="test_b"><error message="fixture"/></testcase>
<testcase classname="test_x" name="test_c"><skipped message="no PyTorch"/></testcase>
</testsuite></testsuites>"""
GTEST = """<testsuites><testsuite>
<testcase name="Pass" status="run" result="completed" classname="B"/>
<testcase name="Skip" status="run" result="skipped" classname="B"><skipped message="t.cpp:4&#x0A;no GPU"/></testcase>
<testcase name="Off" status="notrun" result="suppressed" classname="B"/>
</testsuite></testsuites>"""


def report(tmp_path, *texts):
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.xml")
        paths[-1].write_text(text)
    run = subprocess.run([sys.executable, REPORT, *paths], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout.splitlines()


def test_everything_is_summed_and_said(tmp_path):
    code, lines = report(tmp_path, CTEST, PYTEST, GTEST)
    assert code == 1
    assert lines[-1] == "3 passed, 3 failed, 5 skipped"
    assert set(lines[:-1]) == {
        "failed: A.Fail",
        "skipped 1: no GPU here: A.Skip",
        "skipped 2: disabled: A.Off, B::Off",
        "failed: gone: Unable to find executable",
        "failed: test_x::test_b",
        "skipped 1: no PyTorch: test_x::test_c",
        "skipped 1: no GPU: B::Skip",
    }


def test_exit_status(tmp_path):
    passed = '<testsuite><testcase name="A" status="run"/></testsuite>'
    assert report(tmp_path, passed) == (0, ["1 passed, 0 failed, 0 skipped"])
    assert report(tmp_path, "<testsuite/>") == (1, ["0 passed, 0 failed, 0 skipped"])
