# SPDX-License-Identifier: Apache-2.0
"""The collectives of a compiled HLO module, read from its text."""
import math
import re

SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8,
         "u64": 8, "f64": 8, "c64": 8, "c128": 16}
KINDS = {"all-reduce": "all-reduce", "all-gather": "all-gather", "reduce-scatter": "reduce-scatter",
         "all-to-all": "all-to-all", "ragged-all-to-all": "all-to-all", "collective-permute": "permute",
         "collective-broadcast": "broadcast"}
# "%name = TYPE opcode(operands), attributes": a type has no "=" and, if a tuple, parentheses of its own.
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][a-z0-9-]*)\((.*)$")
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
CALLED = re.compile(r"(?:calls|to_apply|called_computations|branch_computations|true_computation|false_computation)="
                    r"\{?((?:%[\w.-]+(?:, )?)+)")


class Instruction:
    def __init__(self, name, type, opcode, rest, line):
        self.name, self.type, self.opcode, self.rest, self.line = name, type, opcode, rest, line

    def named(self, attribute):
        """The computation that is the attribute's value."""
        return re.search(rf"\b{attribute}=%?([\w.-]+)", self.rest).group(1)

    def operands(self):
        return re.findall(r"%([\w.-]+)", self.rest.split(")")[0])


def parse(text):
    """Its computations, each a list of instructions, by name; and the entry's name."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if found := COMPUTATION.match(line):
            current = computations.setdefault(found.group(2), [])
            if found.group(1):
                entry = found.group(2)
        elif (found := INSTRUCTION.match(line)) and current is not None:
            current.append(Instruction(*found.groups(), line.strip()))
    return computations, entry


def array_sizes(type):
    """The bytes of each array of a type, which may be a tuple."""
    sizes = []
    for dtype, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", type):
        if dtype != "token":
            sizes.append(SIZES[dtype] * math.prod(int(d) for d in dims.split(",") if d))
    return sizes


def group_size(rest, devices):
    """Of replica_groups={{0,1},{2,3}}, [groups,size]<=[...], or mesh['a'=4,'b'=2] {'a'}, where "'a':(2)2" is a part of
    an axis, of size 2; without groups all devices are one."""
    if found := re.search(r"replica_groups=\{\{([\d,]*)\}", rest):
        return len(found.group(1).split(","))
    if found := re.search(r"replica_groups=\[([\d,]+)\]<=", rest):
        return int(found.group(1).split(",")[-1])
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=[^{]*)? ?\{([^}]*)\}", rest):
        sizes = dict(re.findall(r"'([^']*)'=(\d+)", found.group(1)))
        axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", found.group(2))
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    if re.search(r"replica_groups=\{\}", rest):
        return devices
    raise ValueError(f"replica_groups are not understood: {rest}")


def trip_count(loop, computations):
    """How often a while loop runs, or None where the text does not tell."""
    if found := re.search(r'known_trip_count["\\]*:\s*\{["\\]*n["\\]*:["\\]*(\d+)', loop.rest):
        return int(found.group(1))
    condition = computations[loop.named("condition")]
    compared = [i for i in condition if i.opcode == "compare" and "direction=LT" in i.rest]
    constants = [i for i in condition if i.opcode == "constant" and re.match(r"s(32|64)\[\]", i.type)]
    if len(compared) == 1 and len(constants) == 1 and constants[0].name in compared[0].operands():
        return int(re.match(r"-?\d+", constants[0].rest).group())
    return None


def describe(instruction, sizes_of, devices):
    """What the collective is: its kind, bytes and group; None of what is none, or is over one device."""
    opcode = instruction.opcode.removesuffix("-start")
    if opcode not in KINDS or instruction.opcode.endswith("-done"):
        return None
    given = sum(sum(sizes_of[name]) for name in instruction.operands())
    # A started one's type holds the operands, too, and what else it keeps; what it gives follows from them.
    if opcode == "all-gather":
        size = group_size(instruction.rest, devices)
        bytes = given * size
    elif opcode in ("collective-permute", "collective-broadcast"):
        pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", instruction.rest)
        moves = [p for p in re.findall(r"(\d+),(\d+)", pairs.group(1)) if p[0] != p[1]] if pairs else None
        if moves == []:
            return None
        size, bytes = devices, given
    else:
        size = group_size(instruction.rest, devices)
        bytes = given
    if size == 1:
        return None
    return {"kind": KINDS[opcode], "bytes": bytes, "group": size}


def collectives(text, devices):
    """Each collective of a module: kind, bytes (of the larger of what a device gives and gets), group, times (None
    where that is unknown) and its line. Of a conditional, those of all branches."""
    computations, entry = parse(text)
    found = []

    def visit(name, times):
        sizes_of = {i.name: array_sizes(i.type) for i in computations[name]}
        for instruction in computations[name]:
            if line := describe(instruction, sizes_of, devices):
                operation = re.search(r'op_name="([^"]*)"', instruction.line)
                found.append({**line, "times": times, "type": instruction.type,
                              "operation": operation.group(1) if operation else ""})
            if instruction.opcode == "while":
                count = trip_count(instruction, computations)
                visit(instruction.named("body"), None if times is None or count is None else times * count)
            elif instruction.opcode.removesuffix("-start") not in KINDS:
                for called in CALLED.findall(instruction.rest):
                    for callee in re.findall(r"%([\w.-]+)", called):
                        visit(callee, times)

    visit(entry, 1)
    return found
