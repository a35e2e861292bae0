// SPDX-License-Identifier: Apache-2.0
// Questions that are simulated, and that no executor runs as something else.
#include <catch2/catch.hpp>

#include "exec/step/layer_shape.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("Layers that mix tokens as no executor does are refused, not run as attention") {
  const Experiment e = small_experiment(SmallExperiment{});
  const auto refused = [&](const char* pointer, auto set) {
    Experiment other = e;
    set(other.model);
    CHECK_THROWS_WITH(layer_shape(other), Catch::Contains(pointer) && Catch::Contains("simulated, not executed yet"));
  };
  refused("/model/recurrence", [](Model& m) { m.recurrence = {RecurrenceKind::GatedDelta, 1, 2, 4, 2, 4, 4}; });
  refused("/model/attention/gate", [](Model& m) { m.attention.gate = OutputGate::Head; });
  refused("/model/attention/value_size", [](Model& m) { m.attention.value_size = 2; });
  refused("/model/attention/windowed", [](Model& m) { m.attention.windowed = {2, 1, 4}; });
  refused("/model/attention/windows", [](Model& m) { m.attention.windows = Windows::Chosen; });
  refused("/model/attention/shared_values", [](Model& m) { m.attention.shared_values = true; });
  refused("/model/expert_input", [](Model& m) { m.expert_input = 2; });
}
