// SPDX-License-Identifier: Apache-2.0
// Planners that learn while training runs: before a step they choose one of a list of strategies, after it they are
// told how long it took. For embedding: no clock, no threads, no input or output but load() and save(). A strategy is
// whatever its name stands for: a degree, a degree with an all-to-all, a way to shard experts.
//
// Several ranks: either one rank chooses and tells the others, or all hold the same planner and are given the same
// numbers: each StepSize with the largest count over ranks, each time that of the slowest rank.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json/json_reader.hpp"
#include "models/base/units.hpp"

namespace dovetail::planners {

inline constexpr double smallest_load = 1e-300;  // that a state may hold

// The sizes of a step that decide how much work it is. Both are above 0.
struct StepSize {
  double capacity_factor = 1;
  double tokens = 1;  // of a rank, the fullest one's, in any unit that stays the same

  double load() const { return capacity_factor * tokens; }
};

// Bytes that a strategy moves at a load: fixed + per_load * load.
struct LoadLine {
  Bytes fixed, per_load;
  Bytes at(double load) const { return fixed + per_load * load; }
};

struct OnlineSettings {
  std::vector<std::string> strategies;  // different names, at least one
  std::string context;          // what timings belong to: model, cluster, software. A state of another is refused
  double bucket_length = .5;    // bucketed_search: loads that share a bucket lie at most this far apart
  std::vector<LoadLine> lines;  // parallelism_router: one for each strategy
};

struct OnlineChoice {
  StepSize step;
  std::size_t strategy = 0;
};

class OnlinePlanner {
 public:
  virtual ~OnlinePlanner() = default;
  virtual std::string_view name() const = 0;
  const std::vector<std::string>& strategies() const { return settings_.strategies; }

  // Index of the strategy for the next step. Throws InputError for a size that is not above 0 and finite.
  std::size_t choose(const StepSize& step);
  // Reports how long a step took: the step that was last chosen for, or any step. Throws InputError for a time that is
  // not above 0 and finite; the first one also if nothing was chosen since the last report.
  void report(Seconds time);
  void report(const StepSize& step, std::size_t strategy, Seconds time);
  // The last choice while nothing was reported of it. Part of the state.
  const std::optional<OnlineChoice>& pending() const { return pending_; }

  // All that was learned, as JSON (data/schemas/online_state.schema.json). restore() takes it back and keeps what it
  // had where it throws: InputError at the place of what is wrong, or saying that other strategies, another context or
  // another planner made it.
  std::string state() const;
  void restore(const JsonFile& file);
  // A file is replaced all or nothing and is on the disk when save() returns. load(): false where there is none yet.
  // One process at a time.
  void save(const std::filesystem::path& file) const;
  bool load(const std::filesystem::path& file);

 protected:
  explicit OnlinePlanner(OnlineSettings settings);
  const OnlineSettings& settings() const { return settings_; }

 private:
  virtual std::size_t pick(double load) = 0;
  virtual void learn(double load, std::size_t strategy, Seconds time) = 0;
  // Writes what was learned under keys of the planner's own; reads it from there, in place of what the planner has.
  virtual void write(nlohmann::ordered_json& state) const = 0;
  virtual void read(const JsonReader& state) = 0;

  OnlineSettings settings_;
  std::optional<OnlineChoice> pending_;
};

// bucketed_search, tutel_search, joint_search, granularity_search, mpipemoe_search or parallelism_router. Throws
// InputError naming the known ones, or for settings that it cannot work with.
std::unique_ptr<OnlinePlanner> make_online(std::string_view name, OnlineSettings settings);
std::vector<std::string> online_names();

}  // namespace dovetail::planners
