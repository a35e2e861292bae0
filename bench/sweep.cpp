#include "bench/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "bench/backends.hpp"
#include "bench/evaluate.hpp"
#include "bench/outputs.hpp"
#include "bench/worker_pool.hpp"
#include "models/errors.hpp"
#include "models/files/input_file.hpp"
#include "models/files/plan_json.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::int64_t batch_cells = 64;  // between two writes to the disk

// Knobs that are not as in a plan without any. Slices of gradients follow from the rest, and there are many of them.
Json knobs(const Plan& plan) {
  static const Json usual = to_json(Plan{});
  Json all = to_json(plan), changed = Json::object();
  for (const auto& [knob, value] : all.items())
    if (value != usual[knob] && knob != "gradient_slices") changed[knob] = value;
  return changed;
}

Json outcome(const SystemResult& result) {
  Json json{{"makespan_s", result.metrics.makespan.value()},
            {"forward_s", result.metrics.forward.value()},
            {"backward_s", result.metrics.backward.value()},
            {"exposed_communication_s", result.metrics.exposed_communication.value()},
            {"lower_bound_s", result.lower_bound.value()},
            {"peak_bytes", result.memory.peak.value()},
            {"feasible", result.feasible},
            {"plan", knobs(result.plan)}};
  if (!result.feasible) json["missing_bytes"] = result.missing.value();
  return json;
}

// What neighbouring cells share.
class Cells {
 public:
  explicit Cells(const SweepGrid& grid) : grid_(grid), backend_(make_backend(grid.backend)) {}

  std::string line(std::int64_t cell) {
    const auto systems = static_cast<std::int64_t>(grid_.systems.size());
    const SweepPoint point = grid_.point(cell / systems);
    const std::string& system = grid_.systems[static_cast<std::size_t>(cell % systems)];
    Json json{{"cell", cell}, {"system", system}, {"values", point.values}};
    try {
      const Question& question = ask(point.request);
      FilesRead files;
      const Candidate candidate{load_system(system, files), is_path(system) ? system : "", "/plan"};
      json.update(outcome(evaluate(question.experiment, system, choose_plan(question, candidate), *backend_)));
    } catch (const InputError& error) {
      json["refused"] = error.what();
    }
    return json.dump();
  }

 private:
  // Cells that differ in knobs of the plan alone share their experiment.
  const Question& ask(const ExperimentRequest& request) {
    ExperimentRequest experiment = request;
    std::erase_if(experiment.set, [](const std::string& option) { return option.starts_with("plan."); });
    if (!asked_ || experiment != *asked_) {
      asked_.reset();
      question_ = {};
      question_.experiment = load_experiment(experiment, question_.files, question_.notes);
      asked_ = std::move(experiment);
    }
    question_.request = request;
    return question_;
  }

  const SweepGrid& grid_;
  std::unique_ptr<Backend> backend_;
  std::optional<ExperimentRequest> asked_;
  Question question_;
};

std::string shard_path(const std::string& output, int index, int count) {
  if (count == 1) return output;
  const fs::path path(output);
  return (path.parent_path() /
          fmt::format("{}.{}-of-{}{}", path.stem().string(), index + 1, count, path.extension().string()))
      .string();
}

void write_sorted(const std::string& path, const Json& header, const CellIndex& index) {
  write_all({{path, [&](std::ostream& out) {
                out << header.dump() << '\n';
                index.for_each([&](std::string_view line) { out << line << '\n'; });
              }}});
}

bool complete(const std::string& path, const Json& header, std::int64_t cells) {
  if (!fs::exists(path)) return false;
  CellIndex index(header.at("cells"));
  index.add(path, header);
  return index.count() == cells;
}

// Numbers of the batches that a shard has, and how many cells are in them.
struct Work {
  std::vector<std::int64_t> batches;
  std::int64_t cells = 0;
};

Work work_of(std::int64_t cells, Shard shard) {
  Work work;
  for (std::int64_t batch = shard.index; batch * batch_cells < cells; batch += shard.count) {
    work.batches.push_back(batch);
    work.cells += std::min(batch_cells, cells - batch * batch_cells);
  }
  return work;
}

// The shard's own file, whole and sorted at the end.
void run_shard(const SweepGrid& grid, const Json& header, const SweepSettings& settings, const std::string& path) {
  const Work work = work_of(grid.cells(), settings.shard);
  if (complete(path, header, work.cells)) return;
  const std::string part = path + ".part";
  CellIndex done(grid.cells());
  const std::int64_t whole = fs::exists(part) && fs::file_size(part) > 0 ? done.add(part, header) : 0;
  {
    SweepLog log(part, header, whole);
    Progress progress("sweep", static_cast<int>(work.batches.size()), settings.talk);
    std::unique_ptr<Cells> cells;  // each worker makes its own
    const auto compute = [&](std::int64_t i) {
      if (!cells) cells = std::make_unique<Cells>(grid);
      std::string lines;
      const std::int64_t first = work.batches[static_cast<std::size_t>(i)] * batch_cells;
      for (std::int64_t cell = first; cell < std::min(first + batch_cells, grid.cells()); ++cell)
        if (!done.has(cell)) lines += cells->line(cell) + '\n';
      return lines;
    };
    for_each_piece(static_cast<std::int64_t>(work.batches.size()), settings.workers, compute,
                   [&](std::int64_t, const std::string& lines) {
                     if (!lines.empty()) log.add(lines);
                     progress.done();
                     progress.begin(fmt::format("batches of {} cells", batch_cells));
                   });
  }
  CellIndex all(grid.cells());
  all.add(part, header);
  write_sorted(path, header, all);
  fs::remove(part);
}

}  // namespace

std::string sweep_line(const SweepGrid& grid, std::int64_t cell) {
  return Cells(grid).line(cell);
}

bool run_sweep(const SweepGrid& grid, const Json& header, const SweepSettings& settings) {
  if (complete(settings.output, header, grid.cells())) return true;
  const int shards = settings.shard.count;
  run_shard(grid, header, settings, shard_path(settings.output, settings.shard.index, shards));
  if (shards == 1) return true;
  std::vector<std::string> files;
  for (int i = 0; i < shards; ++i) {
    files.push_back(shard_path(settings.output, i, shards));
    if (!complete(files.back(), header, work_of(grid.cells(), {i, shards}).cells)) return false;
  }
  merge_sweep(files, settings.output);
  return true;
}

void merge_sweep(const std::vector<std::string>& files, const std::string& output) {
  const Json header = read_sweep_header(files.front());
  CellIndex index(header.at("cells"));
  for (const std::string& file : files) index.add(file, header);
  const std::int64_t cells = header.at("cells");
  if (index.count() < cells)
    throw InputError(fmt::format("{} of {} cells are missing in these files: finish all shards first",
                                 cells - index.count(), cells));
  write_sorted(output, header, index);
}

}  // namespace dovetail::bench
