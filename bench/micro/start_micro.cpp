// SPDX-License-Identifier: Apache-2.0
// How long the program takes to start, and how long it would take if it loaded SimGrid each time.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>

#include "bench/pipeline/simgrid_module.hpp"

namespace {

// With an environment of its own, and standard output and errors thrown away.
void start(benchmark::State& state, std::string preload) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("dovetail").string();
  std::string option = "--version";
  char* arguments[] = {program.data(), option.data(), nullptr};
  char* environment[] = {preload.empty() ? nullptr : preload.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);  // O_WRONLY
  for (auto _ : state) {
    pid_t process = 0;
    int status = 1;
    if (posix_spawn(&process, program.c_str(), &quiet, nullptr, arguments, environment) != 0 ||
        waitpid(process, &status, 0) != process || status != 0) {
      state.SkipWithError("build the program first: cmake --build --preset release --target dovetail");
      break;
    }
  }
  posix_spawn_file_actions_destroy(&quiet);
}

void version(benchmark::State& state) {
  start(state, "");
}
BENCHMARK(version)->UseRealTime()->Unit(benchmark::kMillisecond);

void version_with_simgrid(benchmark::State& state) {
  start(state, "LD_PRELOAD=" + dovetail::bench::simgrid_module().string());
}
BENCHMARK(version_with_simgrid)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
