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
// at first choose from fewer and fewer. Most of the time of a draw of many tokens goes here: a choice stands with its
// group in one number, so that one pass over a token's choices tells all.
class Mixer {
 public:
  Mixer(const Choices& choices, std::size_t top_k, const Model& model, std::mt19937_64& random)
      : top_k_(top_k),
        random_(random),
        limited_(model.router.top_groups < model.router.groups),
        most_(model.router.top_groups) {
    check(model.experts <= 1 << expert_bits, "experts are numbered by 16 bits");
    const int size = std::max(1, model.experts / model.router.groups);
    choices_.reserve(choices.size());
    for (const std::int32_t expert : choices)
      choices_.push_back(static_cast<Choice>(expert / size) << expert_bits | static_cast<Choice>(expert));
    if (limited_) count_groups(static_cast<std::size_t>(model.experts / size));
  }

  Choices mixed() {
    constexpr int rounds = 8;  // by which groups are few enough unless loads leave no way
    sweep();
    for (int round = 1; limited_ && round < rounds && excess_ > 0; ++round) sweep();
    constexpr Choice expert = (Choice{1} << expert_bits) - 1;
    Choices mixed;
    mixed.reserve(choices_.size());
    for (const Choice choice : choices_) mixed.push_back(static_cast<std::int32_t>(choice & expert));
    for (std::size_t first = 0; first < mixed.size(); first += top_k_) {
      const std::span<std::int32_t> token = std::span(mixed).subspan(first, top_k_);
      std::shuffle(token.begin(), token.end(), random_);
    }
    return mixed;
  }

 private:
  using Choice = std::uint32_t;  // the expert, and above it its group
  static constexpr int expert_bits = 16;

  std::size_t any() { return static_cast<std::size_t>((random_() >> 32U) * choices_.size() >> 32U); }
  static Choice group_of(Choice choice) { return choice >> expert_bits; }
  int excess(int groups) const { return std::max(0, groups - most_); }

  void count_groups(std::size_t groups) {
    const std::size_t tokens = choices_.size() / top_k_;
    std::vector<std::size_t> last(groups);  // token, from 1, that was seen to choose from the group
    groups_.resize(tokens);
    for (std::size_t i = 0; i < choices_.size(); ++i)
      if (std::size_t& seen = last[group_of(choices_[i])]; seen != i / top_k_ + 1) {
        seen = i / top_k_ + 1;
        ++groups_[i / top_k_];
      }
    for (const int of_token : groups_) excess_ += excess(of_token);
  }

  // Pairs are drawn some time before they are looked at, so that the memory has time to bring them.
  void sweep() {
    constexpr std::size_t ahead = 32;
    std::array<std::pair<std::size_t, std::size_t>, ahead> pairs;
    for (std::size_t left = swaps_of_a_choice * choices_.size() / 2; left > 0;) {
      const std::span now = std::span(pairs).first(std::min(left, ahead));
      for (auto& [a, b] : now) {
        a = any();
        b = any();
        __builtin_prefetch(&choices_[a], 1);
        __builtin_prefetch(&choices_[b], 1);
      }
      for (const auto& [a, b] : now) limited_ ? swap_within_groups(a, b) : swap(a, b);
      left -= now.size();
    }
  }

  void swap(std::size_t a, std::size_t b) {
    const std::size_t token_a = a / top_k_, token_b = b / top_k_;
    if (token_a == token_b) return;
    const Choice *of_a = &choices_[token_a * top_k_], *of_b = &choices_[token_b * top_k_];
    const Choice old_a = choices_[a], old_b = choices_[b];
    int twice = 0;
    for (std::size_t i = 0; i < top_k_; ++i)
      twice += static_cast<int>(of_a[i] == old_b) + static_cast<int>(of_b[i] == old_a);
    if (twice == 0) std::swap(choices_[a], choices_[b]);
  }

  // How often a token chooses from the groups of the two choices.
  struct Both {
    int a = 0, b = 0;
  };

  void swap_within_groups(std::size_t a, std::size_t b) {
    const std::size_t token_a = a / top_k_, token_b = b / top_k_;
    if (token_a == token_b) return;
    const Choice *of_a = &choices_[token_a * top_k_], *of_b = &choices_[token_b * top_k_];
    const Choice old_a = choices_[a], old_b = choices_[b], group_a = group_of(old_a), group_b = group_of(old_b);
    int twice = 0;
    Both in_a, in_b;
    for (std::size_t i = 0; i < top_k_; ++i) {
      twice += static_cast<int>(of_a[i] == old_b) + static_cast<int>(of_b[i] == old_a);
      in_a.a += static_cast<int>(group_of(of_a[i]) == group_a);
      in_a.b += static_cast<int>(group_of(of_a[i]) == group_b);
      in_b.a += static_cast<int>(group_of(of_b[i]) == group_a);
      in_b.b += static_cast<int>(group_of(of_b[i]) == group_b);
    }
    if (twice > 0) return;
    if (group_a != group_b) {
      const int now_a = groups_[token_a] - (in_a.a == 1 ? 1 : 0) + (in_a.b == 0 ? 1 : 0);
      const int now_b = groups_[token_b] - (in_b.b == 1 ? 1 : 0) + (in_b.a == 0 ? 1 : 0);
      const int more = excess(now_a) + excess(now_b) - excess(groups_[token_a]) - excess(groups_[token_b]);
      if (more > 0) return;
      excess_ += more;
      groups_[token_a] = now_a;
      groups_[token_b] = now_b;
    }
    std::swap(choices_[a], choices_[b]);
  }

  std::vector<Choice> choices_;
  std::size_t top_k_;
  std::mt19937_64& random_;
  bool limited_;
  int most_;                 // groups that a token may choose from
  std::vector<int> groups_;  // that each token chooses from
  std::int64_t excess_ = 0;  // groups that tokens choose from beyond those that they may
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
    Mixer mixer(dealt(fresh.loads, fresh.top_k), fresh.top_k, e.model, random);
    return std::make_shared<const Choices>(mixer.mixed());
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
