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

std::optional<std::size_t> GranularitySearch::find(Key key) const {
  if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  const auto after = ranges_.upper_bound(key);
  if (after == ranges_.begin() || std::prev(after)->second.high < key) return std::nullopt;
  return std::prev(after)->second.strategy;
}

GranularitySearch::Climb GranularitySearch::climb(Key key, const Trials& trials) const {
  const auto after = ranges_.upper_bound(key);
  const bool has_low = after != ranges_.begin(), has_high = after != ranges_.end();
  std::size_t first = has_low ? std::prev(after)->second.strategy : 0;
  std::size_t last = has_high ? after->second.strategy : strategies().size() - 1;
  if (first > last) std::swap(first, last);  // answers that do not grow with the load
  const auto tried = [&](std::size_t s) { return trials.find(s); };
  bool up = has_low || !has_high;
  if (has_low && has_high && first != last) {
    for (std::size_t end : {first, last})
      if (tried(end) == trials.end()) return {end, false};
    up = tried(first)->second <= tried(last)->second;
  }
  std::size_t at = up ? first : last;
  const std::size_t end = up ? last : first;
  while (at != end) {
    if (tried(at) == trials.end()) return {at, false};
    const std::size_t next = up ? at + 1 : at - 1;
    if (tried(next) == trials.end()) return {next, false};
    if (tried(next)->second >= tried(at)->second) break;
    at = next;
  }
  return {at, true};
}

std::size_t GranularitySearch::pick(double load) {
  const Key key = this->key(load);
  if (const auto known = find(key)) {
    searches_.erase(key);
    return answers_[key] = *known;
  }
  const auto search = searches_.find(key);
  const Climb climb = this->climb(key, search == searches_.end() ? Trials{} : search->second);
  if (climb.ended) insert(key, climb.strategy);  // neighbours that were found since leave nothing to try
  return climb.strategy;
}

void GranularitySearch::learn(double load, std::size_t strategy, Seconds time) {
  const Key key = this->key(load);
  if (find(key)) return;
  Trials& trials = searches_[key];
  trials.try_emplace(strategy, time.value());
  const Climb climb = this->climb(key, trials);
  if (climb.ended) insert(key, climb.strategy);
}

void GranularitySearch::insert(Key key, std::size_t strategy) {
  searches_.erase(key);
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
  for (const auto& [low, range] : ranges_)
    ranges.push_back({{"low", load_of(low)}, {"high", load_of(range.high)}, {"strategy", range.strategy}});
  for (const auto& [key, trials] : searches_) {
    Json list = Json::array();
    for (const auto& [strategy, time] : trials) list.push_back({strategy, time});
    searches.push_back({{"load", load_of(key)}, {"trials", std::move(list)}});
  }
  state["ranges"] = std::move(ranges);
  state["searches"] = std::move(searches);
}

void GranularitySearch::read(const JsonReader& state) {
  const int last = static_cast<int>(strategies().size()) - 1;
  std::map<Key, Range> ranges;
  for (const JsonReader& each : state.at("ranges").elements()) {
    const Key low = key(each.at("low").number(smallest_load));
    const Range range{key(each.at("high").number(smallest_load)),
                      static_cast<std::size_t>(each.integer("strategy", 0, last))};
    if (range.high < low || (!ranges.empty() && low <= ranges.rbegin()->second.high))
      each.fail("expected disjoint ranges that ascend");
    ranges.emplace_hint(ranges.end(), low, range);
  }
  std::map<Key, Trials> searches;
  for (const JsonReader& each : state.at("searches").elements()) {
    Trials& trials = searches[key(each.at("load").number(smallest_load))];
    for (const JsonReader& trial : each.at("trials").elements()) {
      const auto pair = trial.elements();
      if (pair.size() != 2) trial.fail("expected a strategy and its seconds");
      trials.emplace(static_cast<std::size_t>(pair[0].integer(0, last)), pair[1].number(0));
    }
  }
  ranges_ = std::move(ranges);
  searches_ = std::move(searches);
  answers_.clear();
}

}  // namespace dovetail::planners
