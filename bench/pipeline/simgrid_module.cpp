// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/simgrid_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "models/base/errors.hpp"
#include "sim/module.hpp"

namespace dovetail::bench {
namespace {

sim::MakeBackend open_module(const std::string& name) {
  void* const module = ::dlopen(simgrid_module().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = module == nullptr ? nullptr : ::dlsym(module, sim::make_backend_symbol);
  if (symbol == nullptr) throw DeviceError("--backend " + name, fmt::format("cannot be loaded: {}", ::dlerror()));
  return reinterpret_cast<sim::MakeBackend>(symbol);
}

}  // namespace

// As in the build tree, so where it is installed: bin/dovetail and lib/dovetail/simgrid.so.
std::filesystem::path simgrid_module() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / DOVETAIL_MODULES /
         sim::module_file;
}

std::unique_ptr<Backend> make_simgrid_backend(const std::string& name, const std::string& platform) {
  static const sim::MakeBackend make = open_module(name);
  return std::unique_ptr<Backend>(make(name.c_str(), platform.c_str()));
}

}  // namespace dovetail::bench
