// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/measurements.hpp"

#include <nlohmann/json.hpp>

#include "exec/run/measure.hpp"

namespace dovetail::bench {

Measurements::Measurements(Seconds limit) : start_(exec::steady_time()), limit_(limit) {}

void Measurements::keep_in(const std::string& journal, const nlohmann::ordered_json& work) {
  journal_.emplace(journal, work);
  for (const JsonLine& part : journal_->finished())
    part.read([&](const JsonReader& json) {
      if (!finished_.emplace(json.string("key"), &part).second) json.fail("key", "given twice, expected once");
    });
}

void Measurements::make(const std::string& key, const std::function<nlohmann::ordered_json()>& measure,
                        const std::function<void(const JsonReader&)>& use) {
  ++progression_.all;
  const auto earlier = finished_.find(key);
  if (earlier == finished_.end() && too_late()) return;
  ++progression_.made;
  if (earlier != finished_.end()) return earlier->second->read(use);
  nlohmann::ordered_json part = measure();
  part["key"] = key;
  if (journal_) journal_->add(part);
  JsonLine("this measurement", 1, part.dump()).read(use);
}

void Measurements::remove_journal() {
  if (journal_) journal_->remove();
}

bool Measurements::too_late() const {
  return limit_ > Seconds(0) && exec::steady_time() - start_ >= limit_;
}

}  // namespace dovetail::bench
