# Contexts from Python: their options, what they report, the cache, and every way in which they can be asked wrongly.
# SPDX-License-Identifier: Apache-2.0
import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import quern
from quern import _abi, errors
from quern.library import library

SOURCE = '#include "quern/kernel.cuh"\nQUERN_KERNEL(nothing, 1, 1, QUERN_PARAM int n) { (void)(n + NUMBER); }\n'


def number(context, value):
    return context.kernel(SOURCE, "nothing", constants={"NUMBER": value})


def test_every_status_has_a_class():
    names = {int(status) for status in _abi.quern_status if status != _abi.QUERN_OK}
    assert errors.BY_STATUS.keys() == names
    for status, kind in errors.BY_STATUS.items():
        raised = errors.from_status(status, 7, "text")
        assert type(raised) is kind and (raised.status, raised.native, str(raised)) == (status, 7, "text")
    assert issubclass(quern.InvalidError, ValueError) and issubclass(quern.NoMemoryError, MemoryError)
    unknown = errors.from_status(12345, 0, "")
    assert type(unknown) is quern.Error and unknown.status == 12345 and str(unknown) == "status 12345"


@pytest.mark.parametrize(("device", "warp"), [("host", 32), ("host64", 64)])
def test_host_device(tmp_path, device, warp):
    with quern.Context(device, cache_path=tmp_path) as context:
        found = context.device
        assert (found.target, found.warp_size, found.device_type) == (device, warp, _abi.kDLCPU)
        assert found.sm_count >= 1 and found.shared_per_block > 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"device": "gpu"}, "device: 'gpu' given; allowed are None"),
        ({"device": "host:1"}, "device: 'host:1' given"),
        ({"device": "host", "miss": "never"}, "miss: 'never' given; allowed are compile, cached_only, background"),
        ({"device": "host", "target": "sm_1"}, "sm_1"),
        ({"device": "host", "compile_threads": 2**31}, "compile_threads: 2147483648 given"),
        ({"device": "host", "compile_threads": -1}, "compile_threads"),
        ({"device": "host", "cache_limit": -1}, "cache_limit: -1 given; allowed is an integer from 0"),
        ({"device": "host", "no_cache": 1}, "no_cache: 1 given; allowed are True and False"),
        ({"device": "host", "bundles": "one"}, "bundles: 'one' given; allowed is a list of strings"),
        ({"device": "host", "search_dirs": ["relative"]}, "relative"),
        ({"device": "host", "helper_path": "relative/helper"}, "relative/helper"),
        ({"device": "host", "cache_path": 3}, "cache_path: 3 given; allowed is a string"),
    ],
)
def test_bad_options_are_named(tmp_path, options, complaint):
    with pytest.raises(quern.InvalidError, match=complaint):
        quern.Context(**{"cache_path": tmp_path, **options})


def test_a_missing_device_says_what_was_tried(tmp_path):
    with pytest.raises(quern.NotFoundError) as caught:
        quern.Context("rocm:63", cache_path=tmp_path)
    assert "libamdhip64" in str(caught.value) or "device" in str(caught.value)


def test_a_closed_context_says_so(tmp_path):
    context = quern.Context("host", cache_path=tmp_path)
    kernel = number(context, 1)
    context.close()
    context.close()
    for use in (context.stats, context.manifest, lambda: kernel.launch(1, 1, [1]), lambda: kernel.info):
        with pytest.raises(quern.InvalidError, match="context: is closed"):
            use()


def test_events_and_stats_tell_of_compiling(tmp_path):
    events = []
    with quern.Context("host", cache_path=tmp_path, event=events.append) as context:
        number(context, 1)
        stats = context.stats()
    assert (stats.compiled, stats.stored, stats.cache_hits, stats.kernels_loaded) == (1, 1, 0, 1)
    assert stats.compile_ms > 0
    compiled = [event for event in events if event.kind == _abi.QUERN_EVENT_COMPILED]
    assert len(compiled) == 1 and compiled[0].target == "host" and len(compiled[0].key) == 32
    assert compiled[0].milliseconds > 0


def test_background_gives_pending_first(tmp_path):
    arrived = threading.Event()
    options = {"miss": "background", "event": lambda event: arrived.set()}
    with quern.Context("host", cache_path=tmp_path, **options) as context:
        with pytest.raises(quern.PendingError):
            number(context, 1)
        assert arrived.wait(60)
        while True:
            try:
                assert number(context, 1) is not None
                break
            except quern.PendingError:
                pass
        assert context.stats().compiled == 1


def test_load_wait_cancel_and_unload(tmp_path):
    with quern.Context("host", cache_path=tmp_path, max_kernels=2) as context:
        number(context, 1)
        manifest = context.manifest()
    with quern.Context("host", cache_path=tmp_path, miss="cached_only") as context:
        assert [row.outcome for row in context.load(manifest=manifest)] == [_abi.QUERN_WARM_HIT]
        assert context.stats().kernels_loaded == 1
        number(context, 1)
        assert context.unload("attention") == 0
        assert context.unload() == 1
        assert context.stats().kernels_loaded == 0
    with quern.Context("host", cache_path=tmp_path, miss="background", max_kernels=1) as context:
        assert context.wait(0) and context.cancel() == 0
        with pytest.raises(quern.PendingError):
            number(context, 2)
        assert context.wait()
        number(context, 2)
        with pytest.raises(quern.NoMemoryError, match="max_kernels"):
            number(context, 1)


def test_failures_and_log_levels(tmp_path):
    told = []
    with quern.Context("host", cache_path=tmp_path, log=lambda *line: told.append(line), log_level="error") as context:
        assert context.failures() == []
        with pytest.raises(quern.CompileError):
            number(context, "no_such_thing")
        (failure,) = context.failures()
        assert "no_such_thing" in failure.text and "NUMBER=no_such_thing" in failure.hint and len(failure.what) == 32
        number(context, 1)
    assert {level for level, _ in told} == {_abi.QUERN_LOG_ERROR}
    with pytest.raises(quern.InvalidError, match="log_level"):
        quern.Context("host", log_level="loud")


def test_a_checked_context_tells_faults(tmp_path):
    table, out = np.ones((4, 8), np.float32), np.full((2, 8), 7, np.float32)
    with quern.Context("host", cache_path=tmp_path, checked=True) as context:
        context.gather(table, np.array([1, 9], np.int32), out=out)
        assert (out == 7).all()
        with pytest.raises(quern.FaultError, match=r"ids\[1\] is 9; allowed: 0 to 3"):
            context.gather(table, np.array([1, 2], np.int32), out=out)
        (fault,) = context.faults()
        assert (fault.op, fault.argument, fault.row, fault.column) == ("gather", "ids", 1, -1)
        assert (fault.value, fault.least, fault.most) == (9, 0, 3)
        context.gather(table, np.array([1, 2], np.int32), out=out)
        assert (out == 1).all() and context.faults() == []
    with quern.Context("host", cache_path=tmp_path) as context:
        with pytest.raises(quern.InvalidError, match="QUERN_CONTEXT_CHECKED"):
            context.faults()
        rows = {row.op: row.outcome for row in context.verify()}
        assert rows["gather"] == rows["index_check"] == _abi.QUERN_VERIFY_NOT_RUN  # in the checked form


def test_a_keyed_cache_is_for_those_with_the_key(tmp_path):
    def compiled(key):
        with quern.Context("host", cache_path=tmp_path, cache_key=key) as context:
            number(context, 1)
            return context.stats().compiled

    assert [compiled(key) for key in ("a" * 64, "a" * 64, "b" * 64)] == [1, 0, 1]


def test_relative_paths_are_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with quern.Context("host", cache_path=tmp_path / "a") as context:
        number(context, 1)
        assert context.cache_export("bundle") == 1 and (tmp_path / "bundle").exists()


def test_cache_administration(tmp_path):
    with quern.Context("host", cache_path=tmp_path / "a") as context:
        for value in (1, 2, 3):
            number(context, value)
        entries = context.cache_list()
        assert len(entries) == 3 == context.cache_stats().entries
        assert entries == context.cache_list("host") and context.cache_list("attention") == []
        entry = context.cache_inspect(entries[0].key)
        assert entry.text == entries[0].text and "NUMBER" in entry.text
        assert entries[0].image is None and len(entry.image) == entry.image_size == entries[0].image_size > 0
        assert all(finding.status == _abi.QUERN_OK for finding in context.cache_verify())
        assert context.cache_export(tmp_path / "bundle") == 3
        assert context.cache_export(tmp_path / "one", entries[0].key) == 1
        with pytest.raises(quern.NotFoundError, match="ffffffff"):
            context.cache_inspect("ffffffff")
        trimmed = context.cache_trim(all=True)
        assert (trimmed.removed, trimmed.kept) == (3, 0)
        assert context.cache_list() == []
        assert context.cache_import(tmp_path / "bundle") == 3
    only_bundle = {"bundles": [tmp_path / "bundle"], "no_cache": True, "miss": "cached_only"}
    with quern.Context("host", **only_bundle) as context:
        number(context, 2)
        assert context.stats().cache_hits == 1
        assert [entry.layer for entry in context.cache_list()] == [1, 1, 1]


def test_a_damaged_bundle_is_refused(tmp_path):
    (tmp_path / "bundle").write_bytes(b"not a bundle at all" * 100)
    with quern.Context("host", cache_path=tmp_path / "a") as context:
        with pytest.raises(quern.DamagedError, match="bundle"):
            context.cache_import(tmp_path / "bundle")
        with pytest.raises((quern.NotFoundError, quern.IoError), match="no_such_bundle"):
            context.cache_import(tmp_path / "no_such_bundle")


def test_warm_from_a_manifest(tmp_path):
    with quern.Context("host", cache_path=tmp_path / "a") as context:
        number(context, 5)
        manifest = context.manifest()
    progress = []
    with quern.Context(cache_path=tmp_path / "b") as warmer:
        listed = warmer.warm(manifest=manifest, targets=["host", "host64"], list_only=True)
        assert [result.outcome for result in listed] == [_abi.QUERN_WARM_ABSENT] * len(listed)
        results = warmer.warm(manifest=manifest, targets=["host"], progress=lambda *step: progress.append(step))
        assert [(r.outcome, r.target, r.line) for r in results] == [(_abi.QUERN_WARM_COMPILED, "host", 1)]
        assert progress[-1][:2] == (1, 1) and progress[-1][2].key == results[0].key
        again = warmer.warm(manifest=manifest, targets=["host"])
        assert [result.outcome for result in again] == [_abi.QUERN_WARM_HIT]
    with quern.Context("host", cache_path=tmp_path / "b", miss="cached_only") as context:
        number(context, 5)


def test_a_bad_manifest_line_is_named_and_the_rest_is_warmed(tmp_path):
    with quern.Context("host", cache_path=tmp_path / "a") as context:
        number(context, 5)
        manifest = context.manifest()
    with quern.Context(cache_path=tmp_path / "b") as warmer:
        with pytest.raises(quern.PartialError) as caught:
            warmer.warm(manifest=f"# a comment\nno_such_op host A=1\n{manifest}", targets=["host"])
        by_line = {result.line: result for result in caught.value.results}
        assert by_line[2].outcome == _abi.QUERN_WARM_FAILED and "no_such_op" in by_line[2].text
        assert by_line[3].outcome == _abi.QUERN_WARM_COMPILED
        with pytest.raises(quern.InvalidError, match="model has no argument 'head'"):
            warmer.warm(model={"head": 1})


def test_tuning_is_kept(tmp_path):
    line, progress = "gemm * dtype=bf16 n=24 k=32", []
    with quern.Context("host", cache_path=tmp_path) as context:
        assert [r.outcome for r in context.tune(manifest=line, rows=[3], list_only=True)] == [_abi.QUERN_TUNE_ABSENT]
        (measured,) = context.tune(
            manifest=line, rows=[3], milliseconds=0.1, progress=lambda *step: progress.append(step)
        )
        assert measured.outcome == _abi.QUERN_TUNE_MEASURED and measured.op == "gemm" and measured.rows == 3
        assert measured.choice and 0 < measured.microseconds <= measured.model_microseconds
        assert progress[-1][:2] == (1, 1) and progress[-1][2].choice == measured.choice
    with quern.Context("host", cache_path=tmp_path) as context:
        (known,) = context.tune(manifest=line, rows=[16])
        assert (known.outcome, known.choice) == (_abi.QUERN_TUNE_KNOWN, measured.choice)
        with pytest.raises(quern.PartialError) as caught:
            context.tune(manifest="gemm * dtype=bf16 n=24", rows=[3])
        assert "k is missing" in caught.value.results[0].text
        with pytest.raises(quern.InvalidError, match="rows"):
            context.tune(manifest=line, rows=[0])


def test_doctor_finds_what_is_here(context):
    findings = {finding.what: finding for finding in context.doctor()}
    assert "cache" in findings
    assert all(finding.text for finding in findings.values())


def test_without_a_device_nothing_is_launched(tmp_path):
    with quern.Context(cache_path=tmp_path) as context:
        with pytest.raises(quern.InvalidError):
            number(context, 1)
        kernel = context.kernel(SOURCE, "nothing", constants={"NUMBER": 1}, target="host")
        assert kernel is None and context.stats().stored == 1


def run_python(code, folder):
    """Exit status, output and errors of an interpreter of its own, given a cache folder and SOURCE."""
    run = subprocess.run([sys.executable, "-c", code, folder, SOURCE], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


def test_an_unclosed_context_goes_with_the_interpreter(tmp_path):
    code = (
        "import sys, quern\n"
        "context = quern.Context('host', cache_path=sys.argv[1], event=lambda event: None)\n"
        "context.kernel(sys.argv[2], 'nothing', constants={'NUMBER': 1})\n"
        "print('done')\n"
    )
    assert run_python(code, tmp_path) == (0, "done\n", "")


def test_a_forked_child_is_told_and_may_make_its_own(tmp_path):
    code = (
        "import os, sys, quern\n"
        "context = quern.Context('host', cache_path=sys.argv[1])\n"
        "context.kernel(sys.argv[2], 'nothing', constants={'NUMBER': 1})\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        context.kernel(sys.argv[2], 'nothing', constants={'NUMBER': 2})\n"
        "    except quern.ForkedError:\n"
        "        with quern.Context('host', cache_path=sys.argv[1]) as own:\n"
        "            own.kernel(sys.argv[2], 'nothing', constants={'NUMBER': 1})\n"
        "            sys.exit(40 + own.stats().cache_hits)\n"
        "    sys.exit(1)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    assert run_python(code, tmp_path) == (0, "41\n", "")


def test_a_forgotten_context_is_destroyed(tmp_path):
    context = quern.Context("host", cache_path=tmp_path)
    destroy = context._destroy
    del context
    gc.collect()
    assert not destroy.alive


def test_versions_agree():
    assert quern.__version__ == quern.version()
    assert quern.__version__ in (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text()
    assert library()._name.endswith(".so") or f".so.{_abi.QUERN_ABI_VERSION}" in library()._name
    soname = subprocess.run(["readelf", "-d", library()._name], capture_output=True, text=True, check=True).stdout
    assert f"[libquern.so.{_abi.QUERN_ABI_VERSION}]" in soname


def test_what_no_op_does_for_a_model_is_told(tmp_path):
    model = {"heads": 8, "kv_heads": 8, "head_dim": 100, "hidden_size": 512, "intermediate_size": 1024}
    with quern.Context(cache_path=tmp_path) as warmer:
        with pytest.raises(quern.PartialError) as caught:
            warmer.warm(model=model, targets=["sm_90a"], list_only=True)
        (told,) = [row for row in caught.value.results if row.outcome == _abi.QUERN_WARM_UNSERVED]
        assert (told.op, told.target, told.key) == ("attention", "sm_90a", "") and "100" in told.text
        rows = warmer.warm(model=model, targets=["sm_90a"], list_only=True, allow_unserved=True)
        assert any(row.outcome == _abi.QUERN_WARM_UNSERVED for row in rows)
