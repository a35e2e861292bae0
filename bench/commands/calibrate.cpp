// SPDX-License-Identifier: Apache-2.0
// dovetail calibrate: a calibration file from measurements on this machine, or from the output of nccl-tests.
#include "exec/run/calibrate.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/gpu_service.hpp"
#include "bench/pipeline/kernel_tables.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "exec/host/host_meter.hpp"
#include "exec/host/host_run.hpp"
#include "exec/run/run_request.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/base/streams.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/device_points.hpp"
#include "models/files/measurements.hpp"
#include "models/files/nccl_tests.hpp"
#include "models/files/peer_times.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::bench {
namespace {

constexpr auto calibrate_examples = R"(Examples:
  Measure this machine with two ranks as threads, in less than a minute; then use the costs:
    dovetail calibrate --quick --ranks 2 -o own.json
    dovetail simulate --cluster fsmoe-testbed-b --calibration own.json --model mixtral-8x7b --system tutel

  Take a cluster's collectives from nccl-tests (text, or the file of -J), and all other costs from a shipped file:
    dovetail calibrate --nccl-tests tests/data/nccl-tests/alltoall.txt --base dgx-h100 -o cluster.json

  Price kernels by their shapes, as measured elsewhere (data/README.md describes the files):
    dovetail calibrate --measurements tests/data/measurements --base dgx-h100 -o own-h100.json

With --device cuda the first GPU is measured; without a GPU the exit code is 4. One GPU cannot measure collectives, so
--base names a calibration to take them from, with links like yours. --points then also holds measurements that no cost is
fitted to: products of several experts, attention, copies in each direction, exchanges that take 4 to 24 multiprocessors,
and how fast products and copies run beside those.

The time of n bytes or flops is alpha + n / rate, fitted to the median of at least 5 runs at each size. Beyond the measured
sizes the rate is that of --base, unless they tell it. Do not trust costs marked "disturbed": threads had to share cores
while they were measured.)";

using exec::RunDevice;
constexpr Names<exec::GridName, 3> grid_names{{{"default", exec::GridName::Default},
                                               {"fsmoe", exec::GridName::Fsmoe},
                                               {"first_light", exec::GridName::GpuFirst}}};

constexpr auto measured_collectives = std::span(collective_names).subspan(1);  // all but none

struct CalibrateCommand : Options {
  RunDevice device = RunDevice::Host;
  int ranks = 0;  // 0: the free cores
  bool quick = false;
  exec::GridName grid = exec::GridName::Default;
  double measure_time = 0;  // of a point; 0: by the grid
  std::string name, base;
  std::string points, baselines;  // files
  std::vector<std::string> nccl_tests;
  std::optional<Collective> collective;
  std::optional<LinkKind> link;
  std::string measurements, source;  // a folder, and what to say of it
  std::string keep;                  // empty: as Keep by default
  bool sustained = false;            // the folder was measured under the load of a training
  std::optional<DType> dtype;

  bool from_files() const { return !nccl_tests.empty() || !measurements.empty(); }
};

// --- the table ---

std::string rate(SecondsPerByte beta) {
  return beta > SecondsPerByte(0) ? format_quantity(BytesPerSecond(1 / beta.value())) : "-";
}
std::string rate(SecondsPerFlop beta) {
  return beta > SecondsPerFlop(0) ? format_quantity(FlopsPerSecond(1 / beta.value())) : "-";
}
std::string size(SecondsPerByte, double n) {
  return reports::bytes(Bytes(n));
}
std::string size(SecondsPerFlop, double n) {
  return format_quantity(Flops(n));
}

template <class Cost>
void add_fit(reports::TextTable& table, const std::string& name, const Cost& cost) {
  if (!cost.provenance.fit) return;
  const Fit& fit = *cost.provenance.fit;
  table.add({name, fmt::format("{}", fit.points.size()), size(cost.beta, fit.points.front().size),
             size(cost.beta, fit.points.back().size), reports::duration(cost.alpha), rate(cost.beta),
             fmt::format("{:.4f}", fit.r2), fmt::format("{:.1f}", 100 * worst_error(fit)),
             cost.provenance.disturbed ? "disturbed" : std::string(name_in(origin_names, cost.provenance.origin))},
            cost.provenance.disturbed ? reports::Ink::Bad : reports::Ink::Plain);
}

void write_table(std::ostream& out, const Calibration& c, bool colour) {
  reports::TextTable table(
      {"\noperation", "\npoints", "\nfrom", "\nto", "\nalpha", "\nrate", "\nr2", "worst\nerror %", "\nresult"});
  for (const GemmCost& cost : c.gemms) add_fit(table, fmt::format("GEMM {}", name_in(dtype_names, cost.dtype)), cost);
  add_fit(table, "encode, decode", c.memory);
  if (c.strided_copy) add_fit(table, "strided copy", *c.strided_copy);
  if (c.copy) add_fit(table, "copy to the host", *c.copy);
  const auto same = [&](std::size_t i, std::size_t j) {
    return j < c.collectives.size() && c.collectives[i].provenance.fit == c.collectives[j].provenance.fit;
  };
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    const CollectiveCost& cost = c.collectives[i];
    if (i > 0 && same(i, i - 1)) continue;  // the same fit for both kinds of link
    std::string name(name_in(collective_names, cost.collective));
    if (!same(i, i + 1)) name += fmt::format(" {}", name_in(link_kind_names, cost.link));
    if (cost.gpus > 0) name += fmt::format(" {}", cost.gpus);
    if (cost.members_per_node > 0) name += fmt::format(", {} a node", cost.members_per_node);
    add_fit(table, name, cost);
  }
  out << table.text(colour);
  if (c.interference.empty()) return;
  reports::TextTable together({"together", "each keeps\nof its speed", "result"});
  for (const Interference& entry : c.interference) {
    std::vector<std::string> speeds;
    for_each_kept(entry, [&](const KeptSpeed& kept) { speeds.push_back(fmt::format("{:.3f}", kept.speed)); });
    together.add(
        {name_of(entry), fmt::format("{}", fmt::join(speeds, " / ")),
         entry.provenance.disturbed ? "disturbed" : std::string(name_in(origin_names, entry.provenance.origin))},
        entry.provenance.disturbed ? reports::Ink::Bad : reports::Ink::Plain);
  }
  out << '\n' << together.text(colour);
}

// Times that do not lie on a line are of several algorithms, of several tests or disturbed.
void warn_of_bad_fits(const Calibration& c) {
  std::vector<std::string> bad;
  add_bad_fits(c, bad);
  for (const std::string& warning : bad) std::cerr << "warning: " << warning << '\n';
}

// --- measuring ---

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown CPU";
}

nlohmann::ordered_json measurement_json(const RunProvenance& p) {
  return {{"version", p.version},     {"git_revision", p.git_revision}, {"host", p.host},
          {"compiler", p.compiler},   {"created", p.created},           {"command_line", p.command_line},
          {"libraries", p.libraries}, {"input_sha256", p.input_sha256}, {"seed", p.seed}};
}

exec::CalibrateOptions settings(const CalibrateCommand& options) {
  exec::CalibrateOptions how;
  how.measure.limit = Seconds(options.measure_time > 0 ? options.measure_time : options.quick ? .1 : .5);
  how.measure.seed = static_cast<std::uint64_t>(options.seed);
  return how;
}

Calibration measure_host(const CalibrateCommand& options, const RunProvenance& by,
                         nlohmann::ordered_json& measurement) {
  const int ranks = options.ranks > 0 ? options.ranks : std::max(2, exec::free_cores());
  const exec::GridName grid_name = options.quick ? exec::GridName::Quick : options.grid;
  const exec::CalibrationGrid grid = exec::calibration_grid(grid_name, ranks);
  ProgressLine progress("calibrate", grid.points(), options.talk());
  exec::CalibrateOptions how = settings(options);
  how.where = fmt::format("{} ({}), dovetail {} calibrate, {}", by.host, cpu_name(), by.version, by.created);
  how.begin = [&, first = true](const std::string& what) mutable {
    if (!first) progress.done();
    first = false;
    progress.begin(what);
  };
  std::optional<DevicePointsWriter> points;
  if (!options.points.empty()) {
    points.emplace(options.points);
    how.point = [&](const DevicePoint& point) { points->add(point); };
  }
  Calibration c = exec::calibrate(*exec::make_host_meter(ranks), grid, how);
  c.source = fmt::format(
      "Measured on {} ({}, {} free cores), {} ranks as threads of one process: links between nodes "
      "and inside are the same memory. {}",
      by.host, cpu_name(), exec::free_cores(), ranks, by.created);
  measurement["ranks"] = ranks;
  return c;
}

exec::GridName gpu_grid_of(const CalibrateCommand& options) {
  if (options.quick) return exec::GridName::GpuQuick;
  return options.grid == exec::GridName::Default ? exec::GridName::Gpu : options.grid;
}

Calibration measure_gpu(const CalibrateCommand& options, const RunProvenance& by,
                        const std::optional<Calibration>& base) {
  exec::CalibrateOptions how = settings(options);
  how.where = fmt::format("{}, dovetail {} calibrate, {}", by.host, by.version, by.created);
  Calibration c;
  {
    ProgressLine progress("calibrate", 1, options.talk());
    progress.begin("GPU");
    const Writing writing;
    c = gpu_service().calibrate(gpu_grid_of(options), how, {options.points, options.baselines});
  }
  c.source += fmt::format(" on {}, {}. ", by.host, by.created);
  if (base) {
    exec::add_unmeasured(c, *base);
    c.source += fmt::format("Collectives, and what else one GPU could not show, of {}", base->name);
  } else {
    constexpr auto none = "no collectives: one GPU cannot measure them";
    c.source += none;
    if (!options.quiet) say(fmt::format("{}; --base NAME|FILE takes them from another calibration\n", none));
  }
  return c;
}

// By --device.
Calibration measure(const CalibrateCommand& options, const RunProvenance& by, const std::optional<Calibration>& base,
                    nlohmann::ordered_json& measurement) {
  measurement = measurement_json(by);
  measurement["cpu"] = cpu_name();
  measurement["free_cores"] = exec::free_cores();
  Calibration c =
      options.device == RunDevice::Cuda ? measure_gpu(options, by, base) : measure_host(options, by, measurement);
  c.name = options.name.empty() ? by.host : options.name;
  return c;
}

std::vector<std::string> inputs_of(const CalibrateCommand& options) {
  std::vector<std::string> inputs = options.nccl_tests;
  if (!options.measurements.empty())
    std::ranges::copy(measurement_files(options.measurements), std::back_inserter(inputs));
  return inputs;
}

Calibration from_files(const CalibrateCommand& options, Calibration c, FilesRead& files) {
  if (!options.name.empty()) c.name = options.name;
  if (!options.measurements.empty()) {
    const std::string source = options.source.empty() ? options.measurements : options.source;
    add_measured_kernels(c,
                         {options.measurements, source, options.dtype,
                          options.keep.empty() ? Keep() : Keep(options.keep), options.sustained},
                         files);
    c.source += (c.source.empty() ? "" : ". ") + fmt::format("Kernels by shape: {}", source);
  }
  if (options.nccl_tests.empty()) return c;
  std::vector<NcclTestsRun> runs;
  for (const std::string& file : options.nccl_tests)
    std::ranges::move(read_nccl_tests(file, files), std::back_inserter(runs));
  merge_nccl_tests(c, runs, options.collective, options.link);
  c.source += (c.source.empty() ? "" : ". ") + std::string("Some collectives by nccl-tests");
  return c;
}

void check_device(const CalibrateCommand& o) {
  if (o.device != RunDevice::Cuda) {
    if (o.grid == exec::GridName::GpuFirst) throw InputError("--grid first_light: only with --device cuda");
    return;
  }
  if (o.ranks > 0 || o.grid == exec::GridName::Fsmoe)
    throw InputError(
        "--device cuda: one GPU is one rank and has its own sizes to measure, so not with --ranks or --grid fsmoe");
  exec::require_parts({.device = o.device}, exec::parts_of_this_build());
}

// Files replace parts of a base, and nothing is measured then.
void check_files(const CalibrateCommand& o) {
  const char* const option = o.measurements.empty() ? "--nccl-tests" : "--measurements";
  if (!o.points.empty())
    throw InputError(fmt::format("--points: not with {}, because nothing is measured then", option));
  if (o.base.empty())
    throw InputError(fmt::format("{}: add --base NAME|FILE, a calibration for the costs that are not in it", option));
  if (o.device != RunDevice::Host || o.quick || o.ranks > 0 || o.grid != exec::GridName::Default || o.measure_time > 0)
    throw InputError(fmt::format(
        "{}: nothing is measured here, so --device, --ranks, --quick, --grid and --measure-time have no effect",
        option));
}

void check_together(const CalibrateCommand& o) {
  check_options(o);
  if (!o.baselines.empty() && (o.device != RunDevice::Cuda || o.points.empty()))
    throw InputError("--baselines: only with --points and --device cuda, which measure and write its sizes");
  if (o.points == "-") throw InputError("--points -: expected a file, which is written while sizes are measured");
  if (o.nccl_tests.empty() && (o.collective || o.link))
    throw InputError("--collective and --link go with --nccl-tests FILE; without it this machine is measured");
  if (o.measurements.empty() && (!o.source.empty() || o.dtype || !o.keep.empty() || o.sustained))
    throw InputError("--source, --dtype, --keep and --sustained go with --measurements FOLDER");
  if (!o.base.empty() && !o.from_files() && o.device != RunDevice::Cuda)
    throw InputError(
        "--base goes with --nccl-tests FILE, --measurements FOLDER or --device cuda; without these this machine is "
        "measured");
  if (o.from_files()) check_files(o);
  if (o.quick && o.grid != exec::GridName::Default)
    throw InputError("--quick contradicts --grid, which names other sizes");
  check_device(o);
}

Exit calibrate(const CalibrateCommand& options, const std::vector<std::string>& command_line) {
  check_together(options);
  stop_after(options.timeout);
  FilesRead files;
  nlohmann::ordered_json measurement;
  Calibration calibration;
  const std::optional<Calibration> base =
      options.base.empty() ? std::nullopt : std::optional(load_calibration(options.base, files));
  if (!options.baselines.empty()) read_peer_points(options.baselines, files);
  require_outputs({{"--output", options.output}, {"--points", options.points}}, files, inputs_of(options));
  if (!options.from_files()) {
    calibration = measure(options, provenance(command_line, files, options.seed), base, measurement);
  } else {
    calibration = from_files(options, *base, files);
    measurement = measurement_json(provenance(command_line, files, options.seed));
  }
  if (!options.quiet) warn_of_bad_fits(calibration);
  const std::string text = to_calibration_file(calibration, measurement);
  write_all({{options.output, [&](std::ostream& out) { out << text; }}});
  if (options.output == "-" || options.quiet) return Exit::Ok;
  const bool colour = use_colour(options.colour);
  if (options.measurements.empty() || !options.nccl_tests.empty()) write_table(std::cout, calibration, colour);
  if (!options.measurements.empty()) write_kernel_tables(std::cout, calibration, colour);
  return Exit::Ok;
}

void add_optional_choices(CLI::App& app, CalibrateCommand& o) {
  const std::string measured = "From measured kernels";
  add_text(
      app,
      {"--measurements", "FOLDER",
       "take the times of kernels and collectives by their shapes from gemm.csv, attention.csv, moe.csv, nccl.csv and "
       "deepep.csv in this folder",
       measured},
      o.measurements);
  add_text(app, {"--source", "TEXT", "where these come from, for the provenance of the costs [the folder]", measured},
           o.source);
  add_choice(app, {"--dtype", "NAME", "only kernels in this number format [all]", measured}, dtype_names, o.dtype);
  add_text(
      app,
      {"--keep", "COUNT|PERCENT",
       "how many shapes of each kernel to keep; the others show the error of the costs [3000, 80% at most]", measured},
      o.keep);
  add_flag(app,
           {"--sustained", "",
            "they were measured under the load of a training, back to back for seconds; others are slowed by the "
            "calibration's sustained rates",
            measured},
           o.sustained);
  const std::string group = "From nccl-tests";
  add_repeatable(
      app,
      {"--nccl-tests", "FILE",
       "read this output of nccl-tests instead of measuring: JSON, or text of one or several tests; may be repeated",
       group},
      o.nccl_tests);
  add_text(app,
           {"--base", "NAME|FILE",
            "the calibration to start from: its collectives are replaced, or with --device cuda taken", group},
           o.base);
  add_choice(app, {"--collective", "NAME", "the collective that the files measure, if they do not say", group},
             measured_collectives, o.collective);
  add_choice(
      app,
      {"--link", "inter|intra", "the links that the files measure [inter if the test ran on several nodes]", group},
      link_kind_names, o.link);
}

}  // namespace

Action declare_calibrate(CLI::App& app) {
  const auto options = std::make_shared<CalibrateCommand>();
  CalibrateCommand& o = *options;
  o.output = "-";
  const std::string group = "Measuring";
  add_choice(app, {"--device", "host|cuda", "what to measure: this machine's cores, or its first GPU [host]", group},
             exec::run_device_names, o.device);
  add_integer(app, {"--ranks", "COUNT", "threads that stand for ranks [as many as free cores, at least 2]", group},
              o.ranks, 2, 1024);
  add_flag(app, {"--quick", "", "measure fewer sizes, on the host only in fp32; takes less than a minute", group},
           o.quick);
  add_choice(app,
             {"--grid", "default|fsmoe|first_light",
              "the sizes to measure: those of small layers, those of the FSMoE paper, or with --device cuda a dozen "
              "that show within half a minute what the GPU does [default]",
              group},
             grid_names, o.grid);
  add_number(app,
             {"--measure-time", "SECONDS", "longest time for one size, after 5 runs [0.5, with --quick 0.1]", group},
             o.measure_time, .001, 1e6);
  add_integer(app, {"--seed", "NUMBER", "seed of the resampling [0]", group}, o.seed, 0, 2'000'000'000);
  add_text(
      app,
      {"--baselines", "FILE", "with --device cuda: also measure the sizes in this file of torch_baselines.py", group},
      o.baselines);
  add_optional_choices(app, o);
  add_text(app, {"--name", "NAME", "name of the calibration [this machine's, or the base's]", "Results"}, o.name);
  add_text(app,
           {"-o,--output", "FILE",
            "write the calibration to this file, and a table to standard output [the calibration to standard output]",
            "Results"},
           o.output);
  add_text(app, {"--points", "FILE", "write each size as a line of CSV as soon as it is measured", "Results"},
           o.points);
  add_general_options(app, o);
  app.footer(calibrate_examples);
  return [options](const std::vector<std::string>& command_line) { return calibrate(*options, command_line); };
}

}  // namespace dovetail::bench
