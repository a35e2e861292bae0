#include "exec/run/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "exec/host/host_run.hpp"
#include "exec/launch/pulse.hpp"
#include "exec/run/probe.hpp"
#include "models/base/errors.hpp"
#include "models/base/files_apart.hpp"
#include "models/base/json/write_file.hpp"
#include "models/base/names.hpp"
#include "models/base/streams.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/device_points.hpp"
#include "models/files/peer_times.hpp"
#include "models/files/read_schedule.hpp"

namespace dovetail::exec {
namespace {

constexpr std::string_view help =
    R"(Usage: dovetail-exec SCHEDULE.json [-o TIMELINE.json] [options]
Really executes a schedule file on this machine and writes when each op ran, in wall seconds.

  -o FILE                            where the timeline goes (default -: standard output)
  --device host|cuda                 what computes (default host). cuda: the first GPU, which all ranks share; with
                                     --emulate-links one rank stands for all, and its exchanges last as modelled;
                                     with --transport nccl a GPU for each rank
  --transport TRANSPORT              how ranks exchange data (default inproc):
                                       inproc    threads of this process
                                       mpi       processes that mpirun started: as many as the schedule has ranks. The
                                                 first of them reads and writes the files. Slurm: mpirun takes the
                                                 machines from its allocation
                                       nccl      with --device cuda: NCCL between GPUs of this process
                                       nccl-mpi  with --device cuda: NCCL between processes that mpirun started
  --emulate-links                    hold communication to its modelled time, stretched so that the real work fits
  --exchange-blocks N                with --device cuda --emulate-links: multiprocessors that each exchange takes, as a
                                     network library's kernel does (default 16)
  --gemm-multiprocessors N           with --device cuda: matrix products are made for so many multiprocessors (default
                                     all)
  --hold-compute auto|always|never   hold compute too (default auto: when links are emulated and ranks exceed cores)
  --limit SECONDS                    longest time for the samples (default 15)
  --seed N                           of weights and data (default 1)
  --no-check                         do not compare with the reference
  --hang-time SECONDS                with inproc: end the run when no operation finishes for so long, twice as long as
                                     the longest takes, and none computes (default 8)
  --pulse                            say on standard output, ten times a second, what op each process is in
  --calibrate                        with --device cuda and no schedule: measure what operations cost on the GPU and write
                                     a calibration without collectives. --limit is of each size (default 0.5)
  --quick                            with --calibrate: fewer sizes
  --where TEXT                       with --calibrate: added to the source of each cost
  --points FILE                      with --calibrate: each measured size as a line of CSV
  --baselines FILE                   with --calibrate: measure the sizes in this file of torch_baselines.py too
  --help

Examples:
  dovetail-exec schedule.json -o timeline.json --emulate-links
  mpirun -n 4 --bind-to none dovetail-exec schedule.json -o timeline.json --transport mpi
  dovetail-exec schedule.json -o timeline.json --device cuda --transport nccl
)";

enum class ExecTransport { Inproc, Mpi, Nccl, NcclMpi };
constexpr Names<ExecTransport, 4> transport_names{{{"inproc", ExecTransport::Inproc},
                                                   {"mpi", ExecTransport::Mpi},
                                                   {"nccl", ExecTransport::Nccl},
                                                   {"nccl-mpi", ExecTransport::NcclMpi}}};

struct ProgramOptions {
  std::string schedule, output = "-";
  RunOptions run;
  bool cuda = false, pulse = false, help = false, blocks_given = false;
  ExecTransport transport = ExecTransport::Inproc;
  bool nccl() const { return transport == ExecTransport::Nccl || transport == ExecTransport::NcclMpi; }
  bool processes() const { return transport == ExecTransport::Mpi || transport == ExecTransport::NcclMpi; }
  bool calibrate = false, quick = false;
  CalibrateOptions costs;
  std::string points, baselines;
};

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least))
    throw InputError(fmt::format("{} {}: expected a number from {} on", option, text, least));
  return value;
}

template <class Value, std::size_t count>
Value parse_name(const std::string& option, const std::string& text, const Names<Value, count>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw InputError(fmt::format("{} {}: expected one of {}", option, text, known));
}

void check_together(const ProgramOptions& o) {
  if (o.help) return;
  if (o.cuda && o.transport == ExecTransport::Mpi)
    throw InputError("--device cuda: not with --transport mpi; GPUs exchange by --transport nccl or nccl-mpi");
  if (o.nccl() && !o.cuda) throw InputError("--transport nccl: between GPUs, only with --device cuda");
  if (o.nccl() && o.run.emulate_links) throw InputError("--transport nccl: links are real; not with --emulate-links");
  if (o.blocks_given && !(o.cuda && o.run.emulate_links))
    throw InputError("--exchange-blocks: only with --device cuda --emulate-links");
  if (o.run.gemm_multiprocessors > 0 && !o.cuda) throw InputError("--gemm-multiprocessors: only with --device cuda");
  if (o.calibrate && !o.cuda)
    throw InputError("--calibrate: only with --device cuda; dovetail calibrate measures the host");
  if (o.calibrate && !o.schedule.empty())
    throw InputError(fmt::format("--calibrate: takes no schedule: {}", o.schedule));
  if (!o.calibrate && !(o.points.empty() && o.baselines.empty()))
    throw InputError("--points, --baselines: only with --calibrate");
  if (!o.calibrate && o.schedule.empty()) throw InputError("no schedule file given; see --help");
  require_apart({{"-o", o.output}, {"--points", o.points}}, {o.schedule, o.baselines});
}

ProgramOptions parse(const std::vector<std::string>& arguments) {
  ProgramOptions options;
  options.run.emulate_links = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) throw InputError(fmt::format("{} needs a value; see --help", a));
      return arguments[++i];
    };
    if (a == "--help" || a == "-h") {
      options.help = true;
    } else if (a == "-o") {
      options.output = value();
    } else if (a == "--device") {
      const std::string& name = value();
      if (name != "host" && name != "cuda") throw InputError(fmt::format("--device {}: expected host or cuda", name));
      options.cuda = name == "cuda";
    } else if (a == "--transport") {
      options.transport = parse_name(a, value(), transport_names);
    } else if (a == "--pulse") {
      options.pulse = true;
    } else if (a == "--emulate-links") {
      options.run.emulate_links = true;
    } else if (a == "--exchange-blocks") {
      options.run.exchange_blocks = parse_number(a, value(), 1);
      options.blocks_given = true;
    } else if (a == "--gemm-multiprocessors") {
      options.run.gemm_multiprocessors = parse_number(a, value(), 1);
    } else if (a == "--hold-compute") {
      options.run.hold_compute = parse_name(a, value(), hold_compute_names);
    } else if (a == "--limit") {
      options.run.measure.limit = options.costs.measure.limit = Seconds(parse_number(a, value(), 0.0));
    } else if (a == "--seed") {
      options.run.seed = options.run.measure.seed = options.costs.measure.seed =
          parse_number(a, value(), std::uint64_t{0});
    } else if (a == "--no-check") {
      options.run.check_numerics = false;
    } else if (a == "--hang-time") {
      options.run.patience = Seconds(parse_number(a, value(), .1));
    } else if (a == "--calibrate") {
      options.calibrate = true;
    } else if (a == "--quick") {
      options.quick = true;
    } else if (a == "--where") {
      options.costs.where = value();
    } else if (a == "--points") {
      options.points = value();
    } else if (a == "--baselines") {
      options.baselines = value();
    } else if (a.starts_with("-") || !options.schedule.empty()) {
      throw InputError(fmt::format("{}: unexpected; see --help", a));
    } else {
      options.schedule = a;
    }
  }
  check_together(options);
  return options;
}

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

void require_cuda(const Cuda& cuda) {
  if (cuda.run == nullptr)
    throw DeviceError("--device cuda", "not in this build; install CUDA with cuBLAS and build again");
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

RunResult run_here(const ProgramOptions& options, const Cuda& cuda, const Experiment& experiment,
                   std::shared_ptr<const PricedSchedule> priced) {
  if (options.nccl()) return cuda.run_over_nccl(experiment, std::move(priced), options.run, nullptr);
  if (options.cuda) return cuda.run(experiment, std::move(priced), options.run);
  RunOptions how = options.run;
  how.stuck = end_stuck;
  add_fault(how.hooks);
  return run_on_host(experiment, std::move(priced), how);
}

RunResult run(const ProgramOptions& options, const Cuda& cuda, World* world, SignsOfLife* signs) {
  if (options.cuda) require_cuda(cuda);
  ScheduleFile file = read(options, world);
  const Experiment& experiment = file.experiment;
  const auto priced = std::make_shared<const PricedSchedule>(std::move(file.priced));
  if (world == nullptr) return run_here(options, cuda, experiment, priced);
  if (world->size() != experiment.cluster.gpus())
    throw InputError(fmt::format("{} processes, but the schedule has {} ranks: mpirun -n {}", world->size(),
                                 experiment.cluster.gpus(), experiment.cluster.gpus()));
  const int streams = static_cast<int>(priced->schedule->streams.size());
  RunOptions how = options.run;
  if (options.pulse) signs->of(world->rank(), priced->schedule->streams.size());
  how.progress = signs->progress();
  add_fault(how.hooks);
  if (options.nccl()) return cuda.run_over_nccl(experiment, priced, how, world);
  const auto transport = world->transport(priced->schedule->groups, streams);
  return run_on_host(experiment, priced, how, *transport);
}

int calibrate_on(const Cuda& cuda, const ProgramOptions& options) {
  require_cuda(cuda);
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
  Calibration calibration = cuda.calibrate(options.quick, how);
  calibration.name = "gpu";
  write_file(options.output, to_calibration_file(calibration, nlohmann::ordered_json::object()));
  return 0;
}

int report(const ProgramOptions& options, const RunResult& result) {
  for (const std::string& note : result.notes) say(note + '\n');
  const RunReport& r = result.report;
  say(fmt::format("step {:.6g} s (95 % {:.6g} to {:.6g} s, {} samples, ended by {}), dilation {:.4g}, {} overruns\n",
                  median(r.samples).value(), r.ci95_low.value(), r.ci95_high.value(), r.samples.size(), r.stopped_by,
                  r.dilation, r.overruns));
  write_file(options.output,
             to_json(TimelineFile{result.timeline, result.predicted->duration, r, result.notes}).dump() + "\n");
  if (options.run.check_numerics && !r.numerics_ok) {
    say(fmt::format("dovetail-exec: numerics differ from the reference: outputs by {:.1e}, gradients by {:.1e}\n",
                    r.output_error, r.gradient_error));
    return 1;
  }
  return 0;
}

// Calls `body`, and turns what it throws into a line and an exit code.
template <class Body>
int exit_code_of(Body body) try {
  return body();
} catch (const InputError& error) {
  say(fmt::format("dovetail-exec: {}\n", error.what()));
  return 2;
} catch (const DeviceError& error) {
  say(fmt::format("dovetail-exec: {}\n", error.what()));
  return 4;
} catch (const std::bad_alloc&) {
  say("dovetail-exec: out of memory\n");
  return 1;
} catch (const std::system_error& error) {
  say(fmt::format("dovetail-exec: {}\n", error.what()));
  return 4;
} catch (const std::exception& error) {
  say(fmt::format("dovetail-exec: {}\n", error.what()));
  return 1;
}

// A process that fails ends the others, which would wait for it forever.
int run_in_world(const ProgramOptions& options, const Cuda& cuda, MakeWorld make) {
  if (make == nullptr)
    throw DeviceError(fmt::format("--transport {}", name_in(transport_names, options.transport)),
                      "not in this build; apt-get install libopenmpi-dev and build again");
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

}  // namespace

int run_program(const std::vector<std::string>& arguments, MakeWorld mpi, const Cuda& cuda) {
  return exit_code_of([&] {
    const ProgramOptions options = parse(arguments);
    if (options.help) {
      write_file("-", help);
      return 0;
    }
    if (options.calibrate) return calibrate_on(cuda, options);
    if (options.processes()) return run_in_world(options, cuda, mpi);
    return report(options, run(options, cuda, nullptr, nullptr));
  });
}

}  // namespace dovetail::exec
