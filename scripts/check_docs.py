#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the pages of the root and docs/*.md to the tree; run as a test.

  - A code block behind the line `<!-- the file PATH -->` is that file, to the letter; README.md has one.
  - A link to a file leads to one.
  - A path between backquotes that begins with a folder of the tree (`lockstep/jit/jit.h`, `cli/*.cc`) is there.
    One with a word in capitals (`lockstep/LAYER/`) stands for many and is not looked up.
  - A file that a comment of a source names from the tree's root (benchmarks/a.cc, docs/a.md) is there.
  - What the recipes of CONTRIBUTING.md ("Where to add") name between backquotes is there: a file of that name or with that
    end of its path, and each name in a source. What has NAME in it stands for many. Its line
    `<!-- at most N files name WORD -->` holds: what a recipe adds one of is not said in more places than the recipe has.
  - A list begins behind an empty line or a heading, without which the site takes it for a paragraph.
  - A table between `<!-- the names of the second column are in the headers -->` and `<!-- end of the names -->` has in
    that column only names that the headers declare; with `first` and `are not`, only names that they do not.
  - The table of options in docs/clusters.md is that of lockstep/base/options.h. A field of InitializeOptions is named in
    one of its rows, and its comment names the variable, with the default where that is a number.
  - A variable LOCKSTEP_NAME that the library or the tool reads, by a string or the comment of its option, has a row in a
    table of docs/, unless it passes between our own programs (OWN_VARIABLES); and such a row has a variable that is read.

    check_docs.py [ROOT]         check the tree
    check_docs.py --write        copy the files into their code blocks, and write the table of options
    check_docs.py --self-test    prove that each rule is enforced
"""
import re
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

FILE_BLOCK = re.compile(r"<!-- the file (\S+) -->\n+```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:lockstep|cli|cmake|deploy|scripts|tests|examples|benchmarks|docs)/[\w./*-]*)`")
NAMED = re.compile(r"//[^\n]*?\b((?:scripts|tests|examples|benchmarks|docs)/[\w./-]+\.(?:h|cc|py|md|json))\b")
LIST = re.compile(r"^(?!#|\s|- |\d+\. |\|)(.+)\n(?:- |1\. )", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
NAMES = re.compile(r"<!-- the names of the (first|second) column are (not )?in the headers -->\n(.*?)"
                   r"<!-- end of the names -->", re.DOTALL)
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z.])")

VARIABLE = re.compile(r"\bLOCKSTEP_(?!NAME\b)[A-Z0-9_]*[A-Z0-9]\b(?!_?\()")
READ = re.compile(r'"(LOCKSTEP_[A-Z0-9_]*[A-Z0-9])[="]|//[^\n]*')

OPTIONS = re.compile(r"(<!-- the options of lockstep/base/options.h -->\n\n)(.*?)(\n<!-- end of the options -->)", re.DOTALL)
OPTION = re.compile(r"^inline constexpr (?:Option<[\w:]+>|Text) k\w+\{(.*?)\};$", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r'\.(\w+) =\s+((?:"[^"]*"\s*)+|[^,{}]+)')
CONSTANT = re.compile(r"^inline constexpr int (k\w+) = ([\d']+);", re.MULTILINE)
ARGUMENT = re.compile(r"((?:^  ///[^\n]*\n)*)^  std::optional<[^\n]*> (\w+);([^\n]*)$", re.MULTILINE)

FOLDERS = ("lockstep", "cli", "cmake", "deploy", "scripts", "tests", "examples", "benchmarks", "docs")
RECIPES = re.compile(r"^## Where to add\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
AT_MOST = re.compile(r"<!-- at most (\d+) files name (\S+) -->")
FILE = re.compile(r"[\w./*-]+(?:/|\.(?:h|cc|cmake|json|proto|py|txt|yml))")

# What our own programs set for each other, which users do not.
OWN_VARIABLES = {"LOCKSTEP_" + name for name in
                 ("COORDINATOR_PROXY", "PLAN_FILE", "PLAN_MESH", "RECORDER_FD", "TERMINAL")}


def pages_of(root):
    return [root / "README.md", *root.glob("[CS]*.md"), *sorted((root / "docs").rglob("*.md"))]


def declared_in(headers):
    """Words that are declared: a function, class, constant or member; not those in comments."""
    text = re.sub(r"//[^\n]*", "", "\n".join(header.read_text() for header in headers))
    return set(re.findall(r"\b\w+\b", text))


def options_of(root):
    """The options of lockstep/base/options.h, each as its fields; numbers as they are shown."""
    base = root / "lockstep" / "base"
    constants = dict(CONSTANT.findall("".join((base / name).read_text() for name in ("limits.h", "options.h"))))

    def shown(value):
        if value.startswith('"'):
            return "".join(re.findall(r'"([^"]*)"', value))
        for name, number in constants.items():
            value = value.replace(name, number)
        if value.endswith(" - 1"):
            value = str(int(value[:-4].replace("'", "")) - 1)
        number = value.replace("'", "").strip()
        return f"{int(number):,}" if number.lstrip("-").isdigit() else number
    return [{name: shown(value) for name, value in FIELD.findall(body)}
            for body in OPTION.findall((base / "options.h").read_text())]


def table_of_options(root):
    rows = [["variable", "argument", "default", "range", "meaning"]]
    for option in options_of(root):
        least, most = option.get("least"), option.get("most")
        rows.append([f"`{option['variable']}`", f"`{option['argument']}`" if "argument" in option else "",
                     option.get("otherwise", ""), f"{least} to {most}" if most else f"from {least}" if least else "",
                     option["help"] + (f" ([more]({option['page']}))" if "page" in option else "")])
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    rows.insert(1, ["-" * width for width in widths] + ["---"])
    return "".join("| " + " | ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]) + " |\n"
                   for row in rows)


def wrong_options(root):
    page = root / "docs" / "clusters.md"
    if not page.exists():
        return
    found = OPTIONS.search(page.read_text())
    if not found or found[2] != table_of_options(root):
        yield "docs/clusters.md: the table is not that of lockstep/base/options.h; run scripts/check_docs.py --write"
    header = (root / "lockstep" / "runtime" / "initialize.h").read_text()
    comments = {name: re.sub(r"\s*\n\s*///", "", before) + after for before, name, after in ARGUMENT.findall(header)}
    comments.pop("mpi")  # which has no variable
    options = {option["argument"]: option for option in options_of(root) if "argument" in option}
    for name in sorted(comments.keys() ^ options.keys()):
        yield f"lockstep/runtime/initialize.h and lockstep/base/options.h: {name} is in only one of them"
    for name in sorted(comments.keys() & options.keys()):
        option = options[name]
        number = option.get("otherwise", "").replace(",", "") if option.get("least") else ""
        if not re.search(rf"{option['variable']}\b" + (rf"[^.]*, {re.escape(number)}\b" if number else ""), comments[name]):
            yield f"lockstep/runtime/initialize.h: the comment of {name} lacks {option['variable']} {number}".rstrip()


def wrong_names(name, text, headers):
    words = None
    for column, absent, table in NAMES.findall(text):
        words = words or declared_in(headers)
        for row in table.splitlines()[2:]:
            cell = re.split(r"(?<!\\)\|", row)[1 if column == "first" else 2]
            for quoted in re.findall(r"`([^`]+)`", cell):
                last = re.findall(r"\w+", quoted.split("(")[0])[-1]
                if (last in words) == bool(absent):
                    yield f"{name}: the headers {'have' if absent else 'do not have'} {last}, in the row {row}"


def variables_read(root):
    """The variables in strings and comments of the library's and the tool's sources, without their tests."""
    found = set()
    for folder in ("lockstep", "cli"):
        for source in (root / folder).rglob("*.[ch]*"):
            if source.suffix in (".h", ".cc") and "test" not in source.stem and source.parent.name != "testing":
                for use in READ.finditer(source.read_text()):
                    found |= {use[1]} if use[1] else set(VARIABLE.findall(use[0]))
    return found


def wrong_variables(root):
    read, rows = variables_read(root), {}
    for page in sorted((root / "docs").rglob("*.md")):
        for row in re.findall(r"^\|.*", page.read_text(), re.MULTILINE):
            for name in re.findall(r"`(LOCKSTEP_[A-Z0-9_]*[A-Z0-9])(?:=[^`]*)?`", row):
                rows.setdefault(name, page.relative_to(root))
    for name in sorted(read - OWN_VARIABLES - rows.keys()):
        yield f"docs: no table has a row for {name}, which the sources read"
    for name in sorted(rows.keys() - read):
        if rows[name].name != "testing.md":  # whose tables are those of the tests' variables
            yield f"{rows[name]}: has a row for {name}, which no source reads"


def wrong_comments(root):
    for folder in ("lockstep", "cli", "tests", "examples", "benchmarks"):
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in (".h", ".cc"):
                continue
            for path in NAMED.findall(source.read_text(errors="replace")):
                if not (root / path).exists():
                    yield f"{source.relative_to(root)}: a comment names {path}, which is not in the tree"


def wrong_recipes(root):
    page = root / "CONTRIBUTING.md"
    found = RECIPES.search(page.read_text()) if page.exists() else None
    if not found:
        return
    files = [path for folder in FOLDERS for path in [root / folder, *(root / folder).rglob("*")]]
    paths = {"/" + path.relative_to(root).as_posix() + ("/" if path.is_dir() else "") for path in files}
    words = {word for path in files if path.is_file() and path.suffix in (".h", ".cc", ".cmake", ".proto")
             for word in re.findall(r"\w+", path.read_text())}
    for quoted in re.findall(r"`([^`]+)`", found[1]):
        first = quoted.split()[0]
        if "NAME" in first:
            continue
        if FILE.fullmatch(first):
            if not any(fnmatch(path, "*/" + first) for path in paths):
                yield f"CONTRIBUTING.md: a recipe names {first}, which is not in the tree"
        elif "/" not in first:
            for word in set(re.findall(r"\w+", quoted)) - words:
                yield f"CONTRIBUTING.md: a recipe names {quoted}, but no source has {word}"
    for most, word in AT_MOST.findall(found[1]):
        naming = sorted(path.relative_to(root).as_posix() for path in files
                        if path.is_file() and word in path.read_text(errors="replace"))
        if not 0 < len(naming) <= int(most):
            yield (f"CONTRIBUTING.md: {len(naming)} files name {word}, expected 1 to {most}: {', '.join(naming)}; take the "
                   "fact from one place, or correct the recipe and its number")


def errors_of(root):
    yield from wrong_recipes(root)
    yield from wrong_comments(root)
    yield from wrong_variables(root)
    yield from wrong_options(root)
    headers = sorted((root / "lockstep").rglob("*.h"))
    for page in pages_of(root):
        name, text = page.relative_to(root), page.read_text()
        blocks = FILE_BLOCK.findall(text)
        if len(blocks) != text.count("<!-- the file "):
            yield f"{name}: a line <!-- the file PATH --> without a code block behind it"
        if name.name == "README.md" and not blocks:
            yield f"{name}: has no program: a line <!-- the file PATH --> and a code block"
        for path, block in blocks:
            if not (root / path).is_file() or (root / path).read_text() != block:
                yield f"{name}: the code block is not the file {path}; copy the file into it"
        for line in LIST.findall(FENCED.sub("", text)):
            yield f"{name}: no empty line between a list and '{line}'"
        for target in LINK.findall(text):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{name}: the link to {target} leads nowhere"
        yield from wrong_names(name, text, headers)
        for path in PATH.findall(text):
            if not PLACEHOLDER.search(path) and not any(root.glob(path.rstrip("/"))):
                yield f"{name}: there is no {path}"


def write(root):
    for page in pages_of(root):
        text = page.read_text()
        now = FILE_BLOCK.sub(
            lambda block: text[block.start():block.start(2)] + (root / block[1]).read_text() + "```", text)
        now = OPTIONS.sub(lambda found: found[1] + table_of_options(root) + found[3], now)
        if now != text:
            page.write_text(now)


def self_test_of_options():
    """The rules of the table of options, on a table of two."""
    option = ('inline constexpr Option<int> kA{.argument = "a", .variable = "LOCKSTEP_A", .otherwise = 5, .least = 1,\n'
              '    .most = kMost - 1, .help = "A, "\n    "in words", .page = "a.md"};\n'
              'inline constexpr Text kB{.argument = "b", .variable = "LOCKSTEP_B", .help =\n    "B"};\n')
    fields = "struct InitializeOptions {\n  /// LOCKSTEP_A,\n  /// 5.\n  std::optional<int> a;\n" \
             "  std::optional<int> mpi;\n  std::optional<std::string> b;  ///< LOCKSTEP_B\n};\n"
    row = "| `LOCKSTEP_A` | `a`      | 5       | 1 to 9,999 | A, in words ([more](a.md)) |"
    cases = [(option, fields, None), (option.replace("= 5", "= 6"), fields, "lacks LOCKSTEP_A 6"),
             (option.replace('"LOCKSTEP_B"', '"LOCKSTEP_C"'), fields, "lacks LOCKSTEP_C"),
             (option, fields.replace(" b;", " c;"), "c is in only one of them")]
    for header, structure, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, content in (("lockstep/base/options.h", header), ("lockstep/runtime/initialize.h", structure),
                                  ("lockstep/base/limits.h", "inline constexpr int kMost = 10'000;\n"), ("README.md", ""),
                                  ("docs/clusters.md", "<!-- the options of lockstep/base/options.h -->\n\n\n"
                                   "<!-- end of the options -->\n")):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content)
            before = list(wrong_options(root))
            write(root)
            found, page = list(wrong_options(root)), (root / "docs" / "clusters.md").read_text()
        if "the table is not" not in before[0]:
            sys.exit(f"check_docs: self-test: an empty table of options gives {before}")
        if expected is None and (found or row not in page) or expected and expected not in " ".join(found):
            sys.exit(f"check_docs: self-test: expected {expected or row}, got {found} and {page}")


def self_test():
    good = ("<!-- the file examples/a.cc -->\n```cpp\nint a;\n```\n[page](docs/a.md#part) `examples/*.cc` "
            "`lockstep/LAYER/`\n")
    names = ("<!-- the names of the second column are in the headers -->\n|a|b|\n|-|-|\n|x|`f`|\n"
             "<!-- end of the names -->\n")
    row = "| variable |\n| --- |\n| `LOCKSTEP_A` |\n| `LOCKSTEP_B` |\n"
    without = names.replace("second column are", "first column are not").replace("|x|", "|`g`|")
    cases = [(good, None),
             (good + names + without, None),
             (good + names.replace("`f`", "`g`"), "the headers do not have g"),
             (good + without.replace("`g`", "`f`"), "the headers have f"),
             (good.replace("int a;", "int b;"), "is not the file"),
             (good.replace("<!-- the file examples/a.cc -->\n", ""), "has no program"),
             (good.replace("```cpp", "cpp"), "without a code block"),
             (good.replace("docs/a.md", "docs/b.md"), "leads nowhere"),
             (good + "text\n- item\n", "no empty line between a list and 'text'"),
             (good + "`examples/b.cc`", "there is no examples/b.cc")]
    cases = [(text, row, expected) for text, expected in cases]
    cases += [(good, row.replace("_A", "_C"), "no table has a row for LOCKSTEP_A"),
              (good, row.replace("_B", "_C"), "no table has a row for LOCKSTEP_B"),
              (good, row + "| `LOCKSTEP_C` |\n", "has a row for LOCKSTEP_C")]
    cases = [(text, row, "# Title\n", expected) for text, row, expected in cases]
    recipes = "`x`\n## Where to add\n`examples/a.cc` `examples/` `a.cc --only NAME` `NAME.cc` `f()`\n## Then\n`y`\n"
    cases += [(good, row, recipes, None),
              (good, row, recipes.replace("`a.cc", "`b.cc"), "names b.cc, which is not in the tree"),
              (good, row, recipes.replace("`f()`", "`S::g()`"), "but no source has S"),
              (good, row, recipes.replace("`f()`", "`f()`\n<!-- at most 2 files name LOCKSTEP_B -->"), None),
              (good, row, recipes.replace("`f()`", "`f()`\n<!-- at most 1 files name LOCKSTEP_B -->"), "2 files name"),
              (good, row, recipes.replace("`f()`", "`f()`\n<!-- at most 1 files name no_one -->"), "0 files name")]
    source = "int f();  // not g; LOCKSTEP_A\n"
    cases = [(*case[:3], source, case[3]) for case in cases]
    cases += [(good, row, "", source + f"/// docs/{name}.md, in words (examples/a.cc)\n", expected)
              for name, expected in (("a", None), ("b", "a comment names docs/b.md"))]
    for text, page, contributing, header, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, content in (("examples/a.cc", "int a;\n"), ("docs/a.md", page), ("README.md", text),
                                  ("CONTRIBUTING.md", contributing), ("lockstep/a.h", header),
                                  ("lockstep/a.cc", 'get("LOCKSTEP_B"); LOCKSTEP_MACRO(1);\n')):
                (root / path).parent.mkdir(exist_ok=True)
                (root / path).write_text(content)
            found = list(errors_of(root))
        if (found != []) if expected is None else not any(expected in error for error in found):
            sys.exit(f"check_docs: self-test: expected {expected or 'no error'}, got {found}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test_of_options()
        return self_test()
    if sys.argv[1:] == ["--write"]:
        return write(Path(__file__).resolve().parent.parent)
    errors = list(errors_of(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()))
    sys.exit("\n".join(errors) if errors else 0)


if __name__ == "__main__":
    main()
