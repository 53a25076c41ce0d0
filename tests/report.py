# Adds up the JUnit files of ctest, pytest and GoogleTest into one honest line, after the reasons of what was skipped.
# SPDX-License-Identifier: Apache-2.0
"""usage: report.py FILE...

Ends with "N passed, N failed, N skipped". Exits 1 when a test failed or none passed."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

# ctest writes a test that it could not even start as skipped too. Only these are tests that skipped themselves.
CTEST_SKIPPED = ("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE")
GTEST_REASON = re.compile(r": Skipped\n(.*?)\s*\n\[  SKIPPED ", re.S)


def outcome(case: ElementTree.Element, by_ctest: bool) -> tuple[str, str, str]:
    """Whether it "passed", "failed" or was "skipped", its name and why."""
    name = "::".join(filter(None, (None if by_ctest else case.get("classname"), case.get("name"))))
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed", name, ""
    if case.get("status") == "disabled":
        return "skipped", name, "disabled"
    if skipped is not None:
        message = (skipped.get("message") or "").strip()
        if by_ctest:
            if not message.startswith(CTEST_SKIPPED):
                return "failed", name, message
            told = GTEST_REASON.search(case.findtext("system-out") or "")
            message = told.group(1) if told else "no reason given"
        return "skipped", name, message.splitlines()[-1] if message else "no reason given"
    if case.get("status") == "notrun" or case.get("result") == "suppressed":
        return "skipped", name, "disabled"
    return "passed", name, ""


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    counts: Counter[str] = Counter()
    skipped: dict[str, list[str]] = {}
    for path in sys.argv[1:]:
        root = ElementTree.parse(path).getroot()
        # ctest's root is one <testsuite>, the others' is <testsuites>.
        for case in root.iter("testcase"):
            kind, name, why = outcome(case, by_ctest=root.tag == "testsuite")
            counts[kind] += 1
            if kind == "failed":
                print(f"failed: {name}: {why}" if why else f"failed: {name}")
            elif kind == "skipped":
                skipped.setdefault(why, []).append(name)
    for why, names in skipped.items():
        print(f"skipped {len(names)}: {why}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
