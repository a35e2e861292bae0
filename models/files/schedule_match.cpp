// SPDX-License-Identifier: Apache-2.0
#include "models/files/schedule_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/json/json_text.hpp"
#include "models/price/fill_gaps.hpp"
#include "models/price/list_scheduler.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/one_connection.hpp"
#include "models/schedule/step_builder.hpp"

namespace dovetail {
namespace {

class Match {
 public:
  Match(const ScheduleFile& file, const JsonFile& input)
      : file_(file), input_(input), s_(*file.priced.schedule), e_(file.experiment) {}

  void require() {
    require_same(as_in_file(step()));
    require_agreeing_prices();
  }

 private:
  [[noreturn]] void fail(const std::string& pointer, const std::string& message) const {
    throw InputError(input_.locate(pointer), message);
  }

  // Errors of rules name a value of the question or the plan, which have the same places in the file.
  Schedule step() const try {
    validate(e_);
    require_no_more_ops();
    return build_step(e_, file_.plan);
  } catch (const InputError& error) {
    if (!error.where().file.empty()) throw;
    fail(error.where().pointer, error.message());
  }

  // A plan of more ops than the file holds is refused before anything is made for each of them.
  void require_no_more_ops() const {
    const Plan& p = file_.plan;
    double ops = e_.workload.all_layers();
    for (int layer = 0; layer < e_.workload.all_layers(); ++layer)
      if (e_.model.is_moe(layer)) ops += p.forward_degree + backward_degree(layer);
    ops *= p.micro_batches;
    if (e_.parallelism.dp > 1)
      ops += slices();
    else if (constexpr double most = 1e6; slices() > most)
      fail("/plan/gradient_chunk_bytes", fmt::format("makes {:.0f} slices, expected at most {:.0f}", slices(), most));
    const auto held = static_cast<double>(s_.ops.size());
    if (ops > held) fail("/plan", fmt::format("makes at least {:.0f} ops, but the file has {:.0f}", ops, held));
  }

  bool fills() const { return file_.plan.delay_weight_gradient == DelayedWeights::Fill; }
  bool training() const { return e_.workload.phases == Phases::Training; }

  // Its list may still be too short here.
  double backward_degree(int layer) const {
    const std::vector<int>& degrees = file_.plan.backward_degrees;
    if (!training()) return 0;
    return static_cast<std::size_t>(layer) < degrees.size() ? degrees[static_cast<std::size_t>(layer)]
                                                            : file_.plan.backward_degree;
  }

  // At least so many, where the plan cuts the dense gradients into chunks.
  double slices() const {
    if (file_.plan.grad_sync != GradSync::FixedChunks || !training()) return 0;
    double elements = 0;
    for (const std::int64_t of_layer : dense_elements(e_, StageLayout(e_.workload)))
      elements += static_cast<double>(of_layer);
    return elements * size_of(e_.workload.gradient_dtype()).value() /
           static_cast<double>(file_.plan.gradient_chunk_bytes);
  }

  Schedule as_in_file(Schedule step) const {
    require_count("ops", s_.ops.size(), step.ops.size());
    require_count("tensors", s_.tensors.size(), step.tensors.size());
    if (fills()) free_gradients_of_weights(step);
    if (file_.plan.is_ordered_by_costs()) step = reordered(step, order_in_file(step));
    if (file_.plan.one_connection) take_from_one_queue(step);
    return step;
  }

  void require_count(std::string_view list, std::size_t found, std::size_t built) const {
    if (found != built)
      fail(fmt::format("/{}", list), differ(fmt::format("{} {}", found, list), std::to_string(built)));
  }

  // The op of the step for each op of the file: by its name, and by its rows if several have one name.
  std::vector<OpId> order_in_file(const Schedule& step) const {
    std::map<std::string, std::vector<OpId>> waiting;
    for (const OpId id : step.ops.ids() | std::views::reverse)
      waiting[to_string(step.ops[id])].push_back(id);  // the first one last
    std::vector<OpId> order;
    for (const OpId i : s_.ops.ids()) {
      const Op& op = s_.ops[i];
      std::vector<OpId>& alike = waiting[to_string(op)];
      if (alike.empty())
        fail(fmt::format("/ops/{}", i), fmt::format("{}: the plan has no such op left", to_string(op)));
      auto found = std::find_if(alike.rbegin(), alike.rend(), [&](OpId id) { return same_place(step, id, op); });
      if (found == alike.rend()) found = alike.rbegin();
      order.push_back(*found);
      alike.erase(std::next(found).base());
    }
    require_order(step, order);
    return order;
  }

  bool same_place(const Schedule& step, OpId id, const Op& op) const {
    const Op& other = step.ops[id];
    return op.rows == other.rows && op.gradients == other.gradients &&
           std::ranges::equal(s_.reads_of(op), step.reads_of(other));
  }

  void require_order(const Schedule& step, const std::vector<OpId>& order) const {
    IdVector<OpId, bool> placed(order.size());
    IdVector<StreamId, OpId> last(step.streams.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Op& op = step.ops[order[i]];
      const auto early = [&](OpId before) {
        fail(fmt::format("/ops/{}", i),
             fmt::format("{} stands before {}, which it follows", to_string(op), to_string(step.ops[before])));
      };
      for (OpId before : step.dependencies_of(op))
        if (!placed[before]) early(before);
      placed[order[i]] = true;
      const StreamId stream = op.stream;
      if (fills() ? op.half == Half::Weights : step.streams[stream].kind != StreamKind::Compute) continue;
      if (last[stream] > order[i]) early(last[stream]);
      last[stream] = order[i];
    }
  }

  void require_same(Schedule built) const {
    ScheduleFile expected = file_;
    expected.priced.schedule = std::make_shared<const Schedule>(std::move(built));
    const nlohmann::ordered_json json = to_json(expected);
    for (const char* part :
         {"groups", "micro_batches", "rank_classes", "streams", "collective_steps", "tensors", "kernels", "ops"})
      require_same(fmt::format("/{}", part), input_.root().at(part), json.at(part));
  }

  template <class Json>
  void require_same(const std::string& pointer, const nlohmann::json& found, const Json& built) const {
    if (built.is_structured() && found.type() != built.type()) fail(pointer, differ(found.dump(), built.dump()));
    if (built.is_array()) {
      if (found.size() != built.size()) fail(pointer, differ(found.dump(), built.dump()));
      for (std::size_t i = 0; i < built.size(); ++i) require_same(fmt::format("{}/{}", pointer, i), found[i], built[i]);
    } else if (built.is_object()) {
      for (const auto& [key, value] : built.items()) {
        if (!found.contains(key)) fail(pointer, fmt::format("missing key {}", in_quotes(key)));
        require_same(fmt::format("{}/{}", pointer, key), found.at(key), value);
      }
    } else if (!same_value(found, built)) {
      fail(pointer, differ(found.dump(), built.dump()));
    }
  }

  // Another machine may round the last bit of a product otherwise.
  template <class Json>
  static bool same_value(const nlohmann::json& found, const Json& built) {
    if (!built.is_number() || !found.is_number()) return found == nlohmann::json(built);
    const auto a = found.template get<double>(), b = built.template get<double>();
    return a == b || (built.is_number_float() && std::abs(a - b) <= 1e-12 * std::abs(b));
  }

  static std::string differ(std::string found, const std::string& built) {
    constexpr std::size_t most = 100;
    if (found.size() > most) found = found.substr(0, most) + " ...";
    return fmt::format("{}, but model, workload, parallelism and plan give {}", found,
                       built.size() > most ? built.substr(0, most) + " ..." : built);
  }

  // An op lasts its fixed time and then as long as the longest of what it demands; of several activities that hold one
  // another up, never longer than one after the other.
  void require_agreeing_prices() const {
    const PricedSchedule& p = file_.priced;
    for (const OpId i : s_.ops.ids()) {
      double longest = 0, all = 0;
      p.for_each_demand(i, [&](const Demand& demand) {
        longest = std::max(longest, demand.seconds.value());
        all += demand.seconds.value();
      });
      const double duration = p.duration[i].value(), least = p.fixed[i].value() + longest;
      const double most = p.first_activity.empty() ? least : p.fixed[i].value() + all;
      constexpr double rounding = 1e-9;
      if (duration < least * (1 - rounding) || duration > most * (1 + rounding))
        fail(fmt::format("/ops/{}/duration_s", i),
             fmt::format("{}, but its fixed time and its demands give {}", duration, least));
    }
  }

  const ScheduleFile& file_;
  const JsonFile& input_;
  const Schedule& s_;
  const Experiment& e_;
};

}  // namespace

void require_match(const ScheduleFile& file, const JsonFile& input) {
  Match(file, input).require();
}

}  // namespace dovetail
