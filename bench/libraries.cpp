#include "bench/libraries.hpp"

#include <Eigen/src/Core/util/Macros.h>
#include <fmt/core.h>

#include <CLI/Version.hpp>
#include <nlohmann/detail/abi_macros.hpp>

#include "bench/dependencies.hpp"
#include "models/build_info.hpp"

namespace dovetail::bench {
namespace {

std::string dotted(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace

std::vector<Library> libraries() {
  return {
      {"eigen", true, dotted(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION), "host kernels"},
      {"openblas", DOVETAIL_HAS_OPENBLAS == 1, std::string(found::openblas), "faster host GEMMs"},
      {"simgrid", DOVETAIL_HAS_SIMGRID == 1, std::string(found::simgrid), "--backend simgrid"},
      {"nlohmann-json", true,
       dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH), "files"},
      {"cli11", true, CLI11_VERSION, "this command line"},
      {"fmt", true, dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "texts"},
      {"openssl", DOVETAIL_HAS_OPENSSL == 1, std::string(found::openssl), "fingerprints of input files in results"},
      {"nlopt", DOVETAIL_HAS_NLOPT == 1, std::string(found::nlopt), "reference planners"},
      {"mpi", DOVETAIL_HAS_MPI == 1, std::string(found::mpi), "run --transport mpi, of a later version"},
      {"cuda", DOVETAIL_HAS_CUDA == 1, std::string(found::cuda), "run --device cuda, of a later version"},
      {"nccl", DOVETAIL_HAS_NCCL == 1, std::string(found::nccl), "run --transport nccl, of a later version"},
  };
}

}  // namespace dovetail::bench
