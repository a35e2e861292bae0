// SPDX-License-Identifier: Apache-2.0
// Dynamic programming over windows. A state is how many elements were sent so far, and the time spent.
//
// Every element costs beta somewhere: in the tail, in a window past what that hides, or nothing where a window hides
// it. So an optimal slice ends where some option of its window stops hiding, or with the last gradient there is, or is
// empty: sending less hides less, and what is past that point costs no more in the tail. For the same reason a state
// is beaten by one that sent no less in no more time, and by one that sent less and saved the tail's time for the rest.
#include "planners/closed_form/gradient_partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/base/errors.hpp"

namespace dovetail::planners {
namespace {

double all_reduce(const GradientProblem& p, std::int64_t elements) {
  return elements > 0 ? p.alpha.value() + p.per_element.value() * static_cast<double>(elements) : 0;
}

double with_all_reduce(const WindowOption& option, double reduce) {
  return std::max(option.alone.value(), option.link.value() + reduce);
}

const WindowOption& best_option(const std::vector<WindowOption>& options, double reduce) {
  return *std::ranges::min_element(options, {}, [reduce](const WindowOption& o) { return with_all_reduce(o, reduce); });
}

double tail_time(const GradientProblem& p, std::int64_t elements) {
  return std::max(p.beside_tail.value(), all_reduce(p, elements) + p.after_tail.value());
}

class Partitioner {
 public:
  explicit Partitioner(const GradientProblem& problem) : p_(problem), beta_(problem.per_element.value()) {}

  std::vector<std::int64_t> solve() {
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
  struct Size {
    std::int64_t elements;
    double time;  // of the window with an all-reduce of them
  };

  double window_time(std::int64_t elements) const {
    const double reduce = all_reduce(p_, elements);
    return with_all_reduce(best_option(options_, reduce), reduce);
  }

  // The window's options of which none is both longer alone and longer on the link than another.
  void find_options(const GradientWindow& window) {
    options_.clear();
    for (const WindowOption& o : window.options) {
      const auto beaten = [&](const WindowOption& by, bool if_equal) {
        return by.alone <= o.alone && by.link <= o.link && (if_equal || by.alone < o.alone || by.link < o.link);
      };
      if (std::ranges::any_of(options_, [&](const WindowOption& by) { return beaten(by, true); })) continue;
      if (std::ranges::any_of(window.options, [&](const WindowOption& by) { return beaten(by, false); })) continue;
      options_.push_back(o);
    }
  }

  // The sizes to try: nothing, and as many elements as each option hides.
  void find_sizes() {
    sizes_.assign(1, {0, window_time(0)});
    if (beta_ <= 0) return;
    for (const WindowOption& o : options_) {
      const double hidden = std::floor((o.alone - o.link - p_.alpha).value() / beta_);
      if (hidden < 1) continue;
      const std::int64_t elements =
          hidden < static_cast<double>(p_.elements) ? static_cast<std::int64_t>(hidden) : p_.elements;
      sizes_.push_back({elements, window_time(elements)});
    }
  }

  void expand(const GradientWindow& window, std::size_t first, std::size_t last) {
    find_options(window);
    find_sizes();
    next_.clear();
    runs_.assign(1, 0);
    for (const Size& size : sizes_) {  // each size makes a run of states that ascend as those before do
      for (std::size_t s = first; s < last; ++s) {
        const State& from = states_[s];
        const std::int64_t available = window.ready - from.sent;
        if (size.elements > 0 && available == 0) break;
        const bool fits = size.elements <= available;
        const double time = fits ? size.time : window_time(available);
        next_.push_back(
            {from.sent + std::min(size.elements, available), from.time + time, static_cast<std::int32_t>(s)});
      }
      if (next_.size() > runs_.back()) runs_.push_back(next_.size());
    }
    merge_runs();
    keep_unbeaten();
    states_.insert(states_.end(), next_.begin(), next_.end());
  }

  void merge_runs() {
    const auto at = [](std::vector<State>& states, std::size_t i) { return states.begin() + std::ptrdiff_t(i); };
    while (runs_.size() > 2) {
      merged_.resize(next_.size());
      std::size_t kept = 1;
      for (std::size_t r = 0; r + 1 < runs_.size(); r += 2) {
        const std::size_t end = r + 2 < runs_.size() ? runs_[r + 2] : runs_[r + 1];
        std::ranges::merge(at(next_, runs_[r]), at(next_, runs_[r + 1]), at(next_, runs_[r + 1]), at(next_, end),
                           at(merged_, runs_[r]), {}, &State::sent, &State::sent);
        runs_[kept++] = end;
      }
      runs_.resize(kept);
      next_.swap(merged_);
    }
  }

  // Only the fastest of the states that sent equally much counts; then see the head of this file.
  void keep_unbeaten() {
    std::size_t kept = 0;
    for (const State& s : next_) {
      if (kept == 0 || next_[kept - 1].sent < s.sent)
        next_[kept++] = s;
      else if (s.time < next_[kept - 1].time)
        next_[kept - 1] = s;
    }
    double fastest = std::numeric_limits<double>::infinity();
    std::size_t first = kept;
    for (std::size_t i = kept; i-- > 0;)  // from the most sent to the least
      if (next_[i].time < fastest) {
        fastest = next_[i].time;
        next_[--first] = next_[i];
      }
    double unsaved = std::numeric_limits<double>::infinity();
    std::size_t end = 0;
    for (std::size_t i = first; i < kept; ++i)  // from the least sent to the most
      if (const double u = next_[i].time - beta_ * static_cast<double>(next_[i].sent); u < unsaved) {
        unsaved = u;
        next_[end++] = next_[i];
      }
    next_.resize(end);
  }

  double total(const State& s) const { return s.time + tail_time(p_, p_.elements - s.sent); }

  std::size_t best_end(std::size_t first) const {
    std::size_t best = first;
    for (std::size_t s = first + 1; s < states_.size(); ++s)
      if (total(states_[s]) < total(states_[best])) best = s;
    return best;
  }

  std::vector<std::int64_t> trace_back(std::size_t end) const {
    std::vector<std::int64_t> sizes(p_.windows.size());
    std::size_t s = end;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      const auto before = static_cast<std::size_t>(states_[s].parent);
      *size = states_[s].sent - states_[before].sent;
      s = before;
    }
    return sizes;
  }

  const GradientProblem& p_;
  const double beta_;
  std::vector<State> states_;  // of all windows, one after another
  std::vector<WindowOption> options_;
  std::vector<Size> sizes_;
  std::vector<State> next_, merged_;
  std::vector<std::size_t> runs_;  // where those of next_ begin, and its end
};

std::vector<WindowOption> moe_options(const LayerTimes& times, CommStreams streams, std::span<const int> degrees) {
  std::vector<WindowOption> options;
  for (int degree : degrees)
    options.push_back({degree, chunked_makespan(times.backward.moe, streams, times.capacity, degree),
                       link_time(times.backward.moe, streams, degree)});
  return options;
}

}  // namespace

GradientPartition with_sizes(const GradientProblem& p, std::span<const std::int64_t> elements) {
  check(elements.size() == p.windows.size(), "a size for each window");
  GradientPartition result;
  double time = p.fixed.value();
  std::int64_t left = p.elements;
  for (std::size_t w = 0; w < elements.size(); ++w) {
    const GradientWindow& window = p.windows[w];
    const double reduce = all_reduce(p, elements[w]);
    const WindowOption& option = best_option(window.options, reduce);
    time += with_all_reduce(option, reduce);
    left -= elements[w];
    if (elements[w] > 0) result.slices.push_back({window.window, window.layer, elements[w]});
    if (window.window == Window::Moe) result.degrees.push_back(option.degree);
  }
  std::ranges::reverse(result.degrees);  // the last layer's window runs first
  if (left > 0) result.slices.push_back({Window::Tail, 0, left});
  result.time = Seconds(time + tail_time(p, left));
  return result;
}

GradientPartition partition_gradients(const GradientProblem& problem) {
  return with_sizes(problem, Partitioner(problem).solve());
}

GradientProblem gradient_problem(const LayerTimes& times, CommStreams streams, std::span<const int> degrees) {
  const PhaseTimes& b = times.backward;
  GradientProblem problem;
  problem.elements = times.elements_after(-1);
  problem.alpha = times.all_reduce_alpha;
  problem.per_element = times.all_reduce_per_element;
  // All-reduces that share a stream with the model-parallel collectives run between the two, beside attention
  // alone; else they run from the experts' last all-to-all to the first one of the layer below.
  const bool apart =
      streams == CommStreams::InterIntra || streams == CommStreams::MpApart || streams == CommStreams::ByGroup;
  const bool shared = !apart && b.mp_before + b.mp_after > Seconds(0);
  // From a layer's start to its window Moe, and from the end of that to attention.
  const auto first = [&](int layer) {
    return times.is_moe(layer) ? b.shared.before + b.shared.ffn + b.shared.after + b.decode
                               : times.dense_backward.before;
  };
  const auto last = [&](int layer) {
    return (times.is_moe(layer) ? b.encode + b.gate : times.dense_backward.after) + b.mp_before;
  };
  const std::vector<WindowOption> experts = moe_options(times, streams, degrees);
  const std::vector<WindowOption> dense_ffn{{0, times.dense_backward.ffn, Seconds(0)}};
  problem.fixed = first(times.layers() - 1);
  for (int layer = times.layers() - 1; layer >= 0; --layer) {
    const std::int64_t ready = times.elements_after(layer);
    problem.windows.push_back({Window::Moe, layer, ready, times.is_moe(layer) ? experts : dense_ffn});
    const Seconds before = last(layer);                                            // attention
    const Seconds below = layer > 0 ? b.mp_after + first(layer - 1) : Seconds(0);  // up to the next window Moe
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

GradientPartition partition_gradients(const LayerTimes& times, CommStreams streams, std::span<const int> degrees,
                                      PartitionMethod method) {
  GradientPartition all;
  all.degrees.resize(times.moe.size());
  for (int stage = times.layout.stages() - 1; stage >= 0; --stage) {
    const std::span<const int> layers = times.layout.layers_of(stage);
    GradientPartition part = method(gradient_problem(times.of_layers(layers), streams, degrees));
    const auto layer_of = [&](int place) { return layers[static_cast<std::size_t>(place)]; };
    for (GradientSlice& slice : part.slices) slice.layer = layer_of(slice.layer);
    all.slices.insert(all.slices.end(), part.slices.begin(), part.slices.end());
    for (std::size_t i = 0; i < layers.size(); ++i) all.degrees[static_cast<std::size_t>(layers[i])] = part.degrees[i];
    all.time = std::max(all.time, part.time);
  }
  return all;
}

Plan with_partition(Plan plan, const GradientPartition& partition) {
  const auto chosen = std::ranges::find_if(partition.degrees, [](int degree) { return degree > 0; });
  plan.grad_sync = GradSync::Partitioned;
  plan.gradient_slices = partition.slices;
  plan.backward_degree = chosen == partition.degrees.end() ? 1 : *chosen;  // a dense model's
  plan.backward_degrees = partition.degrees;
  std::ranges::replace(plan.backward_degrees, 0, plan.backward_degree);
  if (std::ranges::count(plan.backward_degrees, plan.backward_degree) == std::ssize(plan.backward_degrees))
    plan.backward_degrees.clear();
  return plan;
}

Plan with_slices_of(Plan plan, GradSync other, const LayerTimes& times) {
  plan.grad_sync = other;
  plan.gradient_slices.clear();
  plan.gradient_slices = gradient_slices(plan, times.dense_elements, Bytes(1), times.layout);
  plan.grad_sync = GradSync::Partitioned;
  return plan;
}

}  // namespace dovetail::planners
