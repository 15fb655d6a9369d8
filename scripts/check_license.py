#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on sources that do not begin with the line of their license; run as a test.

    check_license.py [ROOT]      check the tree
    check_license.py --write     write the line where it is missing
    check_license.py --self-test prove that the rule is enforced
"""
import os
import sys
import tempfile
from pathlib import Path

SPDX = "SPDX-License-Identifier: Apache-2.0"
STYLES = {"// {}": (".cc", ".h", ".cxx", ".proto", ".fbs"), "# {}": (".py", ".sh", ".cmake", ".yml", ".yaml", ".cmake.in", ".pc.in", ".supp"),
          "/* {} */": (".css",), "<!-- {} -->": (".html",)}
NAMES = {"CMakeLists.txt": "# {}", "Containerfile": "# {}", "status_page_html.cc.in": "// {}"}

NOT_OURS = {".git", ".cache", "__pycache__", "build", "third_party"}


def line_of(path):
    """The line for the file, or None where the file is no source: data, pages and lists."""
    if path.name in NAMES:
        return NAMES[path.name].format(SPDX)
    for style, endings in STYLES.items():
        if path.name.endswith(endings):
            return style.format(SPDX)
    with path.open("rb") as file:
        return "# " + SPDX if file.read(2) == b"#!" else None


def sources_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        for path in (Path(folder) / name for name in names):
            if path.is_file() and (line := line_of(path)):
                yield path, line


def place_of(lines):
    """Scripts begin with their interpreter, and pages with their document type."""
    return 1 if lines[0].startswith(("#!", "<!DOCTYPE")) else 0


def without(root):
    for path, line in sources_of(root):
        lines = path.read_text().split("\n")
        place = place_of(lines)
        if lines[place:place + 1] != [line]:
            yield path, line, lines, place


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {"a.cc": "int a;\n", "b.cc": f"// {SPDX}\n", "c": "#!/bin/sh\n", "d": f"#!/bin/sh\n# {SPDX}\n",
                 "e.json": "{}\n", "f.py": "# about something else\n", "CMakeLists.txt": "project(x)\n"}
        for name, text in files.items():
            (root / name).write_text(text)
        found = sorted(path.name for path, *_ in without(root))
    if found != ["CMakeLists.txt", "a.cc", "c", "f.py"]:
        sys.exit(f"check_license: self-test: found {found}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    write = sys.argv[1:] == ["--write"]
    root = Path(sys.argv[1] if sys.argv[1:] and not write else Path(__file__).parent.parent).resolve()
    found = list(without(root))
    if write:
        for path, line, lines, place in found:
            path.write_text("\n".join(lines[:place] + [line] + lines[place:]))
    elif found:
        sys.exit("\n".join(f"{path.relative_to(root)}: does not begin with '{line}'" for path, line, *_ in found) +
                 "\nRun scripts/check_license.py --write")


if __name__ == "__main__":
    main()
