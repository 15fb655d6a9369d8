# SPDX-License-Identifier: Apache-2.0
"""Where the virtual environment is a link, what it leads to is another's."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

import jax_python

REAL_RUN = subprocess.run


def run_without_the_index(command, **options):
    """The environment is made as it is, and nothing is installed."""
    if "pip" in command:
        return None
    return REAL_RUN([*command[:4], "--without-pip", *command[4:]], **options)


class JaxPythonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.own = self.root / "build" / "jax" / "venv"
        self.own.parent.mkdir(parents=True)
        for patched in (mock.patch.object(jax_python, "ROOT", self.root),
                        mock.patch.object(jax_python.subprocess, "run", side_effect=run_without_the_index)):
            patched.start()
            self.addCleanup(patched.stop)

    def of_another(self, pinned):
        """A virtual environment of somebody else's, to which this repository's is a link."""
        another = self.root / "another"
        another.mkdir()
        (another / "precious").write_text("work of a week")
        if pinned:
            (another / "pinned").write_text("\n".join(jax_python.PINNED))
        self.own.symlink_to(another)
        return another

    def test_a_link_is_replaced_and_its_target_spared(self):
        for pinned in (False, True):
            with self.subTest(pinned=pinned):
                another = self.of_another(pinned)
                self.assertFalse(jax_python.is_made(self.own))
                python = jax_python.jax_python()
                self.assertEqual(python, str(self.own / "bin" / "python"))
                self.assertFalse(self.own.is_symlink())
                self.assertTrue(jax_python.is_made(self.own))
                self.assertEqual((another / "precious").read_text(), "work of a week")
                self.assertFalse((another / "bin").exists())
                for left in (another / "pinned", another / "precious"):
                    left.unlink(missing_ok=True)
                another.rmdir()
                shutil.rmtree(self.own)

    def test_a_link_that_leads_nowhere_is_replaced(self):
        self.own.symlink_to(self.root / "nowhere")
        jax_python.jax_python()
        self.assertFalse(self.own.is_symlink())
        self.assertFalse((self.root / "nowhere").exists())

    def test_what_is_made_is_not_made_again(self):
        jax_python.jax_python()
        kept = self.own / "kept"
        kept.write_text("here")
        jax_python.jax_python()
        self.assertTrue(kept.exists())


if __name__ == "__main__":
    unittest.main()
