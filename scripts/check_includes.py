#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include that breaks the house's rules; run by every build and as a test.

  - A layer includes only itself and layers listed before it (the foreach in the root CMakeLists.txt is the list).
  - Tests may also include lockstep/testing/, which itself stands on base and coordination only.
  - Headers directly in lockstep/ (<lockstep/lockstep.h>) gather the layers; no layer includes them.
  - cli/, examples/, benchmarks/ and tests/ stand on top, and only include their own folder besides; benchmarks/ and
    tests/ also the models of examples/, and tests/ the tool's headers.
  - Where the CMakeLists.txt of a layer or of cli/ has a set(folders ...), each of its folders includes only itself and
    folders listed before it; files beside the folders and tests include any. Only tests include a folder testing/.
  - Project includes are written from the root: "lockstep/base/error.h", never relative to the file.
  - A header that shows gRPC, protobuf or PJRT is its folder's own: no other folder may include it, not even
    through another header.
  - What <lockstep/lockstep.h> includes is compiled with every program: none of it includes a large header of the
    standard library.

    check_includes.py [ROOT]         check the tree
    check_includes.py --self-test    prove that each rule is enforced
"""

import os
import re
import sys
import tempfile
from pathlib import Path

TOPS = ("cli", "examples", "benchmarks", "tests")
TESTING_STANDS_ON = ("base", "coordination", "testing")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
FOREIGN = re.compile(r"^(grpc|grpcpp|google/protobuf|xla|ucp)/|\.pb\.h$")


def layers_of(root):
    text = (root / "CMakeLists.txt").read_text()
    found = re.search(r"foreach\(layer\s+([^)]*)\)", text)
    if not found:
        sys.exit("check_includes: no foreach(layer ...) in the root CMakeLists.txt")
    return found.group(1).split()


def ordered_folders(root):
    """The folders within a layer or cli/, by its path, where they have an order."""
    found = {}
    for path in (root / "cli" / "CMakeLists.txt", *sorted(root.glob("lockstep/*/CMakeLists.txt"))):
        order = re.search(r"^set\(folders\s+([^)]*)\)", path.read_text(), re.M) if path.exists() else None
        if order:
            found[str(path.parent.relative_to(root))] = order.group(1).split()
    return found


def complaint_within(path, included, ordered):
    """Why a file may not include another one of its own layer, or of cli/; None where it may."""
    for parent, folders in ordered.items():
        if not included.startswith(parent + "/"):
            continue
        here, there = (name[len(parent) + 1:].split("/") for name in (path, included))
        if len(here) == 1 or here[0] == "testing" or re.search(r"_test\.(cc|h)$", path):
            return None
        if there[0] == "testing":
            return "is for tests"
        for folder in (here[0], there[0]):
            if folder not in folders:
                return f"is in {parent}/{folder} or used there, which is not in its CMakeLists.txt's list of folders"
        if folders.index(there[0]) > folders.index(here[0]):
            return f"points up: {parent}/{here[0]} < {parent}/{there[0]}"
    return None


def folder_of(path):
    """The layer of lockstep/LAYER/..., 'lockstep' for a file directly in lockstep/, else the top folder."""
    parts = path.split("/")
    if parts[0] != "lockstep":
        return parts[0]
    return parts[1] if len(parts) > 2 else "lockstep"


def sources_of(root):
    for top in ("lockstep", *TOPS):
        for folder, subfolders, names in os.walk(root / top):
            subfolders.sort()
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".inc")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes_of(root):
    """For each file, its includes as (line, bracket, included)."""
    found = {}
    for path in sources_of(root):
        lines = (root / path).read_text(errors="replace").splitlines()
        matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
        found[path] = [(number, match.group(1), match.group(2)) for number, match in matches if match]
    return found


def foreign_headers(includes):
    """For each header that shows a foreign type, directly or through its own includes: what it shows."""
    shown = {}
    changed = True
    while changed:
        changed = False
        for path, lines in includes.items():
            if not path.endswith(".h") or path in shown:
                continue
            for _, _, included in lines:
                if FOREIGN.search(included) or included in shown:
                    shown[path] = shown.get(included, included)
                    changed = True
                    break
    return shown


LARGE = {"functional": "lockstep/base/function.h has std::function", "chrono": "lockstep/base/durations.h has durations",
         **dict.fromkeys(("algorithm", "condition_variable", "fstream", "future", "iostream", "mutex", "ranges", "regex", "set",
                          "sstream", "thread", "unordered_map"), "only a .cc file may")}
IN_PARTS = ("lockstep/base/function.h", "lockstep/base/durations.h")


def public_headers(includes):
    """<lockstep/lockstep.h> and what it includes."""
    found, waiting = set(), {"lockstep/lockstep.h"} & set(includes)
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= {included for _, _, included in includes[path] if included in includes} - found
    return found


def complaint(path, bracket, included, layers, ordered, foreign, includes):
    """Why `path` may not include `included`; None where it may."""
    here = folder_of(path)
    is_test = re.search(r"(_test\.cc|(^|/)test_\w+\.h)$", path) is not None or here == "tests"
    top = included.split("/")[0]
    if top not in ("lockstep", *TOPS):
        if bracket == '"' and not FOREIGN.search(included):
            return "is not written from the root"
        return None
    if included not in includes and (top != "lockstep" or bracket == '"') and not included.endswith(".pb.h"):
        return "does not exist"
    there = folder_of(included)
    if included in foreign and there != here:
        return f"shows {foreign[included]}, so only {there}/ may include it"
    if there == here:
        return complaint_within(path, included, ordered)
    if here in TOPS and there in (*layers, "lockstep"):
        return None
    below_tests = {"benchmarks": ("examples",), "tests": ("examples", "cli")}.get(here, ())
    if there in below_tests and included.endswith(".h"):
        return None
    if there in TOPS:
        return f"is in {there}/, above all layers"
    if here == "lockstep" and there in layers:
        return None
    if there == "lockstep":
        return "gathers the layers; a layer names the header it needs"
    for folder in (here, there):
        if folder not in layers:
            return f"is in {folder}/ or used there, which is not in the root CMakeLists.txt's list of layers"
    if here == "testing":
        return None if there in TESTING_STANDS_ON else "is not in base/ or coordination/"
    if there == "testing":
        return None if is_test else "is for tests"
    if layers.index(there) > layers.index(here):
        return f"points up: {here} < {there}"
    return None


def check(root):
    layers, ordered = layers_of(root), ordered_folders(root)
    includes = includes_of(root)
    foreign = foreign_headers(includes)
    complaints = []
    for path in sorted(public_headers(includes) - set(IN_PARTS)):
        complaints += [f"{path}:{number}: include of {included} is for every program that includes Lockstep: "
                       f"{LARGE[included]}" for number, _, included in includes[path] if included in LARGE]
    for path, lines in includes.items():
        for number, bracket, included in lines:
            why = complaint(path, bracket, included, layers, ordered, foreign, includes)
            if why:
                complaints.append(f"{path}:{number}: include of {included} {why}")
    return complaints


def self_test():
    good = {
        "CMakeLists.txt": "foreach(layer base coordination pjrt array\n  testing)\nendforeach()\n",
        "cli/CMakeLists.txt": "set(folders base hosts\n  run)\n",
        "lockstep/coordination/CMakeLists.txt": "set(folders protocol server)\n",
        "lockstep/lockstep.h": '#include "lockstep/array/array.h"\n',
        "lockstep/base/error.h": "#include <string>\n",
        "lockstep/base/error_test.cc": '#include "lockstep/testing/processes.h"\n#include <gtest/gtest.h>\n',
        "lockstep/coordination/protocol/wire.h": '#include <grpcpp/grpcpp.h>\n',
        "lockstep/coordination/server/server.h": '#include "lockstep/base/error.h"\n',
        "lockstep/coordination/server/server.cc": '#include "lockstep/coordination/protocol/wire.h"\n',
        "lockstep/pjrt/api.h": '#include "xla/pjrt/c/pjrt_c_api.h"\n',
        "lockstep/pjrt/detail.h": '#include "lockstep/pjrt/api.h"\n',
        "lockstep/array/array.h": '#include "lockstep/base/error.h"\n',
        "lockstep/testing/processes.h": '#include "lockstep/coordination/server/server.h"\n',
        "lockstep/base/test_x.h": '#include "lockstep/testing/processes.h"\n',
        "examples/psum.cc": "#include <lockstep/lockstep.h>\n",
        "examples/model.h": "#include <lockstep/lockstep.h>\n",
        "tests/models_test.cc": '#include "examples/model.h"\n',
        "cli/hosts/hosts.h": '#include "lockstep/base/error.h"\n',
        "cli/run/job.h": '#include "cli/hosts/hosts.h"\n',
        "cli/testing/tool.h": '#include "cli/run/job.h"\n',
        "cli/hosts/hosts_test.cc": '#include "cli/testing/tool.h"\n#include "cli/run/job.h"\n',
        "cli/main.cc": '#include "cli/run/job.h"\n',
        "tests/parsers/text_test.cc": '#include "cli/hosts/hosts.h"\n',
    }
    bad = [
        ("lockstep/base/x.h", '#include "lockstep/array/array.h"\n', "points up: base < array"),
        ("lockstep/base/x.h", "#include <lockstep/array/array.h>\n", "points up: base < array"),
        ("lockstep/base/x_test.cc", '#  include "lockstep/array/array.h"\n', "points up: base < array"),
        ("lockstep/base/x.cc", '#include "error.h"\n', "not written from the root"),
        ("lockstep/base/x.cc", '#include "../base/error.h"\n', "not written from the root"),
        ("lockstep/base/x.cc", '#include "lockstep/base/gone.h"\n', "does not exist"),
        ("lockstep/base/x.cc", '#include "lockstep/testing/processes.h"\n', "is for tests"),
        ("lockstep/testing/x.cc", '#include "lockstep/array/array.h"\n', "not in base/ or coordination/"),
        ("lockstep/array/x.cc", '#include "lockstep/lockstep.h"\n', "gathers the layers"),
        ("lockstep/array/x.cc", '#include "lockstep/pjrt/api.h"\n', "shows xla/pjrt/c/pjrt_c_api.h"),
        ("lockstep/array/x.cc", '#include "lockstep/pjrt/detail.h"\n', "shows xla/pjrt/c/pjrt_c_api.h"),
        ("cli/x.cc", '#include "lockstep/coordination/protocol/wire.h"\n', "shows grpcpp/grpcpp.h"),
        ("lockstep/array/x.cc", '#include "cli/run.h"\n', "does not exist"),
        ("cli/hosts/x.cc", '#include "cli/run/job.h"\n', "points up: cli/hosts < cli/run"),
        ("cli/run/x.cc", '#include "cli/testing/tool.h"\n', "is for tests"),
        ("lockstep/coordination/protocol/x.cc", '#include "lockstep/coordination/server/server.h"\n',
         "points up: lockstep/coordination/protocol < lockstep/coordination/server"),
        ("cli/extra/x.cc", '#include "cli/run/job.h"\n', "list of folders"),
        ("cli/x.cc", '#include "examples/model.h"\n', "above all layers"),
        ("tests/x.cc", '#include "examples/psum.cc"\n', "above all layers"),
        ("lockstep/array/array.h", "#include <functional>\n", "lockstep/base/function.h has std::function"),
        ("lockstep/array/array.h", "#include <mutex>\n", "only a .cc file may"),
        ("lockstep/extra/x.cc", '#include "lockstep/base/error.h"\n', "list of layers"),
    ]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)

        def write(path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

        for path, text in good.items():
            write(path, text)
        failures += [f"a good tree: {complaint}" for complaint in check(root)]
        for path, text, expected in bad:
            write(path, text)
            found = check(root)
            (root / path).unlink()
            if path in good:
                write(path, good[path])
            if len(found) != 1 or expected not in found[0] or not found[0].startswith(path + ":1:"):
                failures.append(f"{path} with {text.strip()}: expected '{expected}', got {found}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        complaints = self_test()
    else:
        complaints = check(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve())
    for line in complaints:
        print(line, file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
