#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site of docs/ from the pages, the public headers and the sources that the pages lead to.

    build_docs.py FOLDER MKDOCS                writes the pages to FOLDER/pages and the site to FOLDER/site
    build_docs.py --self-test FOLDER MKDOCS    proves that what is wrong with a page is found

Any warning, and any link within the site that leads nowhere, is an error. scripts/docs calls it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from reference import Reference

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "docs/site/mkdocs.yml"
ROOT_PAGES = {"README.md": "index.md"} | {name + ".md": name.lower() + ".md"
                                         for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".txt": "text", ".json": "json", ".proto": "protobuf"}


def doxygen(root, folder):
    """The headers of a tree as XML. Doxygen's warnings about specialisations of std and fmt, which are not shown, are none."""
    Reference.stage(root, folder / "headers")
    options = (ROOT / "docs/site/Doxyfile").read_text() + f"\nINPUT = lockstep\nOUTPUT_DIRECTORY = {folder}\n"
    result = subprocess.run(["doxygen", "-"], input=options, cwd=folder / "headers", capture_output=True, text=True)
    warnings = [line for line in result.stderr.splitlines() if line and "scope for class" not in line]
    if result.returncode or warnings:
        sys.exit("build_docs: doxygen says\n" + "\n".join(warnings))


class Pages:
    """The Markdown of the site. A link to a file of the tree becomes a link to a page with that file."""

    def __init__(self, folder):
        self.folder = folder
        self.sources = set()

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def add(self, source, path):
        """A page of the tree as the page `path` of the site."""
        text, done, out = source.read_text(), 0, []
        for fence in FENCE.finditer(text):
            out += [self.links(text[done:fence.start()], source, path), fence.group()]
            done = fence.end()
        self.write(path, "".join(out) + self.links(text[done:], source, path))

    def links(self, text, source, path):
        return LINK.sub(lambda m: m[1] + self.target(m[2], source, path) + m[3], text)

    def target(self, link, source, path):
        if "://" in link:
            return link
        file = Path(os.path.normpath(source.parent / link))
        if file.parent == ROOT and file.name in ROOT_PAGES:
            to = ROOT_PAGES[file.name]
        elif file.suffix in (".md", ".png", ".svg") and (ROOT / "docs") in file.parents:
            to = str(file.relative_to(ROOT / "docs"))
        else:
            to = f"source/{file.relative_to(ROOT)}.md"
            self.sources.add(file)
        return os.path.relpath(to, Path(path).parent)

    def add_sources(self):
        done = set()
        while waiting := self.sources - done:
            file = min(waiting)
            done.add(file)
            name = str(file.relative_to(ROOT))
            if file.is_dir():
                files = "\n".join(f"- {entry.name}{'/' if entry.is_dir() else ''}" for entry in sorted(file.iterdir()))
                self.write(f"source/{name}.md", f"# {name}/\n\n{files}\n")
            elif file.suffix == ".md":
                self.add(file, f"source/{name}.md")  # whose links may lead to more
            else:
                language = LANGUAGES.get(file.suffix, "bash" if file.read_text().startswith("#!") else "text")
                self.write(f"source/{name}.md", f"# {name}\n\n````{language}\n{file.read_text()}````\n")


class Links(HTMLParser):
    """The ids of a page, and where its links lead."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.add(value)


def broken_links(site):
    pages = {page: Links(page) for page in site.rglob("*.html")}
    for page, content in pages.items():
        if page.name == "404.html":
            continue
        for link in sorted(content.links):
            address, fragment = urldefrag(link)
            if re.match(r"[a-z]+:", address):
                continue
            target = Path(os.path.normpath(page.parent / unquote(address))) if address else page
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                yield f"{page.relative_to(site)}: {link} leads nowhere"
            elif fragment and target in pages and unquote(fragment) not in pages[target].ids:
                yield f"{page.relative_to(site)}: {link}: there is no such place on that page"


def build(mkdocs, config, pages, site):
    """Makes the site; gives what is wrong, or nothing."""
    result = subprocess.run([mkdocs, "build", "--strict", "-f", config], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=os.environ | {
                                "LOCKSTEP_DOCS_PAGES": str(pages), "LOCKSTEP_DOCS_SITE": str(site),
                                "NO_MKDOCS_2_WARNING": "true"})
    if result.returncode:
        return result.stdout
    return "\n".join(broken_links(site))


# Declarations that name something in a namespace `internal`, and what does not count.
DECLARATIONS = """
namespace lockstep::internal {
struct Hidden {};
template <class T> concept Works = true;
}
namespace lockstep {
internal::Hidden bad_result();
void bad_parameter(const internal::Hidden& hidden);
int bad_default(int n = internal::n);
template <class T> requires internal::Works<T> void bad_requirement(T t);
template <internal::Works T> void bad_template(T t);
inline int bad_value = internal::n;
template <class T> concept BadConcept = internal::Works<T>;
using bad_alias = internal::Hidden;
class BadBase : public internal::Hidden {};
template <class T> requires internal::Works<T> class BadClass {};
struct Members {
  int bad_member = internal::n;
  void bad_method(internal::Hidden hidden);
  static internal::Hidden bad_static();
};
auto bad_function() { return []<class T>(T t) requires internal::Works<T> {}; }
/// Unlike internal::n, a comment names what it likes.
int good(int n) { return internal::n + n; }
inline int good_value = []() -> int { return internal::n; }();
class Good : internal::Hidden {
 public:
  int of(int n) { return internal::n + n; }
 private:
  internal::Hidden hidden_;
};
}
"""


def self_test_names(folder):
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        for path, text in (("cmake/public_headers.txt", ""), ("lockstep/jit/names.h", DECLARATIONS),
                           ("lockstep/lockstep.h", '#include "lockstep/jit/names.h"\n')):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        doxygen(root, root)
        lines = DECLARATIONS.split("\n")
        found = {lines[int(name.split(":")[1]) - 1] for name in Reference(root, root / "xml").internal_names()}
        expected = {line for line in lines if re.search("bad", line, re.IGNORECASE)}
        if found != expected:
            sys.exit(f"build_docs: self-test: not found {expected - found}, wrongly found {found - expected}")


def self_test(folder, mkdocs):
    self_test_names(folder)
    good = "# A\n\n[page](b.md#b) <a href='b.html#b'>page</a> [out](https://example.org)\n"
    cases = [(good, ""),
             (good.replace("b.md", "c.md"), "contains a link 'c.md#b', but the target 'c.md' is not found"),
             (good.replace("b.md#b", "b.md#c"), "does not contain an anchor '#c'"),
             (good.replace("b.html#b", "c.html#b"), "c.html#b leads nowhere"),
             (good.replace("b.html#b", "b.html#c"), "there is no such place on that page")]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        temporary = Path(name)
        config = temporary / "mkdocs.yml"
        config.write_text(f"INHERIT: {CONFIG}\nnav: [index.md, b.md]\nextra_css: []\n")
        pages = temporary / "pages"
        pages.mkdir()
        (pages / "b.md").write_text("# B\n")
        for text, expected in cases:
            (pages / "index.md").write_text(text)
            found = build(mkdocs, config, pages, temporary / "site")
            if expected not in found or (found and not expected):
                sys.exit(f"build_docs: self-test: expected {expected or 'no error'}, got {found}")


def main():
    testing = sys.argv[1] == "--self-test"
    folder, mkdocs = Path(sys.argv[-2]).resolve(), sys.argv[-1]
    if testing:
        return self_test(folder, mkdocs)
    for name in ("headers", "xml", "pages", "site"):
        shutil.rmtree(folder / name, ignore_errors=True)
    doxygen(ROOT, folder)
    pages = Pages(folder / "pages")
    for name, page in ROOT_PAGES.items():
        pages.add(ROOT / name, page)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        pages.add(page, str(page.relative_to(ROOT / "docs")))
    pages.add_sources()
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pages" / "pictures")
    reference = Reference(ROOT, folder / "xml")
    if names := list(reference.internal_names()):
        sys.exit("build_docs: these declarations of public headers name what is internal; give that a public name, or "
                 "name it in their bodies\n" + "\n".join(names))
    for name in reference.headers:
        if text := reference.page(name):
            pages.write(f"reference/{name}.md", text)
    shutil.copy(ROOT / "docs/site/style.css", folder / "pages")
    if wrong := build(mkdocs, CONFIG, pages.folder, folder / "site"):
        sys.exit(f"build_docs: the pages have errors\n{wrong}")


if __name__ == "__main__":
    main()
