// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/libraries.hpp"

#include <Eigen/src/Core/util/Macros.h>
#include <fmt/core.h>

#include <CLI/Version.hpp>
#include <nlohmann/detail/abi_macros.hpp>

#include "bench/dependencies.hpp"
#include "models/base/build_info.hpp"

namespace dovetail::bench {
namespace {

std::string dotted(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

Presence present(int has) {
  return has != 0 ? Presence::BuiltIn : Presence::Missing;
}

}  // namespace

std::vector<Library> libraries() {
  return {
      {"eigen", Presence::BuiltIn, dotted(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION),
       "host kernels"},
      {"openblas", present(DOVETAIL_HAS_OPENBLAS), std::string(found::openblas), "faster host GEMMs"},
      {"simgrid", present(DOVETAIL_HAS_SIMGRID), std::string(found::simgrid), "--backend simgrid"},
      {"expat", present(DOVETAIL_HAS_SIMGRID), std::string(found::expat), "--platform"},
      {"nlohmann-json", Presence::BuiltIn,
       dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH), "files"},
      {"cli11", Presence::BuiltIn, CLI11_VERSION, "this command line"},
      {"fmt", Presence::BuiltIn, dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "texts"},
      {"openssl", present(DOVETAIL_HAS_OPENSSL), std::string(found::openssl), "fingerprints of input files in results"},
      {"jemalloc", present(found::has_jemalloc), std::string(found::jemalloc), "faster searches"},
      {"yaml-cpp", present(found::has_yaml_cpp), std::string(found::yaml_cpp), "import of YAML"},
      {"nlopt", present(DOVETAIL_HAS_NLOPT), std::string(found::nlopt), "reference planners"},
      {"mpi", present(DOVETAIL_HAS_MPI), std::string(found::mpi), "run --transport mpi"},
      {"cuda", present(DOVETAIL_HAS_CUDA), std::string(found::cuda), "run --device cuda"},
      {"nccl", present(DOVETAIL_HAS_NCCL), std::string(found::nccl), "run --transport nccl"},
  };
}

}  // namespace dovetail::bench
