// SPDX-License-Identifier: Apache-2.0
#include "planners/online/granularity_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"

namespace dovetail::planners {
namespace {

using Json = nlohmann::ordered_json;

const double one_step = std::log1p(.02);

}  // namespace

GranularitySearch::Key GranularitySearch::key(double load) {
  return std::llround(std::log(load) / one_step);
}

double GranularitySearch::load_of(Key key) {
  return std::exp(static_cast<double>(key) * one_step);
}

GranularitySearch::Ranges::const_iterator GranularitySearch::find(Key key) const {
  const auto after = ranges_.upper_bound(key);
  if (after == ranges_.begin() || std::prev(after)->second.high < key) return ranges_.end();
  return std::prev(after);
}

std::optional<std::size_t> GranularitySearch::answer(double load) const {
  const auto range = find(key(load));
  return range == ranges_.end() ? std::nullopt : std::optional(range->second.strategy);
}

// The one to time next before it is known which of the two is faster. None: it is known.
std::optional<std::size_t> GranularitySearch::undecided(const Trials& trials, std::size_t a, std::size_t b) const {
  for (std::size_t s : {a, b})
    if (!trials.contains(s)) return s;
  const Timing &x = trials.at(a), &y = trials.at(b);
  if (std::min(x.count, y.count) >= rules_.timings) return std::nullopt;
  const double open = rules_.noise * std::sqrt(1.0 / static_cast<double>(x.count) + 1.0 / static_cast<double>(y.count));
  if (std::abs(std::log(x.mean() / y.mean())) > open) return std::nullopt;
  return x.count <= y.count ? a : b;
}

// Goes on while the next strategy is faster.
GranularitySearch::Search GranularitySearch::climb(const Trials& trials, std::size_t from, std::size_t to) const {
  while (from != to) {
    const std::size_t next = from < to ? from + 1 : from - 1;
    if (const auto open = undecided(trials, from, next)) return {*open, false};
    if (trials.at(next).mean() >= trials.at(from).mean()) break;
    from = next;
  }
  return {from, true};
}

GranularitySearch::Search GranularitySearch::all_of(const Trials& trials, std::size_t first, std::size_t last) const {
  std::size_t best = first;
  for (std::size_t s = first; s <= last; ++s) {
    const auto found = trials.find(s);
    if (found == trials.end() || found->second.count < rules_.timings) return {s, false};
    if (found->second.mean() < trials.at(best).mean()) best = s;
  }
  return {best, true};
}

GranularitySearch::Search GranularitySearch::search(Key key, const Trials& trials) const {
  const auto after = ranges_.upper_bound(key);
  const bool has_low = after != ranges_.begin(), has_high = after != ranges_.end();
  if (!rules_.climbs) return all_of(trials, 0, strategies().size() - 1);
  std::size_t first = has_low ? std::prev(after)->second.strategy : 0;
  std::size_t last = has_high ? after->second.strategy : strategies().size() - 1;
  if (first > last) std::swap(first, last);  // answers that do not grow with the load
  bool up = has_low || !has_high;
  if (has_low && has_high && first != last) {
    if (const auto open = undecided(trials, first, last)) return {*open, false};
    up = trials.at(first).mean() <= trials.at(last).mean();
  }
  return up ? climb(trials, first, last) : climb(trials, last, first);
}

// A faster neighbour on either side ends it.
GranularitySearch::Search GranularitySearch::against_neighbours(std::size_t strategy, const Trials& trials) const {
  for (const std::size_t neighbour : {strategy + 1, strategy - 1}) {
    if (neighbour >= strategies().size()) continue;  // there is none on this side
    if (const auto open = undecided(trials, strategy, neighbour)) return {*open, false};
    if (trials.at(neighbour).mean() < trials.at(strategy).mean()) return {neighbour, true};
  }
  return {strategy, true};
}

std::size_t GranularitySearch::in_range(Ranges::iterator found, Key key) {
  Range& range = found->second;
  ++range.steps;
  if (!rules_.reopens) return range.strategy;
  if (!range.checked_at && range.steps >= range.next_check) range.checked_at = key;
  if (range.checked_at != key) return range.strategy;
  const Search check = against_neighbours(range.strategy, trials_[key]);
  if (!check.ended) return check.strategy;
  trials_.erase(key);
  if (check.strategy == range.strategy) {
    range.checked_at.reset();
    range.next_check = 2 * range.steps;
  } else {
    ranges_.erase(found);
    insert(key, check.strategy);
  }
  return check.strategy;
}

std::size_t GranularitySearch::pick(double load) {
  const Key key = this->key(load);
  if (const auto known = find(key); known != ranges_.end()) return in_range(ranges_.find(known->first), key);
  const auto trials = trials_.find(key);
  const Search search = this->search(key, trials == trials_.end() ? Trials{} : trials->second);
  if (search.ended) insert(key, search.strategy);  // neighbours that were found since leave nothing to try
  return search.strategy;
}

void GranularitySearch::learn(double load, std::size_t strategy, Seconds time) {
  const Key key = this->key(load);
  const auto known = find(key);
  if (known != ranges_.end() && known->second.checked_at != key) return;
  Trials& trials = trials_[key];
  trials[strategy].sum += time.value();
  ++trials[strategy].count;
  if (known != ranges_.end()) return;
  const Search search = this->search(key, trials);
  if (search.ended) insert(key, search.strategy);
}

void GranularitySearch::insert(Key key, std::size_t strategy) {
  trials_.erase(key);
  const auto after = ranges_.upper_bound(key);
  const bool has_low = after != ranges_.begin(), has_high = after != ranges_.end();
  if (has_low && std::prev(after)->second.strategy == strategy) {
    Range& low = std::prev(after)->second;
    low.high = key;
    if (has_high && after->second.strategy == strategy) {
      low.high = after->second.high;
      ranges_.erase(after);
    }
  } else if (has_high && after->second.strategy == strategy) {
    const Range range = after->second;
    ranges_.erase(after);
    ranges_.emplace(key, range);
  } else {
    ranges_.emplace(key, Range{key, strategy});
  }
}

void GranularitySearch::write(Json& state) const {
  Json ranges = Json::array(), searches = Json::array();
  for (const auto& [low, range] : ranges_) {
    Json json{{"low", load_of(low)},
              {"high", load_of(range.high)},
              {"strategy", range.strategy},
              {"steps", range.steps},
              {"next_check", range.next_check}};
    if (range.checked_at) json["checked_at"] = load_of(*range.checked_at);
    ranges.push_back(std::move(json));
  }
  for (const auto& [key, trials] : trials_) {
    Json list = Json::array();
    for (const auto& [strategy, timing] : trials) list.push_back({strategy, timing.sum, timing.count});
    searches.push_back({{"load", load_of(key)}, {"trials", std::move(list)}});
  }
  state["ranges"] = std::move(ranges);
  state["searches"] = std::move(searches);
}

void GranularitySearch::read(const JsonReader& state) {
  const int last = static_cast<int>(strategies().size()) - 1;
  Ranges ranges;
  for (const JsonReader& each : state.at("ranges").elements()) {
    const Key low = key(each.at("low").number(smallest_load));
    Range range{key(each.at("high").number(smallest_load)),
                static_cast<std::size_t>(each.integer("strategy", 0, last))};
    if (const auto steps = each.find("steps")) range.steps = steps->long_integer();
    if (const auto next = each.find("next_check")) range.next_check = next->long_integer();
    if (const auto load = each.find("checked_at")) range.checked_at = key(load->number(smallest_load));
    if (range.high < low || (!ranges.empty() && low <= ranges.rbegin()->second.high))
      each.fail("expected disjoint ranges that ascend");
    ranges.emplace_hint(ranges.end(), low, range);
  }
  std::map<Key, Trials> searches;
  for (const JsonReader& each : state.at("searches").elements()) {
    Trials& trials = searches[key(each.at("load").number(smallest_load))];
    for (const JsonReader& trial : each.at("trials").elements()) {
      const auto parts = trial.elements();
      if (parts.size() < 2) trial.fail("expected a strategy, the sum of its seconds and how many there are");
      const std::int64_t count = parts.size() == 2 ? 1 : parts[2].integer(1);
      trials.emplace(static_cast<std::size_t>(parts[0].integer(0, last)), Timing{parts[1].number(0), count});
    }
  }
  ranges_ = std::move(ranges);
  trials_ = std::move(searches);
}

}  // namespace dovetail::planners
