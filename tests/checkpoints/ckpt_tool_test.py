#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep ckpt` says of checkpoints, whole and damaged ones.

    tests/checkpoints/ckpt_tool_test.py SAVE_STEPS LOCKSTEP
"""
import os
import shutil
import subprocess
import sys
import tempfile

SAVE_STEPS, LOCKSTEP = map(os.path.abspath, sys.argv[1:])


def tool(*arguments, cwd=None):
    done = subprocess.run([LOCKSTEP, "ckpt", *arguments], capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def expect(what, found, status, *texts):
    code, out, error = found
    for text in texts:
        if text not in out + error:
            sys.exit(f"{what}: expected {text!r}, got status {code}\n{out}{error}")
    if code != status:
        sys.exit(f"{what}: expected status {status}, got {code}\n{out}{error}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([SAVE_STEPS, folder, "--count", "3"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "LOCKSTEP_LOG": "off"})
        second, third = (os.path.join(folder, f"step-0000000{i}") for i in (2, 3))
        expect("ls", tool("ls", folder), 0, "step  arrays      bytes  processes", "   2       2  390.7 KiB          1")
        expect("ls of a step", tool("ls", third), 0, "large  i32[100000]  390.6 KiB      1", "small  i32[7]",
               "2 arrays, 390.7 KiB, in 1 files")
        expect("cat", tool("cat", third, "small"), 0, "i32[7]\n[     121509 -16")
        expect("cat of a value", tool("cat", third, "step"), 0, "3\n")
        expect("cat of nothing", tool("cat", third, "smal"), 2, "has no array smal; the nearest name there is small")
        expect("verify", tool("verify", folder), 0, f"{second}: whole, 390.7 KiB", f"{third}: whole")
        expect("diff of the same", tool("diff", third, third), 0, "the same: 2 arrays")
        expect("diff", tool("diff", second, third), 1, "large  differs  100000 of 100000 elements differ",
               "step   differs  2 and 3")
        exported = os.path.join(folder, "hf")
        expect("export", tool("export", third, exported, "--largest-file", "1000"), 0, "390.7 KiB, as Hugging Face")
        expect("what was exported", tool("diff", third, exported), 1, "step  only in the first  3")
        assert sorted(os.listdir(exported)) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                                "model.safetensors.index.json"]
        expect("export again", tool("export", third, exported), 2, "it exists already")
        expect("rm of what is none", tool("rm", exported), 2, "is not a checkpoint of Lockstep", "nothing was removed")

        part = os.path.join(second, "part-00000-of-00001.safetensors")
        with open(part, "r+b") as file:
            file.seek(200_000)
            byte = file.read(1)
            file.seek(200_000)
            file.write(bytes([byte[0] ^ 4]))
        expect("verify of damage", tool("verify", folder), 1, "of large does not match", f"{third}: whole")
        expect("cat of damage", tool("cat", second, "large"), 2, "is damaged")
        expect("cat beside damage", tool("cat", second, "small"), 0, "i32[7]")

        # A damaged step, or one that has lost a file, does not hide the others.
        shutil.copytree(third, os.path.join(folder, "step-00000004"))
        os.remove(os.path.join(folder, "step-00000004", "part-00000-of-00001.safetensors"))
        shutil.copytree(third, os.path.join(folder, "step-00000005"))
        expect("verify of a step without its part", tool("verify", folder), 1, "No such file", f"{third}: whole",
               "step-00000005: whole")
        open(os.path.join(folder, "step-00000004", "manifest.json"), "w").close()
        expect("ls beside damage", tool("ls", folder), 1, "   4                                damaged",
               "   5       2  390.7 KiB")
        expect("rm of a damaged one, and one that is none", tool("rm", os.path.join(folder, "step-00000004"), exported,
               os.path.join(folder, "step-00000005")), 2, "step-00000004\n", "step-00000005\n", "nothing was removed")
        assert not os.path.exists(os.path.join(folder, "step-00000004"))

        # A removal that was interrupted is ended; a link is removed, and its target stays.
        half = os.path.join(folder, "step-00000006")
        shutil.copytree(third, half)
        os.rename(os.path.join(half, "manifest.json"), os.path.join(half, "manifest.json.removed"))
        expect("ls of a half removed one", tool("ls", folder), 0, f"half removed: {half}")
        expect("rm of a half removed one", tool("rm", half), 0, f"removed {half}")
        assert not os.path.exists(half)
        os.symlink(third, half)
        expect("rm of a link", tool("rm", half), 0, f"removed {half}")
        assert not os.path.lexists(half) and len(os.listdir(third)) == 2
        shutil.copytree(third, half)
        expect("rm of the folder one is in", tool("rm", ".", cwd=half), 0, "removed .")
        assert not os.path.exists(half)

        attempt = os.path.join(folder, "step-00000009.tmp-job-1")
        os.mkdir(attempt)
        for name in ("part-00000-of-00002.safetensors", "notes"):
            open(os.path.join(attempt, name), "w").close()
        expect("ls of an attempt", tool("ls", folder), 0, f"not ended: {attempt}")
        expect("rm --attempts", tool("rm", "--attempts", folder), 0, f"removed {attempt}")
        assert os.listdir(attempt + ".ended") == ["notes"], "what no save wrote stays"
        expect("rm", tool("rm", second), 0, f"removed {second}")
        assert not os.path.exists(second) and os.path.exists(third)
        expect("a folder that is none", tool("ls", os.path.join(folder, "none")), 2, "No such file or directory")
    print("lockstep ckpt says what it should")


main()
