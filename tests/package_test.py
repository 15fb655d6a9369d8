#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that cpack makes hold what they should, and depend on what they need.

    tests/package_test.py SOURCE BUILD      exits with 77 where dpkg-deb is missing

With LOCKSTEP_TEST_CHROOT=1 they are also installed into a root folder of this Debian release with nothing else, where
README.md's program is built by pkg-config and by CMake, and runs. With LOCKSTEP_TEST_CHROOT=trixie, the name of another
release, packages are first made there, in another such folder. That needs debootstrap, root, and Debian's packages.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SKIPPED = 77
SOURCE, BUILD = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
CHROOT = os.environ.get("LOCKSTEP_TEST_CHROOT")
# Within a mount namespace: the root folder, with what the kernel offers.
MAKE = """scripts/setup && cmake --preset release -D LOCKSTEP_BUILD_EXAMPLES=OFF -D LOCKSTEP_BUILD_TESTS=OFF \\
    -D LOCKSTEP_BUILD_BENCHMARKS=OFF && cmake --build --preset release && cd build/release && cpack"""
ENTER = """set -e
root=$1; shift
mount --bind "$root" "$root"
for each in proc dev sys; do mount --rbind "/$each" "$root/$each"; done
exec chroot "$root" "$@"
"""
INSTALL = "apt-get install -y ./lockstep_*.deb ./liblockstep-dev_*.deb"
COMPILE = "g++ -std=c++20 -O2 linear_regression.cc -o linear_regression $(pkg-config --cflags --libs lockstep)"
RUN = "lockstep run -n 4 -- ./linear_regression"
OUTPUT = "[0] y = 3.000 x + 2.000\n"


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with status {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def names_of(dependencies):
    """The first name of each: "a (>= 1), b | c" has a and b."""
    return [part.split("|")[0].split("(")[0].split(":")[0].strip() for part in dependencies.split(",") if part.strip()]


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(dir=BUILD, prefix="packages-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        output("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder, cwd=BUILD)
        cls.fields, cls.files = {}, {}
        for path in cls.folder.glob("*.deb"):
            fields = dict(line.split(": ", 1) for line in output("dpkg-deb", "--field", path).splitlines() if ": " in line)
            cls.fields[fields["Package"]] = fields
            lines = [line.split(maxsplit=5) for line in output("dpkg-deb", "--contents", path).splitlines()]
            cls.files[fields["Package"]] = {line[5].split(" -> ")[0][1:]: line for line in lines
                                                if not line[5].endswith("/")}
        output("dpkg-deb", "--extract", next(cls.folder.glob("liblockstep-dev_*.deb")), cls.folder / "extracted")
        cls.pkg_config = (cls.folder / "extracted" / "usr" / "lib" / "pkgconfig" / "lockstep.pc").read_text()

    def test_fields(self):
        self.assertEqual(set(self.fields), {"lockstep", "liblockstep-dev", "lockstep-onednn"})
        version = re.search(r"project\(lockstep VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        for fields in self.fields.values():
            self.assertEqual(fields["Version"], version)
            self.assertEqual(fields["Architecture"], output("dpkg", "--print-architecture").strip())
        self.assertIn(f"lockstep (= {version})", self.fields["liblockstep-dev"]["Depends"])

    def test_files(self):
        tool, development = self.files["lockstep"], self.files["liblockstep-dev"]
        wanted = {"/usr/bin/lockstep", "/usr/share/doc/lockstep/copyright", "/usr/share/doc/lockstep/NOTICE",
                  f"/usr/lib/liblockstep.so.{self.fields['lockstep']['Version']}"}
        if (SOURCE / "third_party" / "pjrt" / "pjrt_c_api_cpu_plugin.so").exists():
            wanted.add("/usr/lib/lockstep/pjrt_c_api_cpu_plugin.so")
        self.assertEqual(wanted - set(tool), set())
        self.assertEqual([path for path in tool if path.endswith((".h", ".a", ".cmake", ".pc"))], [])
        wanted = {"/usr/include/lockstep/lockstep.h", "/usr/include/xla/ffi/api/ffi.h", "/usr/lib/liblockstep_jit.a",
                  "/usr/lib/liblockstep.so", "/usr/lib/pkgconfig/lockstep.pc", "/usr/lib/pkgconfig/lockstep-shared.pc",
                  "/usr/lib/cmake/Lockstep/LockstepConfig.cmake",
                  "/usr/share/doc/liblockstep-dev/copyright"}
        self.assertEqual(wanted - set(development), set())
        self.assertEqual(set(tool) & set(development), set())
        onednn = self.files["lockstep-onednn"]
        self.assertEqual({path for path in onednn if ".so" in path}, {"/usr/lib/lockstep/libdnnl.so.3"})
        # Nobody but root may write to what programs execute.
        for path, (mode, owner, *_) in {**tool, **development, **onednn}.items():
            self.assertEqual(owner, "root/root", path)
            if mode[0] != "l":
                self.assertEqual((mode[5], mode[8]), ("-", "-"), path)

    def test_pkg_config_names_the_folders_of_the_packages(self):
        self.assertIn("\nprefix=/usr\n", self.pkg_config)

    def test_the_page_has_the_commands_that_are_tested(self):
        lines = (SOURCE / "docs" / "install.md").read_text().splitlines()
        for command in (INSTALL, COMPILE, RUN):
            self.assertIn(f"    {command}", lines)

    def test_a_program_needs_no_library_that_the_tools_package_does_not_bring(self):
        def needed(program):
            return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", program)))
        self.assertEqual(needed(BUILD / "examples" / "psum") - needed(BUILD / "lockstep"), set())

    def test_what_programs_are_linked_with_is_of_packages_that_are_depended_on(self):
        direct = set(names_of(self.fields["liblockstep-dev"]["Depends"])) - {"lockstep"}
        listed = {line.split()[0] for line in (SOURCE / "scripts" / "packages.txt").read_text().splitlines()
                  if line and line[0] != "#"}
        self.assertEqual(direct - listed, set())
        depends = {}
        for line in output("dpkg-query", "--show", "--showformat", "${Package}\t${Depends}\n").splitlines():
            package, _, rest = line.partition("\t")
            depends[package] = names_of(rest)
        brought, waiting = set(), [*direct, "g++"]
        while waiting:
            package = waiting.pop()
            if package not in brought:
                brought.add(package)
                waiting += depends.get(package, [])
        # One question for all files; Debian knows some of /usr/lib as files of /lib.
        folders = re.search(r"^libraries: =(.*)$", output("g++", "-print-search-dirs"), re.MULTILINE)[1].split(":")
        owners = {}
        for line in output("dpkg-query", "--search", "*/lib*.so", "*/lib*.a").splitlines():
            package, _, path = line.rpartition(": ")
            owners[os.path.realpath(path)] = owners[path] = package.split(":")[0]
        for name in re.findall(r" -l(\S+)", self.pkg_config):
            if name.startswith("lockstep_"):
                self.assertIn(f"/usr/lib/lib{name}.a", self.files["liblockstep-dev"])
                continue
            found = [path for folder in folders for kind in ("so", "a")
                     if os.path.exists(path := os.path.normpath(f"{folder}/lib{name}.{kind}"))]
            self.assertTrue(found, f"there is no library {name}")
            of = {owners.get(path) for path in [*found, *map(os.path.realpath, found)]}
            self.assertTrue(of & brought, f"lib{name} is of {of}, which liblockstep-dev does not bring")

    @unittest.skipUnless(CHROOT, "LOCKSTEP_TEST_CHROOT is not set")
    def test_in_a_root_folder_with_nothing_else_the_program_is_built_and_runs(self):
        this = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)[1]
        release = this if CHROOT in ("1", this) else CHROOT
        packages = self.folder if release == this else self.packages_of(release, this)
        root = self.root_folder(release, this)
        work = root / "opt" / "work"
        for path in [*packages.glob("*.deb"), SOURCE / "examples" / "linear_regression.cc"]:
            shutil.copy(path, work)
        shutil.copytree(SOURCE / "tests" / "consumer", work / "consumer")
        for command in (INSTALL, COMPILE):
            self.timed(command, *self.within(root, command))
        self.assertEqual(self.timed(RUN, *self.within(root, RUN)), OUTPUT)
        self.within_cmake(root)

    def root_folder(self, release, this, name="root"):
        root = self.folder / name
        sites = output("apt-get", "indextargets", "--format", "$(SITE)", f"Codename: {this}").splitlines()
        self.timed(f"debootstrap {release}", "debootstrap", "--variant=minbase", release, root, sites[0])
        (root / "opt" / "work").mkdir()
        self.timed("apt-get update", *self.within(root, "apt-get update"))
        return root

    def packages_of(self, release, this):
        """The folder of the packages that are made on another release, with the parts that are fetched here."""
        root = self.root_folder(release, this, "builder")
        work = root / "opt" / "work"
        shutil.copytree(SOURCE, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", ".git", "venv"))
        self.timed(f"the packages for {release}", *self.within(root, MAKE))
        return work / "build" / "release"

    def within_cmake(self, root):
        command = "apt-get install -y --no-install-recommends cmake make"
        self.timed(command, *self.within(root, command))
        command = "cmake -S consumer -B build && cmake --build build"
        self.timed(command, *self.within(root, command))
        self.assertIn("sum 2", self.timed("the project", *self.within(root, "lockstep run -n 2 -- build/consumer")))

    @staticmethod
    def within(root, command):
        return ("unshare", "--mount", "sh", "-c", ENTER, "sh", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "bash", "-c", f"cd /opt/work && {command}")

    @staticmethod
    def timed(what, *command):
        start = time.monotonic()
        text = output(*command)
        print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)
        return text


if __name__ == "__main__":
    if shutil.which("dpkg-deb") is None:
        print("there is no dpkg-deb")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
