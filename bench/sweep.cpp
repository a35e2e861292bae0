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
  return {{"makespan_s", result.metrics.makespan.value()},
          {"forward_s", result.metrics.forward.value()},
          {"backward_s", result.metrics.backward.value()},
          {"exposed_communication_s", result.metrics.exposed_communication.value()},
          {"lower_bound_s", result.lower_bound.value()},
          {"peak_bytes", result.memory.peak.value()},
          {"feasible", result.feasible}};
}

// What neighbouring cells share, so that files are read once and not in every cell.
class Cells {
 public:
  explicit Cells(const SweepGrid& grid) : grid_(grid), backend_(make_backend(grid.backend)) {
    FilesRead files;
    for (const std::string& name : grid.systems)
      systems_.push_back({load_system(name, files), is_path(name) ? name : "", "/plan"});
  }

  std::string line(std::int64_t cell) {
    const auto systems = static_cast<std::int64_t>(systems_.size());
    const SweepPoint point = grid_.point(cell / systems);
    const auto at = static_cast<std::size_t>(cell % systems);
    Json json{{"cell", cell}, {"system", grid_.systems[at]}, {"values", point.values}};
    try {
      const Question& question = ask(point.request);
      const Choice choice = choose_plan(question, systems_[at], evaluator_of(systems_[at].system));
      const SystemResult result = evaluate(question.experiment, grid_.systems[at], choice, *backend_, Arenas::LeftOut);
      json.update(outcome(result));
      json["plan"] = knobs_of(result.plan);
      if (!result.feasible) json["missing_bytes"] = result.missing.value();
    } catch (const InputError& error) {
      json["refused"] = error.what();
    }
    return json.dump();
  }

 private:
  static constexpr std::size_t most_parts = 64;  // bounds the memory of grids with many clusters

  // A fixed plan is compared with nothing, so that its predicted time would be of no use.
  static planners::Evaluator evaluator_of(const System& system) {
    if (system.planner.name != "fixed") return {};
    return [](const Plan&) { return Seconds(0); };
  }

  const Json& knobs_of(const Plan& plan) {
    if (!described_ || *described_ != plan) {
      knobs_ = knobs(plan);
      described_ = plan;
    }
    return knobs_;
  }

  // Cells that differ in knobs of the plan alone share their experiment.
  const Question& ask(const ExperimentRequest& request) {
    const ExperimentRequest experiment = without(request, {"plan"});
    if (!asked_ || experiment != *asked_) {
      asked_.reset();
      question_ = {};
      question_.experiment = load_experiment(experiment, parts_of(experiment), question_.files, question_.notes);
      asked_ = experiment;
    }
    question_.request = request;
    return question_;
  }

  // Those that differ in workload and groups of ranks share cluster, model and calibration.
  const ExperimentParts& parts_of(const ExperimentRequest& request) {
    const ExperimentRequest files = without(request, {"workload", "parallelism"});
    if (const auto known = std::ranges::find(parts_, files, &Parts::first); known != parts_.end()) return known->second;
    if (parts_.size() == most_parts) parts_.clear();
    return parts_.emplace_back(files, load_parts(files, question_.files)).second;
  }

  static ExperimentRequest without(ExperimentRequest request, std::initializer_list<std::string_view> objects) {
    std::erase_if(request.set, [&](std::string_view option) {
      return std::ranges::any_of(objects, [&](std::string_view object) {
        return option.starts_with(object) && option.substr(object.size()).starts_with('.');
      });
    });
    return request;
  }

  const SweepGrid& grid_;
  std::unique_ptr<Backend> backend_;
  std::vector<Candidate> systems_;
  using Parts = std::pair<ExperimentRequest, ExperimentParts>;
  std::vector<Parts> parts_;
  std::optional<ExperimentRequest> asked_;
  Question question_;
  std::optional<Plan> described_;  // by knobs_
  Json knobs_;
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
