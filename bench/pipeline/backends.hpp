// SPDX-License-Identifier: Apache-2.0
// The one list of the backends that a schedule can be computed on. All that commands and tests decide by the kind of a
// backend stands in its entry.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/time/backend.hpp"

namespace dovetail::bench {

struct BackendEntry {
  std::string_view name, description;
  std::unique_ptr<Backend> (*make)(const std::string& platform);  // null: not in this build
  std::string_view get_it = {};                                   // then: how to
  ResultKind kind = ResultKind::Simulated;                        // of its times
  bool planners_model = false;  // planners search by this model, so that its times are what they expect
  // Computes messages on the links of a network, which a platform file may describe; of prices it takes latencies and
  // kernels alone.
  bool links_alone = false;
};
std::span<const BackendEntry> backends();

// Null: no backend has this name.
const BackendEntry* find_backend(std::string_view name);
bool is_built(std::string_view name);

// `platform`: a SimGrid platform file, for a backend of links alone. Throws InputError for an unknown name and for a
// platform that the backend does not take, DeviceError for a backend that this build lacks.
std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& platform = "");

// "analytic (no contention), simgrid (...)" for --help, and the names of those of links alone.
std::string describe_backends();
std::string backends_of_links();

}  // namespace dovetail::bench
