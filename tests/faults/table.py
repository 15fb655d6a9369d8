# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation whose cells are results of tests, between `<!-- the results of NAME -->` and
`<!-- end of the results -->`."""
import re


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
    """The number of differences, which it prints. An empty cell was not run."""
    with open(page) as file:
        found = part_of(name).search(file.read())
    if found is None:
        print(f"{page} has no results of {name}")
        return 1
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found[2].splitlines()]
    differences = 0
    if [cells[0], *(row[:1] for row in cells[2:])] != [header, *(row[:1] for row in rows)]:
        print(f"{page}: the results of {name} have other rows or columns; write them anew (--write)")
        return 1
    for said, row in zip(cells[2:], rows):
        for column, (there, here) in enumerate(zip(said, row)):
            if here and here != there:
                differences += 1
                print(f"{page}: {row[0]}, {header[column]}: the page says '{there}', the test finds '{here}'")
    return differences
