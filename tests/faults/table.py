# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/failure.md whose cells are results of a test, between `<!-- the results of NAME -->` and
`<!-- end of the results -->`."""
import argparse
import os
import re


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--page", default=os.path.join(os.path.dirname(__file__), "../../docs/failure.md"))
    parser.add_argument("--write", action="store_true", help="write the table instead of comparing it")
    parser.add_argument("--only", default="", help="a part of a row's name; nothing is written or compared")
    return parser.parse_args()


def lines_of(header, rows):
    return ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header),
            *("| " + " | ".join(cell or "" for cell in row) + " |" for row in rows)]


def part_of(name):
    return re.compile(rf"(<!-- the results of {name} -->\n\n)(.*?)(\n<!-- end of the results -->)", re.DOTALL)


def write_table(page, name, header, rows):
    with open(page) as file:
        text = file.read()
    assert part_of(name).search(text), f"{page} has no place for the results of {name}"
    table = "\n".join(lines_of(header, rows)) + "\n"
    with open(page, "w") as file:
        file.write(part_of(name).sub(lambda match: match[1] + table + match[3], text))


def compare_table(page, name, header, rows):
    """Prints the differences and returns their number. A cell that is None was not run."""
    with open(page) as file:
        found = part_of(name).search(file.read())
    if found is None:
        print(f"{page} has no results of {name}")
        return 1
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found[2].splitlines()]
    if [cells[0], *(row[:1] for row in cells[2:])] != [header, *(row[:1] for row in rows)]:
        print(f"{page}: the results of {name} have other rows or columns; write them anew (--write)")
        return 1
    differences = 0
    for said, row in zip(cells[2:], rows):
        for column, (there, here) in enumerate(zip(said, row)):
            if here and here != there:
                differences += 1
                print(f"{page}: {row[0]}, {header[column]}: the page says '{there}', the test finds '{here}'")
    return differences


def write_or_compare(arguments, name, header, rows):
    """As the arguments say; the number of differences."""
    if arguments.only:
        return 0
    if not arguments.write:
        return compare_table(arguments.page, name, header, rows)
    write_table(arguments.page, name, header, rows)
    return 0
