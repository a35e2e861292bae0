// The one table of the backends that a schedule can be computed on.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/backend.hpp"

namespace dovetail::bench {

struct BackendEntry {
  std::string_view name, description;
  std::unique_ptr<Backend> (*make)();  // null: not in this build
  std::string_view get_it;             // then: how to
};
std::span<const BackendEntry> backends();

// Throws InputError for an unknown name, DeviceError for one that this build lacks.
std::unique_ptr<Backend> make_backend(const std::string& name);

// "analytic (no contention), simgrid (...)" for --help.
std::string describe_backends();

}  // namespace dovetail::bench
