// SPDX-License-Identifier: Apache-2.0
#include "models/question/drawn_choices.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>

#include "models/base/errors.hpp"
#include "models/base/last_ones.hpp"
#include "models/question/expert_loads.hpp"

namespace dovetail {
namespace {

constexpr std::size_t swaps_of_a_choice = 8;  // that are tried

using Choices = std::vector<std::int32_t>;

// The experts one after the other, each as often as its load, dealt out to the tokens in turn: since no load exceeds
// the tokens, no token gets an expert twice.
Choices dealt(const std::vector<std::int64_t>& loads, std::size_t top_k) {
  const auto all = static_cast<std::size_t>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const std::size_t tokens = all / top_k;
  check(tokens > 0, "a draw for no token");
  Choices choices(all);
  std::size_t token = 0, choice = 0;
  for (std::size_t expert = 0; expert < loads.size(); ++expert)
    for (std::int64_t i = 0; i < loads[expert]; ++i) {
      choices[token * top_k + choice] = static_cast<std::int32_t>(expert);
      if (++token < tokens) continue;
      token = 0;
      ++choice;
    }
  return choices;
}

// Pairs of choices change places, unless a token would choose an expert twice, until every way to deal the experts out
// is about as likely. With groups of experts no token comes to choose from more of them than it may, and tokens that do
// at first choose from fewer and fewer.
class Mixer {
 public:
  Mixer(Choices& choices, std::size_t top_k, const Model& model, std::mt19937_64& random)
      : choices_(choices),
        top_k_(top_k),
        random_(random),
        limited_(model.router.top_groups < model.router.groups),
        most_(model.router.top_groups),
        seen_(static_cast<std::size_t>(model.router.groups)) {
    const int size = std::max(1, model.experts / model.router.groups);
    for (int expert = 0; expert < model.experts; ++expert)
      group_of_.push_back(static_cast<std::size_t>(std::min(expert / size, model.router.groups - 1)));
  }

  void run() {
    constexpr int rounds = 8;  // by which groups are few enough unless loads leave no way
    sweep();
    for (int round = 1; limited_ && round < rounds && excess() > 0; ++round) sweep();
    for (std::size_t first = 0; first < choices_.size(); first += top_k_) {
      const std::span<std::int32_t> token = of(first / top_k_);
      std::shuffle(token.begin(), token.end(), random_);
    }
  }

 private:
  std::span<std::int32_t> of(std::size_t token) const { return std::span(choices_).subspan(token * top_k_, top_k_); }
  std::size_t any() { return static_cast<std::size_t>((random_() >> 32U) * choices_.size() >> 32U); }

  void sweep() {
    for (std::size_t i = 0; i < swaps_of_a_choice * choices_.size() / 2; ++i) {
      const std::size_t a = any(), b = any(), token_a = a / top_k_, token_b = b / top_k_;
      if (token_a == token_b || chooses(token_a, choices_[b]) || chooses(token_b, choices_[a])) continue;
      const int before = limited_ ? excess(token_a) + excess(token_b) : 0;
      std::swap(choices_[a], choices_[b]);
      if (limited_ && excess(token_a) + excess(token_b) > before) std::swap(choices_[a], choices_[b]);
    }
  }

  bool chooses(std::size_t token, std::int32_t expert) const { return std::ranges::count(of(token), expert) > 0; }

  // Groups that a token chooses from beyond those that it may.
  int excess(std::size_t token) {
    ++look_;
    int groups = 0;
    for (const std::int32_t expert : of(token))
      if (std::uint64_t& last = seen_[group_of_[static_cast<std::size_t>(expert)]]; last != look_) {
        last = look_;
        ++groups;
      }
    return std::max(0, groups - most_);
  }
  int excess() {
    int sum = 0;
    for (std::size_t token = 0; token < choices_.size() / top_k_; ++token) sum += excess(token);
    return sum;
  }

  Choices& choices_;
  std::size_t top_k_;
  std::mt19937_64& random_;
  bool limited_;
  int most_;                           // groups that a token may choose from
  std::vector<std::size_t> group_of_;  // an expert
  std::vector<std::uint64_t> seen_;    // the last look at a token that found the group
  std::uint64_t look_ = 0;
};

// All that decides a draw.
struct Draw {
  std::vector<std::int64_t> loads;
  std::size_t top_k = 0;
  Router router;
  std::array<int, 3> seed{};
  friend bool operator==(const Draw&, const Draw&) = default;
};

}  // namespace

std::shared_ptr<const Choices> drawn_choices(const Experiment& e, int layer, int rank) {
  const RoutingModel& model = e.workload.routing;
  const bool recorded = model.kind == RoutingKind::Trace;
  Draw draw{.loads = expert_loads(e, layer, rank),
            .top_k = static_cast<std::size_t>(e.workload.top_k),
            .router = e.model.router,
            .seed = {model.seed, recorded ? layer : 0, recorded ? rank / e.parallelism.token_repeats() : 0}};
  thread_local LastOnes<Draw, std::shared_ptr<const Choices>> draws;
  return draws.find_or(std::move(draw), [&e](const Draw& fresh) {
    std::seed_seq seed(fresh.seed.begin(), fresh.seed.end());
    std::mt19937_64 random(seed);
    Choices choices = dealt(fresh.loads, fresh.top_k);
    Mixer(choices, fresh.top_k, e.model, random).run();
    return std::make_shared<const Choices>(std::move(choices));
  });
}

Choices slots_of(const Choices& choices, int top_k, std::int64_t experts, std::int64_t capacity) {
  Choices slots(choices.size());
  std::vector<std::int32_t> taken(static_cast<std::size_t>(experts));
  const auto k = static_cast<std::size_t>(top_k);
  for (std::size_t j = 0; j < k; ++j)
    for (std::size_t i = j; i < choices.size(); i += k) {
      std::int32_t& next = taken[static_cast<std::size_t>(choices[i])];
      slots[i] = next < capacity ? next++ : -1;
    }
  return slots;
}

double groups_of_a_token(std::int64_t groups, std::int64_t experts, std::int64_t top_k) {
  const std::int64_t elsewhere = experts - experts / groups;
  double none = 1;  // of a group's experts is chosen
  for (std::int64_t i = 0; i < top_k; ++i)
    none *= static_cast<double>(elsewhere - i) / static_cast<double>(experts - i);
  return static_cast<double>(groups) * (1 - std::max(none, 0.0));
}

}  // namespace dovetail
