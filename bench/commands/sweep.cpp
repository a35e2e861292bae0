// SPDX-License-Identifier: Apache-2.0
// dovetail sweep: systems over a grid of settings, in parallel, resumable.
#include "bench/sweep/sweep.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/options.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/sweep/sweep_summary.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/streams.hpp"
#include "models/files/known_parts.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto sweep_examples = R"(Examples:
  A shipped grid, as JSON lines and as a table for a spreadsheet:
    dovetail sweep degrees -o degrees.jsonl --csv degrees.csv

  A grid of your own on two machines that share no disk; their files are put together afterwards:
    dovetail sweep my-grid.json -o cells.jsonl --shard 1/2
    dovetail sweep my-grid.json -o cells.jsonl --shard 2/2
    dovetail sweep --merge cells.1-of-2.jsonl,cells.2-of-2.jsonl -o cells.jsonl

  On all nodes of a Slurm or Open MPI job; each process takes its share, and the last one puts the file together:
    mpirun -n 2 dovetail sweep my-grid.json -o cells.jsonl

A stopped sweep goes on where it ended when the same command is given again. Finished cells are neither lost nor computed
again. Results do not depend on --jobs or shards. A cell whose settings contradict each other says why, and the sweep goes
on.)";

struct SweepOptions : Options {
  std::string grid, csv, shard;
  std::vector<std::string> merge;
  int jobs = 0;

  SweepOptions() {
    backend.clear();
    draws = 0;
  }
};

std::optional<int> number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return {};
  int number = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  return error == std::errc() && end == all.data() + all.size() ? std::optional(number) : std::nullopt;
}

Shard read_shard(const std::string& text) {
  Shard shard;
  const char* last = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), last, shard.index);
  if (error == std::errc() && slash != last && *slash == '/') {
    const auto [end, wrong] = std::from_chars(slash + 1, last, shard.count);
    if (wrong == std::errc() && end == last && 1 <= shard.index && shard.index <= shard.count)
      return {shard.index - 1, shard.count};
  }
  throw InputError(fmt::format("--shard {}: expected I/N, such as 1/4", in_quotes(text)));
}

// --shard, else what Open MPI or Slurm says of this process.
Shard own_shard(const SweepOptions& options) {
  if (!options.shard.empty()) return read_shard(options.shard);
  for (const auto& [rank, size] :
       {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const std::optional<int> index = number_in(rank), count = number_in(size);
    if (index && count && 0 <= *index && *index < *count) return {*index, *count};
  }
  return {};
}

// The identity of a sweep. No time and no machine: the same sweep gives the same file anywhere.
Json header_of(const SweepGrid& grid, const FilesRead& files, const std::vector<std::string>& notes,
               const SweepOptions& options) {
  const RunProvenance p = provenance({}, files, options.seed);
  Json axes = Json::array();
  for (const SweepAxis& axis : grid.axes) axes.push_back({{"name", axis.name}, {"values", axis.values.size()}});
  Json header{{"schema_version", sweep_version}, {"kind", sweep_kind},      {"name", grid.name},
              {"cells", grid.cells()},           {"systems", grid.systems}, {"axes", axes},
              {"backend", grid.backend},         {"version", p.version},    {"git_revision", p.git_revision},
              {"input_sha256", p.input_sha256}};
  if (grid.draws > 0) {
    header["draws"] = grid.draws;
    header["seed"] = grid.seed;
  }
  if (!notes.empty()) header["notes"] = notes;
  return header;
}

// Errors of a point are reported by its own cells.
void read_point(const SweepGrid& grid, std::int64_t point, KnownParts& known, FilesRead& files,
                std::vector<HardwareFinding>& findings) {
  try {
    const ExperimentRequest request = grid.point(point).request;
    std::vector<std::string> notes;
    const Experiment experiment = load_experiment(request, known, files, notes);
    add_findings(hardware_findings(experiment, {request, files, grid.backend}), findings);
  } catch (const InputError&) {
  }
}

// Every file that a cell reads, so that a changed one makes another sweep: of the systems, the first point and those on
// each axis through it. Returns which hardware these describe in vain.
std::vector<HardwareFinding> read_inputs(const SweepGrid& grid, FilesRead& files) {
  std::vector<HardwareFinding> findings;
  KnownParts known;
  for (const std::string& system : grid.systems) load_system(system, files);
  read_point(grid, 0, known, files, findings);
  std::int64_t stride = grid.points();
  for (const SweepAxis& axis : grid.axes) {
    const auto values = static_cast<std::int64_t>(axis.values.size());
    stride /= values;
    for (std::int64_t value = 1; value < values; ++value) read_point(grid, value * stride, known, files, findings);
  }
  return findings;
}

Exit report(const SweepOptions& options, const Json& header) {
  CellIndex index(header);
  index.add(options.output);
  index.require_a_result();
  std::vector<SummaryAxis> axes;
  for (const Json& axis : header.at("axes")) axes.push_back({axis.at("name"), axis.at("values")});
  SweepSummary summary = summarize(index, header.at("systems"), axes);
  summary.notes = header.value("notes", std::vector<std::string>{});
  if (!options.csv.empty()) write_all({{options.csv, [&](std::ostream& out) { write_csv(out, index); }}});
  if (!options.quiet)
    write_all({{"-", [&](std::ostream& out) { write_table(out, summary, use_colour(options.colour)); }}});
  if (index.bug().empty()) return Exit::Ok;
  say(fmt::format("dovetail: {}\n", index.bug()));
  return Exit::Failure;
}

void require_own_files(const SweepOptions& options, const SweepSettings& settings, const FilesRead& files) {
  const std::string own = shard_file(settings.output, settings.shard);
  std::vector<NamedFile> written{
      {"--output", options.output}, {"--csv", options.csv}, {"the part of --output", own + ".part"}};
  if (own != options.output) written.push_back({"the shard of --output", own});
  require_outputs(written, files);
}

Exit sweep(const SweepOptions& options) {
  stop_after(options.timeout);
  if (!is_kept(options.output)) throw InputError("sweep writes its cells to a file: -o FILE.jsonl");
  if (!options.merge.empty()) {
    if (!options.grid.empty()) throw InputError("sweep takes a grid or --merge, not both");
    require_outputs({{"--output", options.output}, {"--csv", options.csv}}, {}, options.merge);
    merge_sweep(options.merge, options.output);
    return report(options, read_sweep_header(options.output));
  }
  if (options.grid.empty()) throw InputError("sweep takes a grid: a name in data/sweeps or a file");
  FilesRead files;
  SweepGrid grid = load_sweep_grid(options.grid, files);
  if (!options.backend.empty()) grid.backend = options.backend;
  make_backend(grid.backend);
  grid.draws = options.draws;
  grid.seed = static_cast<std::uint64_t>(options.seed);
  if (grid.draws > 0 && find_backend(grid.backend)->links_alone)
    throw InputError(
        fmt::format("--draws {}: the times of {} are not those of the calibration's costs", grid.draws, grid.backend));
  const std::vector<std::string> notes = sentences(read_inputs(grid, files));
  SweepSettings settings{options.output, own_shard(options), options.jobs, options.talk()};
  if (settings.workers == 0) settings.workers = exec::free_cores();
  require_own_files(options, settings, files);
  const Json header = header_of(grid, files, notes, options);
  const auto start = std::chrono::steady_clock::now();
  const SweepRun run = run_sweep(grid, header, settings);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const Exit exit = run.complete ? report(options, header) : Exit::Ok;
  if (options.quiet) return exit;
  if (!run.complete)
    show(fmt::format("shard {} of {} is finished; others are not\n", settings.shard.index + 1, settings.shard.count));
  if (run.computed > 0)
    show(fmt::format("{} cells in {:.3g} s: {:.3g} a second, by {} process{}\n", run.computed, taken.count(),
                     static_cast<double>(run.computed) / taken.count(), settings.workers,
                     settings.workers == 1 ? "" : "es"));
  return exit;
}

}  // namespace

Action declare_sweep(CLI::App& app) {
  const auto options = std::make_shared<SweepOptions>();
  app.add_option("grid", options->grid, "a name in data/sweeps or a file: axes and systems")->type_name("GRID");
  const std::string group = "Computing";
  add_integer(app, {"-j,--jobs", "COUNT", "number of processes [the free cores]", group}, options->jobs, 1, 4096);
  add_text(app, {"--shard", "I/N", "compute only this part of the cells [what mpirun or Slurm says]", group},
           options->shard);
  add_text(app, {"--backend", "NAME", "what computes the times: " + describe_backends() + " [the grid's]", group},
           options->backend);
  add_integer(app,
              {"--draws", "COUNT",
               "how often all costs are drawn from the ranges in which they are known, for an interval in each cell; "
               "with 200 the cells of grid degrees take 3 times as long [0]",
               group},
              options->draws, 0, 1'000'000);
  add_integer(app, {"--seed", "NUMBER", "seed of the draws [0]", group}, options->seed, 0, 2'000'000'000);
  add_text(app, {"-o,--output", "FILE", "write the cells as JSON lines", "Results"}, options->output);
  add_text(app, {"--csv", "FILE", "write the cells as a table", "Results"}, options->csv);
  add_list(app, {"--merge", "FILE,..", "put the files of all shards together; takes no grid", "Results"},
           options->merge);
  add_general_options(app, *options);
  app.footer(sweep_examples);
  return [options](const std::vector<std::string>&) { return sweep(*options); };
}

}  // namespace dovetail::bench
