#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats the failed tests of ctest's --output-junit files: the ends of what they wrote, and then their names.

    scripts/report_failures.py build/results-release.xml [...]
"""
import sys
import xml.etree.ElementTree as ElementTree

LINES = 60

names = []

for path in sys.argv[1:]:
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"== {path} cannot be read: {error}")
        continue
    for case in cases:
        if case.get("status") != "fail":
            continue
        names.append(f"{case.get('name')} ({path})")
        print(f"== failed: {case.get('name')} after {float(case.get('time', 0)):.1f} s ({path})")
        lines = (case.findtext("system-out") or "").splitlines()
        if len(lines) > LINES:
            print(f"   ... {len(lines) - LINES} lines before")
        for line in lines[-LINES:]:
            print("   " + line)
if names:
    print("== all that failed")
for name in names:
    print("   " + name)
