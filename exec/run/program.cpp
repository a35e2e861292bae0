// SPDX-License-Identifier: Apache-2.0
#include "exec/run/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "exec/host/host_run.hpp"
#include "exec/launch/pulse.hpp"
#include "exec/launch/serve.hpp"
#include "exec/run/probe.hpp"
#include "exec/run/program_options.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/write_file.hpp"
#include "models/base/streams.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/device_points.hpp"
#include "models/files/peer_times.hpp"
#include "models/files/read_schedule.hpp"

namespace dovetail::exec {
namespace {

// For tests: DOVETAIL_TEST_FAULT is fail:RANK, hang:RANK (it never goes on) or slow:0 (all ranks, after some steps).
void add_fault(Hooks& hooks) {
  const char* const value = std::getenv("DOVETAIL_TEST_FAULT");
  if (value == nullptr) return;
  const std::string fault = value;
  const std::string kind = fault.substr(0, 4);
  hooks.at(HookPoint::AfterDispatch) = [kind, rank = std::stoi(fault.substr(5)),
                                        calls = 0](const HookCall& call) mutable {
    constexpr int fast_calls = 50;  // more than a step has, times the steps that measure what ops really take
    if (kind == "slow" && ++calls > fast_calls) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (call.rank != rank) return;
    if (kind == "fail") throw std::runtime_error("told to fail");
    while (kind == "hang") ::pause();
  };
}

// Process 0 reads the file, so that it need not be on every machine.
ScheduleFile read(const ProgramOptions& options, World* world) {
  std::string text;
  if (world == nullptr || world->rank() == 0) text = JsonFile::read_text(options.schedule);
  if (world != nullptr) world->broadcast(text);
  return read_schedule(JsonFile::parse(std::move(text), options.schedule));
}

// A process says that it lives from before it meets the others, since one that stops there keeps all waiting.
class SignsOfLife {
 public:
  // Signs are given from here on by a process that mpirun started, since its number is known; others give none yet.
  void begin() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
      if (const char* const rank = std::getenv(name); rank != nullptr) return of(std::atoi(rank), 0);
  }
  void of(int rank, std::size_t streams) {
    pulse_.reset();
    progress_ = std::make_unique<Progress>(streams);
    pulse_.emplace(rank, *progress_);
  }
  Progress* progress() { return progress_.get(); }

 private:
  std::unique_ptr<Progress> progress_;
  std::optional<Pulse> pulse_;  // last: reads it
};

// A thread that does not look up would keep this program waiting.
void end_stuck(const std::string& why) {
  say(fmt::format("dovetail-exec: run: {}\n", why));
  std::_Exit(4);
}

// The same seed also draws the interval of the samples.
RunOptions options_of(const RunRequest& request) {
  RunOptions how = run_options(request);
  how.measure.seed = request.seed;
  return how;
}

RunResult run_here(const ProgramOptions& options, const Cuda& cuda, const Experiment& experiment,
                   std::shared_ptr<const PricedSchedule> priced) {
  RunOptions how = options_of(options.run);
  if (options.run.nccl()) return cuda.run_over_nccl(experiment, std::move(priced), how, nullptr);
  if (options.run.cuda()) return cuda.run(experiment, std::move(priced), how);
  how.stuck = end_stuck;
  add_fault(how.hooks);
  return run_on_host(experiment, std::move(priced), how);
}

RunResult run(const ProgramOptions& options, const Cuda& cuda, World* world, SignsOfLife* signs) {
  ScheduleFile file = read(options, world);
  const Experiment& experiment = file.experiment;
  const auto priced = std::make_shared<const PricedSchedule>(std::move(file.priced));
  if (world == nullptr) return run_here(options, cuda, experiment, priced);
  if (world->size() != experiment.cluster.gpus())
    throw InputError(fmt::format("{} processes, but the schedule has {} ranks: mpirun -n {}", world->size(),
                                 experiment.cluster.gpus(), experiment.cluster.gpus()));
  const int streams = static_cast<int>(priced->schedule->streams.size());
  RunOptions how = options_of(options.run);
  if (options.pulse) signs->of(world->rank(), priced->schedule->streams.size());
  how.progress = signs->progress();
  if (options.run.nccl()) return cuda.run_over_nccl(experiment, priced, how, world);
  add_fault(how.hooks);
  const auto transport = world->transport(priced->schedule->groups, streams);
  return run_on_host(experiment, priced, how, *transport);
}

int calibrate_on(const Cuda& cuda, const ProgramOptions& options) {
  CalibrateOptions how = options.costs;
  FilesRead files;
  if (!options.baselines.empty())
    for (const PeerPoint& peer : read_peer_points(options.baselines, files).points)
      how.shapes.push_back(probe_of(peer.point));
  std::optional<DevicePointsWriter> points;  // none before the first point: there may be no GPU
  if (!options.points.empty())
    how.point = [&](const DevicePoint& point) {
      if (!points) points.emplace(options.points);
      points->add(point);
    };
  Calibration calibration = cuda.calibrate(options.grid, how);
  calibration.name = "gpu";
  write_file(options.output, to_calibration_file(calibration, nlohmann::ordered_json::object()));
  return 0;
}

int report_training(const RunReport& run) {
  if (!run.training) return 0;
  const TrainingReport& t = *run.training;
  say(fmt::format("{} steps of training: loss {:.6g} to {:.6g}\n", t.losses.size(), t.losses.front(), t.losses.back()));
  if (t.ok) return 0;
  say(fmt::format("dovetail-exec: losses of the training differ from the reference's by {:.1e}\n", t.loss_error));
  return 1;
}

int report(const ProgramOptions& options, const RunResult& result) {
  for (const std::string& note : result.notes) say(note + '\n');
  const RunReport& r = result.report;
  say(fmt::format("step {:.6g} s (95 % {:.6g} to {:.6g} s, {} samples, ended by {}), dilation {:.4g}, {} overruns\n",
                  median(r.samples).value(), r.ci95_low.value(), r.ci95_high.value(), r.samples.size(), r.stopped_by,
                  r.dilation, r.overruns));
  write_file(
      options.output,
      to_json(TimelineFile{result.timeline, result.predicted->duration, result.work, r, result.notes}).dump() + "\n");
  if (!options.run.no_check && !r.numerics_ok) {
    say(fmt::format("dovetail-exec: numerics differ from the reference: outputs by {:.1e}, gradients by {:.1e}\n",
                    r.output_error, r.gradient_error));
    return 1;
  }
  return report_training(r);
}

// Calls `body`, and turns what it throws into a code and its words.
template <class Body>
Outcome outcome_of(Body body) try {
  return {body()};
} catch (const InputError& error) {
  return {2, error.what()};
} catch (const DeviceError& error) {
  return {4, error.what()};
} catch (const std::bad_alloc&) {
  return {1, "out of memory"};
} catch (const std::system_error& error) {
  return {4, error.what()};
} catch (const std::exception& error) {
  return {1, error.what()};
}

// The same for a process of its own, which says the words.
template <class Body>
int exit_code_of(Body body) {
  const Outcome outcome = outcome_of(body);
  if (!outcome.error.empty()) say(fmt::format("dovetail-exec: {}\n", outcome.error));
  return outcome.code;
}

// A process that fails ends the others, which would wait for it forever.
int run_in_world(const ProgramOptions& options, const Cuda& cuda, MakeWorld make) {
  if (make == nullptr) throw InternalError("processes without MPI were not refused");
  SignsOfLife signs;
  if (options.pulse) signs.begin();
  const std::unique_ptr<World> world = make();
  std::optional<RunResult> result;
  const int code = exit_code_of([&] {
    result = run(options, cuda, world.get(), &signs);
    return world->rank() == 0 ? report(options, *result) : 0;
  });
  if (code != 0 && !(result && code == 1)) world->abort(code);
  return code;
}

int execute(const ProgramOptions& options, MakeWorld mpi, const Cuda& cuda) {
  // A build with CUDA says itself whether it has NCCL.
  require_parts(options.run, {cuda.run != nullptr, mpi != nullptr, cuda.run_over_nccl != nullptr});
  if (options.calibrate) return calibrate_on(cuda, options);
  if (options.run.processes()) return run_in_world(options, cuda, mpi);
  return report(options, run(options, cuda, nullptr, nullptr));
}

// A request that would serve again, or start other processes, is refused.
Outcome execute_request(const std::vector<std::string>& arguments, const Cuda& cuda) {
  return outcome_of([&] {
    const ProgramOptions options = parse_program_options(arguments);
    if (options.help || !options.serve.empty() || options.run.processes() || !options.run.cuda())
      throw InputError("a request has --device cuda and a schedule or --calibrate, in this process alone");
    return execute(options, nullptr, cuda);
  });
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, MakeWorld mpi, const Cuda& cuda) {
  return exit_code_of([&] {
    const ProgramOptions options = parse_program_options(arguments);
    if (options.help) {
      write_file("-", program_help);
      return 0;
    }
    if (options.serve.empty()) return execute(options, mpi, cuda);
    require_parts(options.run, {cuda.run != nullptr, mpi != nullptr, cuda.run_over_nccl != nullptr});
    return serve(options.serve,
                 [&](const std::vector<std::string>& request) { return execute_request(request, cuda); });
  });
}

}  // namespace dovetail::exec
