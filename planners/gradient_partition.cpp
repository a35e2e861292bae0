// Dynamic programming over windows. A state is how many elements were sent so far, and the time spent.
//
// Every element costs beta somewhere: in the tail, in a window past what that hides, or nothing where a window hides
// it. So an optimal slice ends where some option of its window stops hiding, or with the last gradient there is, or is
// empty: sending less hides less, and what is past that point costs no more in the tail. For the same reason a state
// is beaten by one that sent no less in no more time, and by one that sent less and saved the tail's time for the rest.
#include "planners/gradient_partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/errors.hpp"

namespace dovetail::planners {
namespace {

class Partitioner {
 public:
  explicit Partitioner(const GradientProblem& problem)
      : p_(problem), alpha_(problem.alpha.value()), beta_(problem.per_element.value()) {}

  GradientPartition solve() {
    states_.push_back({});
    std::size_t first = 0;  // of the states before the window
    for (const GradientWindow& window : p_.windows) {
      const std::size_t last = states_.size();
      expand(window, first, last);
      first = last;
    }
    return trace_back(best_end(first));
  }

 private:
  struct State {
    std::int64_t sent = 0;
    double time = 0;
    std::int32_t parent = -1;
  };

  double all_reduce(std::int64_t elements) const {
    return elements > 0 ? alpha_ + beta_ * static_cast<double>(elements) : 0;
  }

  const WindowOption& best_option(const GradientWindow& window, double reduce) const {
    const auto time = [reduce](const WindowOption& o) { return std::max(o.alone.value(), o.link.value() + reduce); };
    return *std::ranges::min_element(window.options, {}, time);
  }

  double window_time(const GradientWindow& window, double reduce) const {
    double time = std::numeric_limits<double>::infinity();
    for (const WindowOption& o : window.options)
      time = std::min(time, std::max(o.alone.value(), o.link.value() + reduce));
    return time;
  }

  // How many elements each option hides, of those that no other option beats; 0 among them.
  void find_sizes(const GradientWindow& window) {
    sizes_.assign(1, 0);
    if (beta_ <= 0) return;
    for (const WindowOption& o : window.options) {
      const double hidden = std::floor((o.alone - o.link - p_.alpha).value() / beta_);
      if (hidden < 1) continue;
      const double reduce = o.alone.value() - o.link.value();
      if (window_time(window, reduce) < o.alone.value()) continue;  // another option carries as much in less
      sizes_.push_back(hidden < static_cast<double>(p_.elements) ? static_cast<std::int64_t>(hidden) : p_.elements);
    }
  }

  void expand(const GradientWindow& window, std::size_t first, std::size_t last) {
    find_sizes(window);
    next_.clear();
    for (std::size_t s = first; s < last; ++s) {
      const State from = states_[s];
      const std::int64_t available = window.ready - from.sent;
      for (std::int64_t size : sizes_) {
        const std::int64_t taken = std::min(size, available);
        if (size > 0 && taken == 0) continue;
        next_.push_back(
            {from.sent + taken, from.time + window_time(window, all_reduce(taken)), static_cast<std::int32_t>(s)});
      }
    }
    keep_unbeaten();
    states_.insert(states_.end(), next_.begin(), next_.end());
  }

  void keep_unbeaten() {
    std::ranges::sort(
        next_, [](const State& a, const State& b) { return a.sent != b.sent ? a.sent < b.sent : a.time > b.time; });
    double least = std::numeric_limits<double>::infinity();
    const auto slower = [&](const State& s) {  // from the most sent to the least
      if (s.time >= least) return true;
      least = s.time;
      return false;
    };
    const auto kept = std::remove_if(next_.rbegin(), next_.rend(), slower);
    next_.erase(next_.begin(), kept.base());
    least = std::numeric_limits<double>::infinity();
    std::erase_if(next_, [&](const State& s) {  // from the least sent to the most
      const double unsaved = s.time - beta_ * static_cast<double>(s.sent);
      if (unsaved >= least) return true;
      least = unsaved;
      return false;
    });
  }

  double total(const State& s) const {
    const double tail = all_reduce(p_.elements - s.sent) + p_.after_tail.value();
    return p_.fixed.value() + s.time + std::max(p_.beside_tail.value(), tail);
  }

  std::size_t best_end(std::size_t first) const {
    std::size_t best = first;
    for (std::size_t s = first + 1; s < states_.size(); ++s)
      if (total(states_[s]) < total(states_[best])) best = s;
    return best;
  }

  GradientPartition trace_back(std::size_t end) const {
    GradientPartition result;
    result.time = Seconds(total(states_[end]));
    if (const std::int64_t rest = p_.elements - states_[end].sent; rest > 0)
      result.slices.push_back({Window::Tail, 0, rest});
    std::size_t s = end;
    for (auto window = p_.windows.rbegin(); window != p_.windows.rend(); ++window) {
      const State& before = states_[static_cast<std::size_t>(states_[s].parent)];
      const std::int64_t taken = states_[s].sent - before.sent;
      if (taken > 0) result.slices.push_back({window->window, window->layer, taken});
      if (window->window == Window::Moe)  // the last layer's window runs first: layer 0 is traced first
        result.degrees.push_back(best_option(*window, all_reduce(taken)).degree);
      s = static_cast<std::size_t>(states_[s].parent);
    }
    std::ranges::reverse(result.slices);
    return result;
  }

  const GradientProblem& p_;
  const double alpha_, beta_;
  std::vector<State> states_;  // of all windows, one after another
  std::vector<State> next_;
  std::vector<std::int64_t> sizes_;
};

std::vector<WindowOption> moe_options(const LayerTimes& times, CommStreams streams, std::span<const int> degrees) {
  std::vector<WindowOption> options;
  for (int degree : degrees)
    options.push_back({degree, chunked_makespan(times.backward.moe, streams, times.capacity, degree),
                       link_time(times.backward.moe, streams, degree)});
  return options;
}

}  // namespace

GradientPartition partition_gradients(const GradientProblem& problem) {
  return Partitioner(problem).solve();
}

GradientProblem gradient_problem(const LayerTimes& times, CommStreams streams, std::span<const int> degrees) {
  const PhaseTimes& b = times.backward;
  GradientProblem problem;
  problem.elements = times.layers * times.dense_elements;
  problem.alpha = times.all_reduce_alpha;
  problem.per_element = times.all_reduce_per_element;
  // All-reduces that share a stream with the model-parallel collectives run between the two, beside attention
  // alone; else they run from the experts' last all-to-all to the first one of the layer below.
  const bool shared = streams != CommStreams::InterIntra && b.mp_before + b.mp_after > Seconds(0);
  const Seconds before = b.encode + b.gate + b.mp_before;  // attention
  const std::vector<WindowOption> experts = moe_options(times, streams, degrees);
  problem.fixed = b.decode;
  for (int layer = times.layers - 1; layer >= 0; --layer) {
    const std::int64_t ready = (times.layers - 1 - layer) * times.dense_elements;
    problem.windows.push_back({Window::Moe, layer, ready, experts});
    const Seconds below = layer > 0 ? b.mp_after + b.decode : Seconds(0);  // up to the layer below's first all-to-all
    WindowOption dense{1, b.attention, Seconds(0)};
    if (shared) {
      problem.fixed += before + below;
    } else {
      dense.alone += before + below;
      if (layer == 0) dense.link = times.expert_all_reduce;  // they precede the tail
    }
    problem.windows.push_back({Window::Dense, layer, ready, {dense}});
  }
  const bool synchronises = std::max({problem.alpha, problem.per_element, times.expert_all_reduce}) > Seconds(0);
  if (shared && synchronises)
    problem.fixed += b.mp_after + times.expert_all_reduce;
  else
    problem.beside_tail = b.mp_after;
  problem.after_tail = times.update;
  return problem;
}

Plan with_partition(Plan plan, const GradientPartition& partition) {
  check(!partition.degrees.empty(), "a partition has layers");
  plan.grad_sync = GradSync::Partitioned;
  plan.gradient_slices = partition.slices;
  plan.backward_degree = partition.degrees.front();
  plan.backward_degrees = partition.degrees;
  if (std::ranges::count(partition.degrees, plan.backward_degree) == std::ssize(partition.degrees))
    plan.backward_degrees.clear();
  return plan;
}

Plan with_slices_of(Plan plan, GradSync other, const LayerTimes& times) {
  plan.grad_sync = other;
  plan.gradient_slices.clear();
  plan.gradient_slices = gradient_slices(plan, times.layers, times.dense_elements);
  plan.grad_sync = GradSync::Partitioned;
  return plan;
}

}  // namespace dovetail::planners
