# SPDX-License-Identifier: Apache-2.0
"""The source checks must fail on what they are there to find."""
import pathlib
import tempfile
import unittest

from check_comments import openings, violations as comment_violations
from check_layers import violations
from check_lengths import LIMIT, too_long
from check_listed import unlisted
from check_names import clashes
from check_spdx import LINE, add, unnamed


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def layers(self, path, text):
        self.plant(path, text)
        return list(violations(self.root))

    def test_an_include_against_the_arrow_is_named_by_file_and_line(self):
        found = self.layers("models/a.cpp", '#include <vector>\n#include "sim/engine.hpp"\n')
        self.assertEqual(found, ["models/a.cpp:2: models/ may not include sim/ (sim/engine.hpp)"])

    def test_sideways_includes_are_found_in_subfolders_too(self):
        self.assertEqual(len(self.layers("planners/deep/a.hpp", '#  include "exec/host.hpp"\n')), 1)

    def test_angle_brackets_do_not_hide_an_include(self):
        self.assertEqual(len(self.layers("sim/a.cpp", "#include <planners/a.hpp>\n")), 1)
        self.assertEqual(len(self.layers("sim/a.cpp", "#include <models/a.hpp>\n")), 1)

    def test_examples_alone_include_their_own_files_as_they_lie(self):
        self.assertEqual(self.layers("bench/examples/a/a.cpp", '#include "b.hpp"\n'), [])
        self.assertEqual(len(self.layers("bench/sweep/a.cpp", '#include "b.hpp"\n')), 1)

    def test_reports_compute_nothing(self):
        self.assertEqual(len(self.layers("reports/text/a.cpp", '#include "models/price/price.hpp"\n')), 1)
        self.assertEqual(len(self.layers("reports/text/a.cpp", '#include "models/network/fold.hpp"\n')), 1)
        self.assertEqual(self.layers("reports/text/a.cpp", '#include "models/results/figures.hpp"\n'), [])

    def test_relative_includes_are_refused(self):
        self.assertEqual(len(self.layers("exec/a.cpp", '#include "../sim/a.hpp"\n')), 1)
        self.assertEqual(len(self.layers("exec/a.cpp", '#include "a.hpp"\n')), 1)

    def test_a_library_outside_its_folder_is_found(self):
        self.assertEqual(self.layers("models/a.cpp", "#include <mpi.h>\n"), ["models/a.cpp:1: models/ may not use <mpi.h>"])
        self.assertEqual(len(self.layers("models/a.cpp", "#include <simgrid/s4u.hpp>\n")), 1)

    def test_a_layer_of_models_may_not_include_one_that_builds_on_it(self):
        found = self.layers("models/schedule/a.cpp", '#include "models/base/a.hpp"\n#include "models/price/price.hpp"\n')
        self.assertEqual(found, ["models/schedule/a.cpp:2: models/schedule/ may not include models/price/, which builds on it "
                                 "(models/price/price.hpp)"])

    def test_a_file_of_models_in_no_layer_is_found(self):
        found = self.layers("models/stray.cpp", '#include "models/base/a.hpp"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("models/stray.cpp is in no layer of models/", found[0])

    def test_includes_that_form_a_circle_are_found(self):
        self.plant("sim/a.hpp", '#include "sim/b.hpp"\n')
        self.plant("sim/b.cpp", '#include "sim/b.hpp"\n#include "sim/c.hpp"\n')
        self.assertEqual(self.layers("sim/c.cpp", '#include "sim/c.hpp"\n'), [])
        self.assertEqual(self.layers("sim/c.cpp", '#include "sim/c.hpp"\n#include "sim/a.hpp"\n'),
                         ["sim/a.hpp:1: includes form a circle: sim/a -> sim/b -> sim/c -> sim/a"])

    def test_few_headers_pass_calibrations_on(self):
        text = '#include "models/price/calibration.hpp"\n'
        self.assertEqual(self.layers("planners/a.cpp", text) + self.layers("models/price/a.hpp", text), [])
        self.assertEqual(len(self.layers("planners/a.hpp", text)), 1)

    def test_what_is_allowed_passes(self):
        self.plant("sim/a.cpp", '#include <simgrid/s4u.hpp>\n#include "models/schedule/op.hpp"\n#include "sim/a.hpp"\n')
        self.plant("models/price/a.cpp", '#include "models/base/a.hpp"\n#include "models/price/b.hpp"\n')
        self.plant("bench/main.cpp", '#include <CLI/CLI.hpp>\n#include "planners/a.hpp"\n')
        self.plant("tests/exec/a.cpp", '#include <mpi.h>\n#include "bench/a.hpp"\n')
        self.assertEqual(list(violations(self.root)), [])

    def test_a_long_file_is_found_and_a_table_is_not(self):
        self.plant("models/a.cpp", "\n" * LIMIT)
        self.plant("models/b.cpp", "\n" * (LIMIT + 1))
        self.plant("models/tariff_table.cpp", "\n" * (LIMIT + 1))
        self.assertEqual(list(too_long(self.root)), ["models/b.cpp:501: 501 lines, 500 are allowed"])

    def test_one_name_for_two_things_in_a_folder_is_found(self):
        def unnamed(*lines):
            return "\n".join(["namespace {", *lines, "}  // namespace", ""])
        self.plant("sim/a.cpp", unnamed("struct Kind {", "};", "constexpr int most = 3;", "int f(int a) {", "}",
                                        "using Json = nlohmann::json;"))
        self.plant("exec/b.cpp", unnamed("struct Kind {", "};"))
        self.plant("sim/b.cpp", unnamed("int f(double a) {", "}", "using Json = nlohmann::json;"))
        self.assertEqual(list(clashes(self.root)), [])
        self.plant("sim/c.cpp", unnamed("using Kind = int;", "const int most = 4;", "int f(int a) {", "}"))
        self.assertEqual([line.split(" is ")[0] for line in clashes(self.root)],
                         ["sim/c.cpp:2: Kind", "sim/c.cpp:3: most", "sim/c.cpp:4: f"])

    def test_a_comment_without_its_subject_is_found(self):
        text = "\n".join(["// Of a rank.", "int a;  // Rows. What it holds", '// A row, where "x. Of y" is text.',
                          'const char* s = "Rows. Those of x";', "// It is so. Where it is not, nothing."])
        self.assertEqual(list(openings(text)), [(1, "Of"), (2, "What"), (5, "Where")])
        self.plant("sim/a.cpp", "// A good sentence.\n// Which is not.\n")
        self.plant("exec/device/a.cpp", "// Of a device.\n")
        self.assertEqual(list(comment_violations(self.root)),
                         ['exec/device/a.cpp:1: a sentence opens with "Of"; begin with its subject',
                          'sim/a.cpp:2: a sentence opens with "Which"; begin with its subject'])

    def test_a_source_that_no_list_names_is_found(self):
        self.plant("models/CMakeLists.txt", "file(GLOB ways ways/*.cpp)\nadd_library(models a.cpp\n  deep/b.cpp)\n")
        for name in ["models/a.cpp", "models/deep/b.cpp", "models/deep/a.cpp", "models/ways/a.cpp"]:
            self.plant(name, "")
        self.assertEqual(list(unlisted(self.root)), ["models/deep/a.cpp:1: in no CMakeLists.txt"])

    def test_a_source_without_its_licence_is_found_and_mended(self):
        self.plant("models/a.cpp", "int a;\n")
        self.plant("bench/b.py", "#!/usr/bin/env python3\nb = 1\n")
        self.plant("models/CMakeLists.txt", "add_library(a)\n")
        self.plant("models/c.hpp.in", f"// {LINE}\n")
        self.plant("models/README.md", "no source\n")
        self.assertEqual([path.name for path in unnamed(self.root)], ["CMakeLists.txt", "a.cpp", "b.py"])
        add(self.root)
        self.assertEqual(list(unnamed(self.root)), [])
        self.assertEqual((self.root / "models/a.cpp").read_text(), f"// {LINE}\nint a;\n")
        self.assertEqual((self.root / "bench/b.py").read_text(), f"#!/usr/bin/env python3\n# {LINE}\nb = 1\n")


if __name__ == "__main__":
    unittest.main(argv=["checks_test"])
