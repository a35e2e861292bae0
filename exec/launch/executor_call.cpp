// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/executor_call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/read_schedule.hpp"
#include "models/price/transforms.hpp"

namespace dovetail::exec {

std::string executor_path() {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path path = fs::read_symlink("/proc/self/exe", unknown).parent_path() / "dovetail-exec";
  if (::access(path.c_str(), X_OK) != 0)
    throw DeviceError(path.string(), "missing; it is built and installed beside dovetail");
  return path.string();
}

void add_run_options(std::vector<std::string>& command, const RunOptions& options) {
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
  add({"--limit", fmt::format("{}", options.measure.limit.value()), "--seed", std::to_string(options.seed)});
  add({"--hold-compute", std::string(name_in(hold_compute_names, options.hold_compute))});
  if (options.emulate_links) add({"--emulate-links"});
  if (options.gemm_multiprocessors > 0) add({"--gemm-multiprocessors", std::to_string(options.gemm_multiprocessors)});
  if (options.train > 0) add({"--train", std::to_string(options.train)});
  if (!options.check_numerics) add({"--no-check"});
}

std::optional<std::string> own_words(const std::string& errors) {
  constexpr std::string_view prefix = "dovetail-exec: ";
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  return {};
}

void rethrow(const std::string& words, int code) {
  constexpr int bad_input = 2;
  if (code == bad_input) throw InputError(words);
  throw DeviceError("dovetail-exec", words);
}

RunResult result_of(const std::string& timeline_file, const PricedSchedule& priced) {
  TimelineFile file = read_timeline(JsonFile::read(timeline_file));
  RunResult result;
  const std::size_t ops = priced.duration.size();
  if (!file.run || file.timeline.ops.size() != ops || file.predicted.size() != ops || file.work.size() != ops)
    throw DeviceError("dovetail-exec", "wrote another timeline than was asked for: is it of the same version?");
  result.timeline = std::move(file.timeline);
  result.predicted = std::make_shared<const PricedSchedule>(with_durations(priced, std::move(file.predicted)));
  result.work = std::move(file.work);
  result.report = std::move(*file.run);
  result.notes = std::move(file.notes);
  return result;
}

}  // namespace dovetail::exec
