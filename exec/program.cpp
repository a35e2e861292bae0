#include "exec/program.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "exec/host_run.hpp"
#include "models/errors.hpp"
#include "models/files/schedule_json.hpp"
#include "models/json/write_file.hpp"

namespace dovetail::exec {
namespace {

constexpr std::string_view help =
    R"(Usage: dovetail-exec SCHEDULE.json [-o TIMELINE.json] [options]
Really executes a schedule file on this machine and writes when each op ran, in wall seconds.

  -o FILE                            where the timeline goes (default -: standard output)
  --transport inproc                 how ranks exchange data: threads of this process
  --emulate-links                    hold communication to its modelled time, stretched so that the real work fits
  --hold-compute auto|always|never   hold compute too (default auto: when links are emulated and ranks exceed cores)
  --limit SECONDS                    longest time for the samples (default 15)
  --seed N                           of weights and data (default 1)
  --no-check                         do not compare with the reference
  --help

Example: dovetail-exec schedule.json -o timeline.json --emulate-links
)";

struct ProgramOptions {
  std::string schedule, output = "-";
  HostRunOptions run;
  bool help = false;
};

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least))
    throw InputError(fmt::format("{} {}: expected a number from {} on", option, text, least));
  return value;
}

HoldCompute parse_hold(const std::string& text) {
  if (text == "auto") return HoldCompute::Auto;
  if (text == "always") return HoldCompute::Always;
  if (text == "never") return HoldCompute::Never;
  throw InputError(fmt::format("--hold-compute {}: expected auto, always or never", text));
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
    } else if (a == "--transport") {
      if (const std::string& name = value(); name != "inproc")
        throw InputError(fmt::format("--transport {}: expected inproc", name));
    } else if (a == "--emulate-links") {
      options.run.emulate_links = true;
    } else if (a == "--hold-compute") {
      options.run.hold_compute = parse_hold(value());
    } else if (a == "--limit") {
      options.run.measure.limit = Seconds(parse_number(a, value(), 0.0));
    } else if (a == "--seed") {
      options.run.seed = options.run.measure.seed = parse_number(a, value(), std::uint64_t{0});
    } else if (a == "--no-check") {
      options.run.check_numerics = false;
    } else if (a.starts_with("-") || !options.schedule.empty()) {
      throw InputError(fmt::format("{}: unexpected; see --help", a));
    } else {
      options.schedule = a;
    }
  }
  if (options.schedule.empty() && !options.help) throw InputError("no schedule file given; see --help");
  return options;
}

// What the executor needs of an experiment: costs are in the priced schedule already.
Experiment experiment_of(const ScheduleFile& file) {
  Experiment e;
  e.model = file.model;
  e.workload = file.workload;
  e.parallelism = file.parallelism;
  e.cluster.nodes = file.parallelism.pp * file.parallelism.dp;
  e.cluster.gpus_per_node = file.parallelism.mp;
  validate(e);
  return e;
}

int execute(const ProgramOptions& options) {
  ScheduleFile file = read_schedule(JsonFile::read(options.schedule));
  const Experiment experiment = experiment_of(file);
  const auto priced = std::make_shared<const PricedSchedule>(std::move(file.priced));
  const HostRunResult result = run_on_host(experiment, priced, options.run);
  for (const std::string& note : result.notes) fmt::print(stderr, "{}\n", note);
  const RunReport& r = result.report;
  fmt::print(stderr, "step {:.6g} s (95 % {:.6g} to {:.6g} s, {} samples, ended by {}), dilation {:.4g}, {} overruns\n",
             median(r.samples).value(), r.ci95_low.value(), r.ci95_high.value(), r.samples.size(), r.stopped_by,
             r.dilation, r.overruns);
  if (options.run.check_numerics && !r.numerics_ok) {
    fmt::print(stderr, "dovetail-exec: numerics differ from the reference: outputs by {:.1e}, gradients by {:.1e}\n",
               r.output_error, r.gradient_error);
    return 1;
  }
  write_file(options.output, to_json(result.timeline).dump() + "\n");
  return 0;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) try {
  const ProgramOptions options = parse(arguments);
  if (!options.help) return execute(options);
  write_file("-", help);
  return 0;
} catch (const InputError& error) {
  fmt::print(stderr, "dovetail-exec: {}\n", error.what());
  return 2;
} catch (const DeviceError& error) {
  fmt::print(stderr, "dovetail-exec: {}\n", error.what());
  return 4;
} catch (const std::exception& error) {
  fmt::print(stderr, "dovetail-exec: {}\n", error.what());
  return 1;
}

}  // namespace dovetail::exec
