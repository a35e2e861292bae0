// The one table of the backends that a schedule can be computed on.
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
  std::string_view get_it;                                        // then: how to
};
std::span<const BackendEntry> backends();

// `platform`: a SimGrid platform file, for the backend that takes one. Throws InputError for an unknown name and for a
// platform that the backend does not take, DeviceError for a backend that this build lacks.
std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& platform = "");

// "analytic (no contention), simgrid (...)" for --help.
std::string describe_backends();

}  // namespace dovetail::bench
