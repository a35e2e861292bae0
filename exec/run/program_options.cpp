// SPDX-License-Identifier: Apache-2.0
#include "exec/run/program_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <iterator>
#include <map>

#include "models/base/errors.hpp"
#include "models/base/files_apart.hpp"
#include "models/base/names.hpp"

namespace dovetail::exec {
namespace {

template <class Number>
Number parse_number(std::string_view option, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least))
    throw InputError(fmt::format("{} {}: expected a number from {} on", option, text, least));
  return value;
}

template <class Value, std::size_t count>
Value parse_name(std::string_view option, const std::string& text, const Names<Value, count>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw InputError(fmt::format("{} {}: expected one of {}", option, text, known));
}

// Options that take a value, and what is done with it. The words given are the option's name and its value.
using Take = std::function<void(std::string_view, const std::string&)>;

Take take_text(std::string& target) {
  return [&](std::string_view, const std::string& value) { target = value; };
}
template <class Number>
Take take_number(Number& target, Number least) {
  return [&target, least](std::string_view option, const std::string& value) {
    target = parse_number(option, value, least);
  };
}
template <class Value, std::size_t count>
Take take_name(Value& target, const Names<Value, count>& names) {
  return [&](std::string_view option, const std::string& value) { target = parse_name(option, value, names); };
}

std::map<std::string, Take, std::less<>> options_with_value(ProgramOptions& o) {
  return {{"-o", take_text(o.output)},
          {"--device", take_name(o.run.device, run_device_names)},
          {"--transport", take_name(o.run.transport, run_transport_names)},
          {"--exchange-blocks", take_number(o.run.exchange_blocks, 1)},
          {"--gemm-multiprocessors", take_number(o.run.gemm_multiprocessors, 1)},
          {"--train", take_number(o.run.train, 1)},
          {"--hold-compute", take_name(o.run.hold_compute, hold_compute_names)},
          {"--limit",
           [&](std::string_view option, const std::string& value) {
             o.run.measure_time = parse_number(option, value, 0.0);
             o.costs.measure.limit = Seconds(o.run.measure_time);
           }},
          {"--seed",
           [&](std::string_view option, const std::string& value) {
             o.run.seed = o.costs.measure.seed = parse_number(option, value, std::uint64_t{0});
           }},
          {"--hang-time", take_number(o.run.hang_time, .1)},
          {"--serve", take_text(o.serve)},
          {"--grid", take_name(o.grid, gpu_grid_names)},
          {"--where", take_text(o.costs.where)},
          {"--points", take_text(o.points)},
          {"--baselines", take_text(o.baselines)}};
}

std::map<std::string, bool*, std::less<>> flags(ProgramOptions& o) {
  return {{"--help", &o.help},
          {"-h", &o.help},
          {"--pulse", &o.pulse},
          {"--emulate-links", &o.run.emulate_links},
          {"--one-rank", &o.run.one_rank},
          {"--no-check", &o.run.no_check},
          {"--calibrate", &o.calibrate}};
}

void check_server(const ProgramOptions& o) {
  if (!o.run.cuda()) throw InputError("--serve: only with --device cuda");
  if (o.calibrate || !o.schedule.empty()) throw InputError("--serve: requests bring schedules and --calibrate");
}

void check_together(const ProgramOptions& o) {
  validate(o.run);
  if (o.calibrate && !o.run.cuda())
    throw InputError("--calibrate: only with --device cuda; dovetail calibrate measures the host");
  if (o.calibrate && !o.schedule.empty())
    throw InputError(fmt::format("--calibrate: takes no schedule: {}", o.schedule));
  if (!o.calibrate && !(o.points.empty() && o.baselines.empty()))
    throw InputError("--points and --baselines: only with --calibrate");
  if (!o.serve.empty()) return check_server(o);
  if (!o.calibrate && o.schedule.empty()) throw InputError("no schedule file given; see --help");
  require_apart({{"-o", o.output}, {"--points", o.points}}, {o.schedule, o.baselines});
}

}  // namespace

const std::string_view program_help =
    R"(Usage: dovetail-exec SCHEDULE.json [-o TIMELINE.json] [options]
Executes a schedule file on this machine and writes a timeline file: when each op ran, in seconds of the wall clock.

  -o FILE                            write the timeline to this file (default -: standard output)
  --device host|cuda                 what computes (default host). With cuda all ranks share the first GPU. With cuda
                                     and --emulate-links one rank stands for all, and its exchanges last as modelled.
                                     With cuda and --transport nccl each rank has a GPU
  --transport TRANSPORT              how ranks exchange data (default inproc):
                                       inproc    as threads of this process
                                       mpi       as processes that mpirun started, one for each rank of the schedule.
                                                 The first of them reads and writes the files. In a Slurm allocation
                                                 mpirun takes the machines from it
                                       nccl      with --device cuda: by NCCL between GPUs of this process
                                       nccl-mpi  with --device cuda: by NCCL between processes that mpirun started
  --emulate-links                    hold communication to its modelled time, stretched so that the real work fits in
  --one-rank                         with --emulate-links on the host: one rank stands for all, and what it sends comes
                                     back to it, so that one core runs a rank of any group
  --exchange-blocks N                with --device cuda --emulate-links: multiprocessors that each exchange takes, as a
                                     network library's kernel does (default 16)
  --gemm-multiprocessors N           with --device cuda: multiprocessors that matrix products are made for (default all;
                                     with --emulate-links those that an exchange leaves)
  --hold-compute auto|always|never   hold compute to its modelled time too (default auto: if links are emulated and
                                     there are more ranks than cores)
  --limit SECONDS                    longest time to measure (default 15)
  --seed N                           seed of weights and data (default 1)
  --train N                          after measuring, train N steps of Adam on a language that the seed makes up (in
                                     double on CPUs), and compare each loss with that of the reference; needs
                                     workload.extent model
  --no-check                         do not compare with the reference
  --hang-time SECONDS                with inproc: end the run if no operation finishes for this time and for twice the
                                     time of the longest operation, while none computes (default 8)
  --pulse                            write on standard output, ten times a second, which op each process is in
  --calibrate                        with --device cuda and no schedule: measure what operations cost on the GPU and
                                     write a calibration without collectives. --limit then is for each size (default
                                     0.5)
  --grid default|quick|first_light   with --calibrate: the sizes to measure; first_light is a dozen points
  --where TEXT                       with --calibrate: a text to add to the source of each cost
  --points FILE                      with --calibrate: write each measured size as a line of CSV
  --baselines FILE                   with --calibrate: also measure the sizes in this file of torch_baselines.py
  --serve SOCKET                     with --device cuda and no schedule: stay, and execute requests that come over a
                                     socket at this path (-: standard input is one) on one CUDA context. dovetail
                                     sends its own there if DOVETAIL_SERVER is this path
  --help                             this text

Examples:
  dovetail-exec schedule.json -o timeline.json --emulate-links
  mpirun -n 4 --bind-to none dovetail-exec schedule.json -o timeline.json --transport mpi
  dovetail-exec schedule.json -o timeline.json --device cuda --transport nccl
)";

ProgramOptions parse_program_options(const std::vector<std::string>& arguments) {
  ProgramOptions options;
  const auto set = flags(options);
  const auto take = options_with_value(options);
  for (auto a = arguments.begin(); a != arguments.end(); ++a) {
    if (const auto flag = set.find(*a); flag != set.end()) {
      *flag->second = true;
    } else if (const auto option = take.find(*a); option != take.end()) {
      if (std::next(a) == arguments.end()) throw InputError(fmt::format("{} needs a value; see --help", *a));
      ++a;
      option->second(option->first, *a);
    } else if (a->starts_with("-") || !options.schedule.empty()) {
      throw InputError(fmt::format("{}: unexpected; see --help", *a));
    } else {
      options.schedule = *a;
    }
  }
  if (!options.help) check_together(options);
  return options;
}

}  // namespace dovetail::exec
