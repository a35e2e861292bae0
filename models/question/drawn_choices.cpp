#include "models/question/drawn_choices.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "models/base/errors.hpp"
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
// is about as likely.
void mix(Choices& choices, std::size_t top_k, std::mt19937_64& random) {
  const std::uint64_t all = choices.size();
  const auto any = [&] { return static_cast<std::size_t>((random() >> 32U) * all >> 32U); };
  const auto chooses = [&](std::size_t token, std::int32_t expert) {
    const auto first = choices.begin() + static_cast<std::ptrdiff_t>(token * top_k);
    return std::find(first, first + static_cast<std::ptrdiff_t>(top_k), expert) !=
           first + static_cast<std::ptrdiff_t>(top_k);
  };
  for (std::size_t i = 0; i < swaps_of_a_choice * choices.size() / 2; ++i) {
    const std::size_t a = any(), b = any(), token_a = a / top_k, token_b = b / top_k;
    if (token_a == token_b || chooses(token_a, choices[b]) || chooses(token_b, choices[a])) continue;
    std::swap(choices[a], choices[b]);
  }
  for (auto first = choices.begin(); first != choices.end(); first += static_cast<std::ptrdiff_t>(top_k))
    std::shuffle(first, first + static_cast<std::ptrdiff_t>(top_k), random);
}

}  // namespace

Choices drawn_choices(const Experiment& e, int layer, int rank) {
  const RoutingModel& model = e.workload.routing;
  const bool recorded = model.kind == RoutingKind::Trace;
  const auto top_k = static_cast<std::size_t>(e.workload.top_k);
  struct Draw {  // planners ask for the same ones for plan after plan
    std::vector<std::int64_t> loads;
    std::size_t top_k = 0;
    std::array<int, 3> seed{};
    Choices choices;
  };
  thread_local Draw last;
  const std::array<int, 3> numbers{model.seed, recorded ? layer : 0,
                                   recorded ? rank / e.parallelism.token_repeats() : 0};
  std::vector<std::int64_t> loads = expert_loads(e, layer, rank);
  if (last.loads == loads && last.top_k == top_k && last.seed == numbers) return last.choices;
  std::seed_seq seed(numbers.begin(), numbers.end());
  std::mt19937_64 random(seed);
  Choices choices = dealt(loads, top_k);
  mix(choices, top_k, random);
  last = {std::move(loads), top_k, numbers, choices};
  return choices;
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
