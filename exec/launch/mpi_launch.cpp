// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/mpi_launch.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <utility>

#include "exec/launch/child_process.hpp"
#include "exec/launch/executor_call.hpp"
#include "exec/launch/run_folder.hpp"
#include "exec/launch/watch.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/write_file.hpp"
#include "models/base/names.hpp"
#include "models/files/load.hpp"
#include "models/files/read_schedule.hpp"
#include "models/price/transforms.hpp"

namespace dovetail::exec {
namespace {

namespace fs = std::filesystem;

int ranks_of(const Schedule& s) {
  int ranks = 0;
  for (const RankClass& c : s.classes) ranks += c.ranks;
  return ranks;
}

std::vector<std::string> command_of(int ranks, const std::string& schedule, const std::string& timeline,
                                    const RunOptions& options, const MpiLaunch& launch) {
  // A rank has several threads: they may use all cores. More ranks than cores is what small machines are for.
  std::vector<std::string> command{launch.mpirun, "-n", std::to_string(ranks), "--bind-to", "none", "--oversubscribe"};
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
  if (!launch.hostfile.empty()) add({"--hostfile", launch.hostfile});
  add({executor_path(), schedule, "-o", timeline, "--transport", launch.gpus ? "nccl-mpi" : "mpi", "--pulse"});
  if (launch.gpus) add({"--device", "cuda"});
  add_run_options(command, options);
  return command;
}

constexpr const char* shared_memory = "/dev/shm";

// In a run on this machine alone all files of Open MPI go into folders of the run, so that each file has a name that
// says whose it was. Other machines have no such folders.
bool on_this_machine_alone(const MpiLaunch& launch) {
  return launch.hostfile.empty() && std::getenv("SLURM_JOB_ID") == nullptr && fs::is_directory(shared_memory);
}

std::vector<std::pair<std::string, std::string>> environment(const RunFolder& files,
                                                             const std::optional<RunFolder>& memory) {
  std::vector<std::pair<std::string, std::string>> variables{{"OMPI_MCA_mpi_yield_when_idle", "1"}};
  if (memory) {
    variables.emplace_back("OMPI_MCA_orte_tmpdir_base", files.path());
    variables.emplace_back("OMPI_MCA_btl_vader_backing_directory", memory->path());
  }
  if (::geteuid() == 0)  // Open MPI refuses root unless told twice
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      variables.emplace_back(name, "1");
  return variables;
}

// Takes the complete lines out of `output`.
void hear(std::string& output, Watch& watch, double now) {
  std::size_t begin = 0;
  for (std::size_t end = output.find('\n'); end != std::string::npos; begin = end + 1, end = output.find('\n', begin))
    if (const auto beat = parse_beat(std::string_view(output).substr(begin, end - begin))) watch.heard(*beat, now);
  output.erase(0, begin);
}

// The words of mpirun on one line, without its frames.
std::string words_of_mpirun(const std::string& errors) {
  constexpr std::size_t most = 400;
  std::string text;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line.starts_with("-----")) continue;
    text += (text.empty() ? "" : " ") + line.substr(first);
  }
  return text.size() > most ? text.substr(0, most) + " ..." : text;
}

[[noreturn]] void fail(const std::string& errors, int status, const Watch& watch, const std::string& mpirun) {
  // First, since those that lost it may complain too. SIGTERM is how mpirun ends the others.
  static const std::regex killed(R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  if (std::smatch match; std::regex_search(errors, match, killed) && match[3] != std::to_string(SIGTERM)) {
    const int rank = std::stoi(match[1]), signal = std::stoi(match[3]);
    throw DeviceError(fmt::format("rank {} on {}", rank, match[2].str()),
                      fmt::format("ended by signal {} ({}), {}", signal, ::strsignal(signal), watch.place_of(rank)));
  }
  if (const auto said = own_words(errors)) rethrow(*said, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
  const std::string words = words_of_mpirun(errors);
  throw DeviceError(mpirun, words.empty() ? "ended without a result and without a word" : words,
                    WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

}  // namespace

RunResult run_over_mpi(const ScheduleFile& file, const RunOptions& options, const MpiLaunch& launch) {
  const RunFolder folder(fs::temp_directory_path());
  std::optional<RunFolder> memory;
  if (on_this_machine_alone(launch)) memory.emplace(shared_memory);
  const std::string schedule = folder.file("schedule.json"), timeline = folder.file("timeline.json");
  write_file(schedule, to_json(file).dump());
  const int ranks = ranks_of(*file.priced.schedule);
  ChildProcess mpirun(command_of(ranks, schedule, timeline, options, launch), environment(folder, memory));
  Watch watch(*file.priced.schedule, ranks, launch.patience.value(), steady_time().value());
  for (bool running = true; running;) {
    running = mpirun.read(20);
    if (launch.poll) launch.poll();
    const double now = steady_time().value();
    hear(mpirun.out, watch, now);
    if (const auto complaint = watch.complaint(now)) throw DeviceError("run over MPI", *complaint);
  }
  if (!fs::exists(timeline)) fail(mpirun.err, mpirun.status(), watch, launch.mpirun);
  return result_of(timeline, file.priced);
}

}  // namespace dovetail::exec
