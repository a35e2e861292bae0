// SPDX-License-Identifier: Apache-2.0
// dovetail doctor: what this build and this machine can do, what is missing and how to get it.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "bench/cli/commands.hpp"
#include "bench/cli/libraries.hpp"
#include "bench/pipeline/backends.hpp"
#include "exec/run/run_request.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "planners/catalog/registry.hpp"

namespace dovetail::bench {
namespace {

constexpr auto doctor_examples = R"(Examples:
    dovetail doctor

The exit code is 0 even if something optional is missing. Memory is GiB.)";

void line(std::string_view what, std::string_view text) {
  show(fmt::format("  {:<14} {}\n", what, text));
}

void show_program() {
  const BuildInfo build = build_info();
  show(fmt::format("dovetail {}\n", build.version));
  line("revision", build.git_revision + (build.git_dirty ? ", changed since" : ""));
  line("compiler", fmt::format("{}, {}", build.compiler, build.build_type));
}

void show_libraries(std::string_view title, Presence presence) {
  show(fmt::format("\n{}\n", title));
  bool none = true;
  for (const Library& library : libraries()) {
    if (library.presence != presence) continue;
    none = false;
    line(library.name, fmt::format("{}  ({})", library.version, library.use));
  }
  if (none) show("  nothing\n");
}

// "host|cuda": the names of a table whose requests this build can serve.
template <class Table, class Value>
std::string built_names(const Table& table, Value exec::RunRequest::*member) {
  std::string names;
  for (const auto& [name, value] : table) {
    exec::RunRequest request;
    request.*member = value;
    if (is_built(request, exec::parts_of_this_build())) names += fmt::format("{}{}", names.empty() ? "" : "|", name);
  }
  return names;
}

void show_parts() {
  std::string planners;
  for (const std::string& name : planners::planner_names()) planners += (planners.empty() ? "" : ", ") + name;
  show("\nparts\n");
  for (const BackendEntry& entry : backends())
    line("backend", fmt::format("{}  ({}{}{})", entry.name, entry.description,
                                entry.make ? "" : "; not in this build: ", entry.make ? "" : entry.get_it));
  line("planners", planners);
  line("run", fmt::format("--device {} --transport {}", built_names(exec::run_device_names, &exec::RunRequest::device),
                          built_names(exec::run_transport_names, &exec::RunRequest::transport)));
}

int gpus() {
  std::error_code none;
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    ++count;
  return count;
}

void show_machine() {
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  show("\nthis machine\n");
  line("cores", fmt::format("{}", std::thread::hardware_concurrency()));
  line("memory", fmt::format("{:.1f} GiB", memory / (1024.0 * 1024 * 1024)));
  line("gpus", gpus() == 0 ? "none seen" : fmt::format("{} NVIDIA", gpus()));
}

// Loads every file of a kind and names those that fail.
template <class Load>
void show_files(std::string_view kind, const Load& load) {
  int loaded = 0;
  std::string failures;
  const auto names = known_names(std::string(kind));
  for (const std::string& name : names) {
    try {
      load(name);
      ++loaded;
    } catch (const InputError& error) {
      failures += fmt::format("\n    {}", error.what());
    }
  }
  line(kind, fmt::format("{} of {} loaded{}", loaded, names.size(), failures));
}

void show_data() {
  show("\ndata\n");
  try {
    line("folder", data_directory().lexically_normal().string());
  } catch (const InputError& error) {
    line("folder", error.what());
    return;
  }
  FilesRead files;
  show_files("clusters", [&](const std::string& name) {
    WorkloadDefaults defaults;
    load_cluster(name, defaults, files);
  });
  show_files("models", [&](const std::string& name) { load_model(name, files); });
  show_files("calibrations", [&](const std::string& name) { load_calibration(name, files); });
  show_files("systems", [&](const std::string& name) { load_system(name, files); });
}

Exit doctor() {
  show_program();
  show_libraries("built in", Presence::BuiltIn);
  show_libraries("missing", Presence::Missing);
  show_libraries("for later versions", Presence::Later);
  show_parts();
  show_machine();
  show_data();
  return Exit::Ok;
}

}  // namespace

Action declare_doctor(CLI::App& app) {
  app.footer(doctor_examples);
  return [](const std::vector<std::string>&) { return doctor(); };
}

}  // namespace dovetail::bench
