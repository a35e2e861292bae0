// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/gpu_service.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/launch/executor_call.hpp"
#include "exec/launch/run_folder.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/write_file.hpp"
#include "models/base/names.hpp"
#include "models/files/load.hpp"

namespace dovetail::exec {
namespace {

namespace fs = std::filesystem;

// The executor may have another working directory.
std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).string();
}

}  // namespace

GpuService::GpuService(std::function<void()> poll) : poll_(std::move(poll)) {}

RunResult GpuService::run(const ScheduleFile& file, const RunOptions& options, bool nccl) {
  const RunFolder folder(fs::temp_directory_path());
  const std::string schedule = folder.file("schedule.json"), timeline = folder.file("timeline.json");
  write_file(schedule, to_json(file).dump());
  std::vector<std::string> arguments{schedule, "-o", timeline, "--device", "cuda"};
  if (nccl) arguments.insert(arguments.end(), {"--transport", "nccl"});
  if (options.emulate_links)
    arguments.insert(arguments.end(), {"--exchange-blocks", std::to_string(options.exchange_blocks)});
  add_run_options(arguments, options);
  execute(arguments, timeline);
  return result_of(timeline, file.priced);
}

Calibration GpuService::calibrate(GridName grid, const CalibrateOptions& options, const CalibrationFiles& with) {
  const RunFolder folder(fs::temp_directory_path());
  const std::string file = folder.file("calibration.json");
  std::vector<std::string> arguments{
      "--calibrate", "--device", "cuda", "-o", file, "--grid", std::string(name_in(gpu_grid_names, grid))};
  arguments.insert(arguments.end(), {"--limit", fmt::format("{}", options.measure.limit.value()), "--seed",
                                     std::to_string(options.measure.seed), "--where", options.where});
  if (!with.points.empty()) arguments.insert(arguments.end(), {"--points", absolute(with.points)});
  if (!with.baselines.empty()) arguments.insert(arguments.end(), {"--baselines", absolute(with.baselines)});
  execute(arguments, file);
  FilesRead files;
  return load_calibration(file, files);
}

void GpuService::execute(const std::vector<std::string>& arguments, const std::string& file) try {
  if (!socket_.open()) start();
  if (process_ != nullptr) process_->err.clear();
  if (!socket_.send(nlohmann::json(arguments).dump())) fail();
  const nlohmann::json outcome = nlohmann::json::parse(answer());
  // A run whose numerics differ has a result all the same.
  if (!fs::exists(file)) rethrow(outcome.at("error").get<std::string>(), outcome.at("code").get<int>());
} catch (const InputError&) {
  throw;  // the process is as good as before
} catch (...) {
  stop();
  throw;
}

std::string GpuService::answer() {
  constexpr int milliseconds = 20;
  while (socket_.open()) {
    if (const auto line = socket_.receive(milliseconds)) return *line;
    if (process_ != nullptr) process_->read(0);  // its words, which it would else wait to write
    if (poll_) poll_();
  }
  fail();
}

void GpuService::start() {
  if (const char* const path = std::getenv(server_variable); path != nullptr && *path != '\0') {
    socket_ = connect_to(path);
    if (!socket_.open()) throw DeviceError(fmt::format("{}={}", server_variable, path), "nobody listens there");
    return;
  }
  auto [ours, theirs] = connected_sockets();
  process_ =
      std::make_unique<ChildProcess>(std::vector<std::string>{executor_path(), "--device", "cuda", "--serve", "-"},
                                     std::vector<std::pair<std::string, std::string>>{}, theirs.fd());
  socket_ = std::move(ours);
}

// A process without a client ends by itself, whatever it does.
void GpuService::stop() {
  constexpr std::chrono::seconds patience{3};
  constexpr int milliseconds = 20;
  socket_ = {};
  if (process_ == nullptr) return;
  for (const auto end = std::chrono::steady_clock::now() + patience;
       process_->read(milliseconds) && std::chrono::steady_clock::now() < end;) {
  }
  process_.reset();
}

void GpuService::fail() {
  if (process_ == nullptr) throw DeviceError(server_variable, "the process there ended in the middle of a request");
  const int status = process_->status();
  while (process_->read(0)) {
  }
  if (const auto words = own_words(process_->err)) rethrow(*words, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
  throw DeviceError("dovetail-exec", WIFSIGNALED(status) ? fmt::format("ended by signal {} ({})", WTERMSIG(status),
                                                                       ::strsignal(WTERMSIG(status)))
                                                         : "ended without a result and without a word");
}

}  // namespace dovetail::exec
