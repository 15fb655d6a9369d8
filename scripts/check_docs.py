#!/usr/bin/env python3
"""Holds README.md and docs/*.md to the tree; run as a test.

  - A code block behind the line `<!-- the file PATH -->` is that file, to the letter; README.md has one.
  - A link to a file leads to one.
  - A path between backquotes that begins with a folder of the tree (`lockstep/jit/jit.h`, `cli/*.cc`) is there.
    One with a word in capitals (`lockstep/LAYER/`) stands for many and is not looked up.

    check_docs.py [ROOT]         check the tree
    check_docs.py --self-test    prove that each rule is enforced
"""
import re
import sys
import tempfile
from pathlib import Path

FILE_BLOCK = re.compile(r"<!-- the file (\S+) -->\n+```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:lockstep|cli|cmake|scripts|tests|examples|benchmarks|docs)/[\w./*-]*)`")
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z.])")


def errors_of(root):
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    for page in pages:
        name, text = page.relative_to(root), page.read_text()
        blocks = FILE_BLOCK.findall(text)
        if len(blocks) != text.count("<!-- the file "):
            yield f"{name}: a line <!-- the file PATH --> without a code block behind it"
        if name.name == "README.md" and not blocks:
            yield f"{name}: has no program: a line <!-- the file PATH --> and a code block"
        for path, block in blocks:
            if not (root / path).is_file() or (root / path).read_text() != block:
                yield f"{name}: the code block is not the file {path}; copy the file into it"
        for target in LINK.findall(text):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{name}: the link to {target} leads nowhere"
        for path in PATH.findall(text):
            if not PLACEHOLDER.search(path) and not any(root.glob(path.rstrip("/"))):
                yield f"{name}: there is no {path}"


def self_test():
    good = "<!-- the file examples/a.cc -->\n```cpp\nint a;\n```\n[page](docs/a.md#part) `examples/*.cc` `lockstep/LAYER/`\n"
    cases = [(good, None),
             (good.replace("int a;", "int b;"), "is not the file"),
             (good.replace("<!-- the file examples/a.cc -->\n", ""), "has no program"),
             (good.replace("```cpp", "cpp"), "without a code block"),
             (good.replace("docs/a.md", "docs/b.md"), "leads nowhere"),
             (good + "`examples/b.cc`", "there is no examples/b.cc")]
    for text, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, content in (("examples/a.cc", "int a;\n"), ("docs/a.md", ""), ("README.md", text)):
                (root / path).parent.mkdir(exist_ok=True)
                (root / path).write_text(content)
            found = list(errors_of(root))
        if (found != []) if expected is None else not any(expected in error for error in found):
            sys.exit(f"check_docs: self-test: expected {expected or 'no error'}, got {found}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    errors = list(errors_of(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()))
    sys.exit("\n".join(errors) if errors else 0)


if __name__ == "__main__":
    main()
