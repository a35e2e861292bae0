// SPDX-License-Identifier: Apache-2.0
#include "planners/online/bucketed_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"

namespace dovetail::planners {
namespace {

using Json = nlohmann::ordered_json;

constexpr double resolution = .01;  // of the bucket length
// Weight of p = 1 against what was measured: as much as loads that differ by 10 % once.
constexpr double prior = .01;
constexpr double steepest = 2;  // p of a part that grows with the square of the load, as attention with the sequence

template <class Timings>
bool all_tried(const Timings& timings) {
  return std::ranges::none_of(timings, [](const auto& t) { return t.count == 0; });
}

}  // namespace

BucketedSearch::BucketedSearch(OnlineSettings settings, BucketRules rules)
    : OnlinePlanner(std::move(settings)), rules_(rules) {
  const double length = this->settings().bucket_length;
  if (!(length > 0) || !std::isfinite(length))
    throw InputError(fmt::format("bucket length {}, expected a number above 0", length));
  growth_.resize(strategies().size());
}

std::int64_t BucketedSearch::key(double load) const {
  const double steps = load / (resolution * settings().bucket_length);
  constexpr double largest = 9e18;  // of a key
  if (steps > largest)
    throw InputError(fmt::format("load {} is too large for buckets of length {}", load, settings().bucket_length));
  return std::llround(steps);
}

// The tried strategy that may be the best. One that was unlucky once and is close gets another chance.
std::size_t BucketedSearch::best(const Timings& timings) const {
  const auto least = [this](const Timing& t) {
    if (t.count == 0) return std::numeric_limits<double>::infinity();
    return t.mean() * (1 - rules_.noise / std::sqrt(static_cast<double>(t.count)));
  };
  return static_cast<std::size_t>(std::ranges::min_element(timings, {}, least) - timings.begin());
}

double BucketedSearch::growth() const {
  if (!rules_.learns_growth) return 1;
  double xy = prior, xx = prior;
  for (const Growth& g : growth_) {
    if (g.n == 0) continue;
    xy += g.xy - g.x * g.y / g.n;
    xx += g.xx - g.x * g.x / g.n;
  }
  return std::clamp(xy / xx, 0.0, steepest);
}

const BucketedSearch::Timings* BucketedSearch::bucket_of(double load) const {
  const auto after = buckets_.upper_bound(load);
  if (after == buckets_.begin()) return nullptr;
  const auto& [lowest, timings] = *std::prev(after);
  return load - lowest <= settings().bucket_length ? &timings : nullptr;
}

bool BucketedSearch::hopeless(std::size_t strategy, double load) const {
  if (!rules_.skips_hopeless) return false;
  return std::ranges::any_of(buckets_, [&](const auto& entry) {
    const auto& [lowest, timings] = entry;
    if (timings[strategy].count == 0) return false;
    const double ratio = timings[strategy].mean() / timings[best(timings)].mean();
    return ratio > (1 + rules_.noise) * std::max(load / lowest, lowest / load);
  });
}

std::size_t BucketedSearch::pick(double load) {
  if (const auto known = tried_.find(key(load)); known != tried_.end())
    if (const Timings& timings = known->second.timings; all_tried(timings)) return best(timings);
  const Timings* bucket = bucket_of(load);
  for (std::size_t s = 0; s < strategies().size(); ++s)
    if ((bucket == nullptr || (*bucket)[s].count == 0) && !hopeless(s, load)) return s;
  return bucket == nullptr ? 0 : best(*bucket);
}

void BucketedSearch::learn(double load, std::size_t strategy, Seconds time) {
  const auto [entry, is_new] = tried_.try_emplace(key(load), Tried{load, Timings(strategies().size())});
  Tried& tried = entry->second;  // its load is that of the first step there
  tried.timings[strategy].sum += time.value();
  ++tried.timings[strategy].count;
  const double x = std::log(load), y = std::log(time.value());
  Growth& g = growth_[strategy];
  g = {g.n + 1, g.x + x, g.y + y, g.xx + x * x, g.xy + x * y};
  if (is_new) return rebuild();
  auto& [lowest, bucket] = *std::prev(buckets_.upper_bound(tried.load));
  bucket[strategy].sum += time.value() * std::pow(lowest / tried.load, growth());
  ++bucket[strategy].count;
}

void BucketedSearch::pool(Timings& bucket, double lowest, const Tried& tried) const {
  const double scale = std::pow(lowest / tried.load, growth());
  for (std::size_t s = 0; s < bucket.size(); ++s) {
    bucket[s].sum += tried.timings[s].sum * scale;
    bucket[s].count += tried.timings[s].count;
  }
}

void BucketedSearch::rebuild() {
  std::vector<const Tried*> all;
  for (const auto& [key, tried] : tried_) all.push_back(&tried);
  std::ranges::sort(all, {}, [](const Tried* t) { return t->load; });
  buckets_.clear();
  for (const Tried* tried : all) {
    if (buckets_.empty() || tried->load - buckets_.rbegin()->first > settings().bucket_length)
      buckets_.emplace_hint(buckets_.end(), tried->load, Timings(strategies().size()));
    auto& [lowest, bucket] = *buckets_.rbegin();
    pool(bucket, lowest, *tried);
  }
}

void BucketedSearch::write(Json& state) const {
  std::vector<const Tried*> all;
  for (const auto& [key, tried] : tried_) all.push_back(&tried);
  std::ranges::sort(all, {}, [](const Tried* t) { return t->load; });
  Json loads = Json::array();
  for (const Tried* tried : all) {
    Json timings = Json::array();
    for (const Timing& t : tried->timings) timings.push_back({t.count, t.sum});
    loads.push_back({{"load", tried->load}, {"timings", std::move(timings)}});
  }
  Json growth = Json::array();
  for (const Growth& g : growth_) growth.push_back({g.n, g.x, g.y, g.xx, g.xy});
  state["loads"] = std::move(loads);
  state["growth"] = std::move(growth);
}

void BucketedSearch::read(const JsonReader& state) {
  BucketedSearch read(settings(), rules_);
  const std::size_t count = strategies().size();
  const auto elements = [](const JsonReader& json, std::size_t size) {
    const std::vector<JsonReader> list = json.elements();
    if (list.size() != size) json.fail(fmt::format("{} entries, expected {}", list.size(), size));
    return list;
  };
  for (const JsonReader& each : state.at("loads").elements()) {
    Tried tried{each.at("load").number(smallest_load), {}};
    for (const JsonReader& timing : elements(each.at("timings"), count)) {
      const auto pair = elements(timing, 2);
      tried.timings.push_back({pair[1].number(0), pair[0].long_integer()});
    }
    if (!read.tried_.try_emplace(read.key(tried.load), std::move(tried)).second)
      each.fail("this load twice, expected once");
  }
  const auto growth = elements(state.at("growth"), count);
  for (std::size_t s = 0; s < count; ++s) {
    const auto sums = elements(growth[s], 5);
    read.growth_[s] = {sums[0].number(0), sums[1].number(), sums[2].number(), sums[3].number(0), sums[4].number()};
  }
  read.rebuild();
  *this = std::move(read);
}

}  // namespace dovetail::planners
