# SPDX-License-Identifier: Apache-2.0
"""Turns Doxygen's XML of the headers into pages of the site, one for each folder of headers that users include.

A page has a part for each header: what the header's comment says, then its classes and functions in the header's order.
Functions in lines that follow each other share the comment of the first, as in the header.
"""
import html
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer

# The folders of what a user calls, in the order of the navigation.
FOLDERS = {
    "runtime": "Processes and devices",
    "sharding": "Meshes and shardings",
    "program": "Shapes and choices",
    "array": "Arrays",
    "ops": "Operations",
    "jit": "jit and transformations",
    "nn": "Layers",
    "optim": "Optimizers",
    "random": "Random numbers",
    "tree": "Trees",
    "data": "Data",
    "tokenizers": "Tokenizers",
    "checkpoint": "Checkpoints",
    "metrics": "Metrics",
    "storage": "Storage",
    "watch": "Phases",
    "base": "Errors and dtypes",
    "testing": "Tests of several processes",
}
# Folders of which users include single headers: those that the headers directly in lockstep/ include. Of the others it also
# shows what these include of the same folder.
SINGLE = ("checkpoint", "data", "metrics", "watch", "base", "program")
# The public headers that lockstep.h does not include.
FURTHER = "cmake/public_headers.txt"

# A comment's line of text, and the lines below it that are indented more: code, unless the text is an item of a list.
CODE = re.compile(r"^(\s*///(?: (?![- \d]).*)?)"
                  r"((?:\n\s*///  +(?!- )\S.*)+(?:\n\s*///(?:  +\S.*)?)*(?<=\S)(?<!///))$", re.MULTILINE)
KINDS = ("enum", "typedef", "function", "variable", "friend")
# The parts of a declaration in Doxygen's XML.
DECLARED = ("templateparamlist", "type", "argsstring", "initializer", "requiresclause", "basecompoundref", "enumvalue")
INLINE = {"computeroutput": "code", "bold": "strong", "emphasis": "em"}
BLOCKS = {"itemizedlist": "ul", "orderedlist": "ol", "listitem": "li", "verbatim": "pre"}
SYMBOLS = {"ndash": "–", "mdash": "—", "linebreak": "<br>", "nonbreakablespace": "&nbsp;"}


@dataclass
class Entry:
    """A class, or a group of functions that share a comment."""
    title: str
    line: int
    members: list = field(default_factory=list)
    node: ElementTree.Element = None  # of a class
    anchor: str = ""


def headers_of(root):
    """The public headers of each folder."""
    include = re.compile(r'#include "lockstep/(?:(\w+)/)?([\w/]+\.h)"')
    found, waiting = [], [(None, "lockstep.h")]
    while waiting:
        folder, name = waiting.pop()
        text = (root / "lockstep" / (folder or "") / name).read_text()
        for to_folder, to_name in include.findall(text):
            header = (to_folder or None, to_name)
            shown = folder is None or (folder == to_folder and folder not in SINGLE)
            if header not in found and header not in waiting and (not to_folder or to_folder in FOLDERS) and shown:
                found += [header] if to_folder else []
                waiting.append(header)
    further = re.findall(r"^lockstep/(\w+)/([\w/]+\.h)$", (root / FURTHER).read_text(), re.MULTILINE)
    return {folder: sorted({name for of, name in [*found, *further] if of == folder}) for folder in FOLDERS}


class Reference:
    def __init__(self, root, xml):
        self.root = root
        self.headers = headers_of(root)
        self.lines = {}
        self.entries = {f"lockstep/{folder}/{name}": [] for folder in self.headers for name in self.headers[folder]}
        self.places = {}  # of each of Doxygen's ids: page and anchor
        self.compounds = {}
        for path in sorted(Path(xml).glob("*.xml")):
            for compound in ElementTree.parse(path).getroot().findall("compounddef"):
                self.compounds[compound.get("id")] = compound
        for compound in self.compounds.values():
            if compound.get("kind") == "namespace":
                self.add_namespace(compound)
        for header, entries in self.entries.items():
            entries.sort(key=lambda entry: entry.line)
            self.name_anchors(header, entries)
        for compound in self.compounds.values():
            if compound.get("kind") == "file" and self.entries.get(file_of(compound)):
                self.places[compound.get("id")] = self.places[file_of(compound)]

    def source(self, header):
        if header not in self.lines:
            self.lines[header] = (self.root / header).read_text().split("\n")
        return self.lines[header]

    def add_namespace(self, namespace):
        name = namespace.findtext("compoundname")
        if not name.startswith("lockstep") or is_internal(name) or name.startswith("lockstep::ir"):
            return
        members = [member for section in namespace.findall("sectiondef") for member in section.findall("memberdef")
                   if member.get("kind") in KINDS and file_of(member) in self.entries]
        for inner in namespace.findall("innerclass"):
            compound = self.compounds.get(inner.get("refid"))
            if compound is not None and file_of(compound) in self.entries:
                self.add_class(compound)
        members.sort(key=lambda member: (file_of(member), line_of(member)))
        last = None
        for member in members:
            header, line = file_of(member), line_of(member)
            entries = self.entries[header]
            if last and last[0] == header and not documented_above(self.source(header), line) \
                    and not self.gap(header, last[1], line):
                entries[-1].members.append(member)
            else:
                entries.append(Entry(member.findtext("name"), line, [member]))
            last = (header, max(line, int(member.find("location").get("bodyend", "-1"))))

    def add_class(self, compound):
        name = compound.findtext("compoundname").removeprefix("lockstep::")
        if any(part in ("internal", "std", "fmt") for part in name.split("::")):
            return
        self.entries[file_of(compound)].append(Entry(name, line_of(compound), node=compound))

    def internal_names(self):
        """Yields each declaration that names something in a namespace `internal`. Bodies may do so; of them it only
        reads what the functions that they return require."""
        for compound in self.compounds.values():
            name = compound.findtext("compoundname")
            if file_of(compound) not in self.entries and compound.get("kind") != "namespace" or is_internal(name):
                continue
            parts = [part for part in compound if part.tag != "basecompoundref" or part.get("prot") == "public"]
            if mentions_internal(parts):
                yield f"{file_of(compound)}:{line_of(compound)}: {name}"
            for member in compound.findall("sectiondef/memberdef"):
                if file_of(member) in self.entries and member.get("prot") != "private" and mentions_internal(member):
                    yield f"{file_of(member)}:{line_of(member)}: {member.findtext('qualifiedname')}"
        for header in self.entries:
            for number, line in enumerate(self.source(header), 1):
                if re.search(r"\brequires\b.*\binternal::", line):
                    yield f"{header}:{number}: {line.strip()}"

    def gap(self, header, first, second):
        """Whether an empty line stands between two lines of a header."""
        return any(not line.strip() for line in self.source(header)[first:second - 1])

    @staticmethod
    def stage(root, folder):
        """Copies the public headers for Doxygen, the indented code in their comments marked as such. Lines stay."""
        for of, names in headers_of(root).items():
            for name in names:
                target = folder / "lockstep" / of / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(CODE.sub(r"\1 @verbatim\2 @endverbatim", (root / "lockstep" / of / name).read_text()))

    def name_anchors(self, header, entries):
        page = header.split("/")[1]
        taken = self.places.setdefault(page, set())

        def anchor(name):
            number, unique = 1, name
            while unique in taken:
                number += 1
                unique = f"{name}-{number}"
            taken.add(unique)
            return unique

        for entry in entries:
            if entry.node is not None:
                entry.anchor = anchor(slug(entry.title))
                self.places[entry.node.get("id")] = (page, entry.anchor)
                for member in entry.node.iter("memberdef"):
                    self.places[member.get("id")] = (page, entry.anchor)
            for member in entry.members:
                name = slug(member.findtext("qualifiedname").removeprefix("lockstep::"))
                if not entry.anchor:
                    entry.anchor = anchor(name)
                self.places[member.get("id")] = (page, entry.anchor)
        self.places[header] = (page, anchor(slug(header.split("/")[-1])))

    def page(self, folder):
        """The page of a folder; nothing where its headers have nothing for users."""
        out = [f"# {FOLDERS[folder]}", ""]
        for name in self.headers[folder]:
            header = f"lockstep/{folder}/{name}"
            entries = self.entries[header]
            if not entries:
                continue
            out += [f"## {name} {{#{self.places[header][1]}}}", ""]
            intro = with_pages(namespace_comment("\n".join(self.source(header))))
            out += [f"`#include <{header}>`", "", intro, ""]
            for entry in entries:
                out += self.class_text(entry, folder) if entry.node is not None else self.group_text(entry, folder)
        return "\n".join(out) if len(out) > 2 else None

    def group_text(self, entry, page):
        names = [member.findtext("qualifiedname").removeprefix("lockstep::") for member in entry.members]
        names = list(dict.fromkeys(names))
        title = ", ".join(f"`{name}`" for name in names[:6]) + (", …" if len(names) > 6 else "")
        out = [f"### {title} {{#{entry.anchor}}}", ""]
        out += ["```cpp", *[signature(member) for member in entry.members], "```", ""]
        texts = [self.description(member, page) for member in entry.members]
        if any(texts[1:]):
            out += ['<dl class="members">']
            out += [f"<dt><code>{html.escape(member.findtext('name'))}</code></dt><dd>{text}</dd>"
                    for member, text in zip(entry.members, texts) if text]
            out += ["</dl>", ""]
        else:
            out += [f"<div>{texts[0]}</div>", ""] if texts[0] else []
        return out

    def class_text(self, entry, page):
        kind = entry.node.get("kind")
        template = template_of(entry.node)
        bases = [base.text for base in entry.node.findall("basecompoundref") if base.get("prot") == "public"]
        declaration = f"{kind} {entry.title}" + (f" : {', '.join(bases)}" if bases else "")
        out = [f"### `{entry.title}` {{#{entry.anchor}}}", "", "```cpp", f"{template}{declaration}", "```", ""]
        text = self.description(entry.node, page)
        out += [f"<div>{text}</div>", ""] if text else []
        members = [member for section in entry.node.findall("sectiondef") for member in section.findall("memberdef")
                   if member.get("prot") == "public" and member.get("kind") in KINDS[:-1]
                   and member.get("kind") != "friend"]
        members.sort(key=line_of)
        if members:
            out += ['<dl class="members">']
            for member in members:
                out += [f"<dt><code>{html.escape(signature(member))}</code></dt>"
                        f"<dd>{self.description(member, page)}</dd>"]
            out += ["</dl>", ""]
        return out

    def description(self, node, page):
        parts = [self.markup(child, page) for which in ("briefdescription", "detaileddescription")
                 for child in node.findall(which)]
        parts = [part for part in (text.strip() for text in parts) if part]
        if node.get("kind") == "enum":
            values = [f"<code>{html.escape(value.findtext('name'))}</code>" + self.value_text(value, page)
                      for value in node.findall("enumvalue")]
            parts.append("<p>Values: " + ", ".join(values) + "</p>")
        return "".join(parts)

    def value_text(self, value, page):
        text = re.sub(r"</?p>", "", self.description(value, page))
        return f" ({text})" if text else ""

    def markup(self, node, page):
        """A node of Doxygen's as HTML, without line ends, which would end the block for Markdown."""
        inner = with_pages(escaped(node.text)) + "".join(
            self.markup(child, page) + with_pages(escaped(child.tail)) for child in node)
        if node.tag in ("briefdescription", "detaileddescription"):
            return inner
        if node.tag == "para":
            # Blocks stand beside a paragraph's text, not in it.
            return re.sub(r"<p>\s*</p>", "", "<p>" + re.sub(r"(<(ul|ol|pre)\b.*?</\2>)", r"</p>\1<p>", inner) + "</p>")
        if node.tag == "ref":
            place = self.places.get(node.get("refid"))
            if place is None:
                return inner
            return f'<a href="{"" if place[0] == page else place[0] + ".html"}#{place[1]}">{inner}</a>'
        if node.tag == "verbatim":
            return highlighted(node.text)
        if node.tag in SYMBOLS:
            return SYMBOLS[node.tag]
        tag = INLINE.get(node.tag) or BLOCKS.get(node.tag)
        if tag is None:
            raise SystemExit(f"reference: Doxygen gave <{node.tag}>, which it does not know; add it to the tables")
        return f"<{tag}>{inner}</{tag}>"


def highlighted(code):
    code = textwrap.dedent(re.sub(r"^\s*///", "", code, flags=re.MULTILINE))
    text = pygments.highlight(code.strip("\n"), CppLexer(), HtmlFormatter(nowrap=True)).rstrip()
    return '<pre class="highlight"><code>' + text.replace("\n", "&#10;") + "</code></pre>"


def escaped(text):
    return html.escape(re.sub(r"\s+", " ", text or ""), quote=False)


def with_pages(text):
    """The text, with links where it names a page, as docs/data.md."""
    return re.sub(r"docs/([\w-]+)\.md", r'<a href="../\1.html">\1</a>', text)


def slug(name):
    """An anchor: operators and the like by their characters' numbers, so that no two are the same."""
    return "".join(c if c.isalnum() or c in "_-." else "-" if c in ": " else f"-{ord(c):x}" for c in name).strip("-")


def is_internal(name):
    return "internal" in name.split("::")


def mentions_internal(parts):
    """Whether one of these parts of a declaration, without comments and bodies, names something in `internal`."""
    texts = ["".join(part.itertext()) for part in parts if part.tag in DECLARED]
    return any("internal::" in re.sub(r"^= *\[.*", "", text, flags=re.DOTALL) for text in texts)


def file_of(node):
    return node.find("location").get("file")


def line_of(node):
    location = node.find("location")
    return int(location.get("declline") or location.get("line"))


def documented_above(lines, line):
    """Whether a comment stands right above the declaration, of which `line` may be the second, behind `template`."""
    above = line - 2
    while above >= 0 and lines[above].strip().startswith(("template", "requires")):
        above -= 1
    return lines[above].strip().startswith("///") if above >= 0 else False


def namespace_comment(text):
    """What a header says of the whole of it: the comment above its namespace, which is Markdown already."""
    match = re.search(r"((?:^///.*\n)+)namespace [\w:]+ \{", text, re.MULTILINE)
    if not match:
        return ""
    lines = [line[3:].removeprefix(" ") for line in match.group(1).splitlines()]
    return "\n".join("    " + line if line.startswith("  ") else line for line in with_gaps(lines))


def with_gaps(lines):
    """Lines of Markdown with an empty one before and behind indented code, which makes code of it."""
    for before, line in zip([""] + lines, lines):
        if before and line and before.startswith("  ") != line.startswith("  "):
            yield ""
        yield line


def template_of(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    texts = []
    for parameter in parameters.findall("param"):
        text = "".join(parameter.find("type").itertext())
        name = parameter.findtext("declname")
        texts.append(text + (f" {name}" if name and not text.endswith(name) else ""))
    return f"template <{', '.join(texts)}>\n"


def tidy(text):
    text = re.sub(r"\s+", " ", text).replace("< ", "<").replace(" >", ">").replace("lockstep::", "")
    text = re.sub(r" ([&*]+)(?=[\w.])", r"\1 ", text)  # const Array& x, as in the headers
    text = re.sub(r"(\w)=(?=[^=])", r"\1 = ", text)
    return re.sub(r", std::source_location where = std::source_location::current\(\)", "", text)


def signature(member):
    kind, name = member.get("kind"), member.findtext("name")
    kind_text = "".join(member.find("type").itertext()) if member.find("type") is not None else ""
    if kind == "enum":
        return f"enum class {name}" if member.get("strong") == "yes" else f"enum {name}"
    if kind == "typedef":
        return tidy(f"using {name} = {kind_text}") + ";"
    if kind == "variable":
        initializer = "".join(member.find("initializer").itertext()) if member.find("initializer") is not None else ""
        initializer = tidy(initializer) if len(initializer) < 60 else ""
        return tidy(f"{kind_text} {name}") + (" " if initializer else "") + initializer + ";"
    static = "static " if member.get("static") == "yes" else ""
    explicit = "explicit " if member.get("explicit") == "yes" else ""
    text = tidy(f"{static}{explicit}{kind_text} {name}{member.findtext('argsstring')}").strip()
    if len(text) > 100 and "(" in text:
        head, rest = text.split("(", 1)
        text = f"{head}(\n    " + re.sub(r", (?=(?:const |std::|\w+ ))", ",\n    ", rest)
    return template_of(member) + text + ";"
