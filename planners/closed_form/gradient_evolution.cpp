// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/gradient_evolution.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace dovetail::planners {
namespace {

using Genes = std::vector<double>;  // by MoE window: its share of what step 1 leaves

struct Member {
  Genes genes;
  double time;
};

class Evolver {
 public:
  Evolver(const GradientProblem& problem, const Evolution& settings)
      : p_(problem), settings_(settings), random_(settings.seed), hidden_(hidden_sizes()) {
    left_ = p_.elements;
    for (std::int64_t size : hidden_) left_ -= size;
  }

  GradientPartition solve() {
    const auto moe_windows = static_cast<std::size_t>(
        std::ranges::count(p_.windows, Window::Moe, [](const GradientWindow& w) { return w.window; }));
    if (left_ == 0 || moe_windows == 0) return with_sizes(p_, hidden_);
    found(moe_windows);
    for (int g = 0; g < settings_.generations && !alike(); ++g) next_generation();
    return with_sizes(p_, sizes_of(members_[best_].genes));
  }

 private:
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  std::size_t any(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

  // Step 1: what a window hides at the degree that is fastest without all-reduces.
  std::vector<std::int64_t> hidden_sizes() const {
    std::vector<std::int64_t> sizes;
    std::int64_t sent = 0;
    for (const GradientWindow& w : p_.windows) {
      const WindowOption& fastest =
          *std::ranges::min_element(w.options, {}, [](const WindowOption& o) { return std::max(o.alone, o.link); });
      const double time = (fastest.alone - fastest.link - p_.alpha).value(), beta = p_.per_element.value();
      const auto available = static_cast<double>(w.ready - sent);
      const double hides = time <= 0 ? 0 : beta > 0 ? std::min(std::floor(time / beta), available) : available;
      sizes.push_back(static_cast<std::int64_t>(hides));
      sent += sizes.back();
    }
    return sizes;
  }

  // Shares of what is left come on top, as far as gradients exist by then.
  std::vector<std::int64_t> sizes_of(const Genes& genes) const {
    std::vector<std::int64_t> sizes;
    std::int64_t sent = 0;
    auto gene = genes.begin();
    for (std::size_t w = 0; w < p_.windows.size(); ++w) {
      std::int64_t size = hidden_[w];
      if (p_.windows[w].window == Window::Moe) size += static_cast<std::int64_t>(*gene++ * static_cast<double>(left_));
      sizes.push_back(std::min(size, p_.windows[w].ready - sent));
      sent += sizes.back();
    }
    return sizes;
  }

  double time_of(const Genes& genes) const { return with_sizes(p_, sizes_of(genes)).time.value(); }

  void found(std::size_t genes) {
    members_.resize(std::max<std::size_t>(4, genes * static_cast<std::size_t>(settings_.members_per_layer)));
    for (Member& m : members_) {
      m.genes.resize(genes);
      // Shares that add up to at most about 1; the first member leaves all to the tail.
      if (&m != &members_.front())
        for (double& gene : m.genes) gene = std::min(1.0, 2 * uniform(0, 1) / static_cast<double>(genes));
      m.time = time_of(m.genes);
      if (m.time < members_[best_].time) best_ = static_cast<std::size_t>(&m - members_.data());
    }
  }

  bool alike() const {
    const auto [low, high] = std::ranges::minmax(members_, {}, &Member::time);
    return high.time - low.time <= 1e-4 * low.time;
  }

  void next_generation() {
    constexpr double crossover = .7;
    const double weight = uniform(.5, 1);
    const std::size_t genes = members_.front().genes.size();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const Genes &a = members_[any(members_.size())].genes, &b = members_[any(members_.size())].genes;
      Member trial = members_[m];
      const std::size_t sure = any(genes);
      for (std::size_t g = 0; g < genes; ++g)
        if (g == sure || uniform(0, 1) < crossover)
          trial.genes[g] = std::clamp(members_[best_].genes[g] + weight * (a[g] - b[g]), 0.0, 1.0);
      trial.time = time_of(trial.genes);
      if (trial.time > members_[m].time) continue;
      members_[m] = std::move(trial);
      if (members_[m].time < members_[best_].time) best_ = m;
    }
  }

  const GradientProblem& p_;
  const Evolution& settings_;
  std::mt19937 random_;
  std::vector<std::int64_t> hidden_;  // by window
  std::int64_t left_ = 0;
  std::vector<Member> members_;
  std::size_t best_ = 0;
};

}  // namespace

GradientPartition evolve_partition(const GradientProblem& problem, const Evolution& settings) {
  return Evolver(problem, settings).solve();
}

GradientPartition evolve_partition(const GradientProblem& problem) {
  return evolve_partition(problem, {});
}

}  // namespace dovetail::planners
