// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/undisturbed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int most_again = 3, most_waits = 80;
constexpr std::chrono::milliseconds a_wait{250};

}  // namespace

Undisturbed::Undisturbed(exec::Pace pace, std::function<void()> wait)
    : pace_(std::move(pace)), wait_(std::move(wait)) {}

void Undisturbed::sleep_a_little() {
  std::this_thread::sleep_for(a_wait);
}

Json Undisturbed::make(const std::function<Json()>& measure) {
  Json best;
  double least = 0;
  int again = 0, waits = 0;
  for (;; ++again) {
    for (; slow() && waits < most_waits; ++waits) wait_();
    const double before = last_;
    Json made = measure();
    const double slowdown = std::max(before, pace_.slowdown());
    if (again == 0 || slowdown < least) {
      best = std::move(made);
      least = slowdown;
    }
    if (least <= most_slowdown || again == most_again) break;
  }
  best["slowdown"] = least;
  best["again"] = again;
  return best;
}

void Undisturbed::count(const JsonReader& made) {
  const double slowdown = made.number("slowdown", 0);
  ++all_;
  again_ += made.integer("again", 0, most_again) > 0 ? 1 : 0;
  disturbed_ += slowdown > most_slowdown ? 1 : 0;
  worst_ = std::max(worst_, slowdown);
}

std::string Undisturbed::note() const {
  if (all_ == 0) return {};
  return fmt::format(
      "a product of fixed size was timed before and after each of {} measurements: {} were made again because it took "
      "over {:.0f} % longer than usual, {} stayed so ({:.0f} % at worst)",
      all_, again_, 100 * (most_slowdown - 1), disturbed_, 100 * (worst_ - 1));
}

}  // namespace dovetail::bench
