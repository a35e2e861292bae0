// SPDX-License-Identifier: Apache-2.0
// The measurements of long work, each made once: what an earlier run has finished is taken from its journal, and none
// begins when it is too late.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bench/pipeline/journal.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

class Measurements {
 public:
  // None begins later than `limit` after now; 0: never too late.
  explicit Measurements(Seconds limit = Seconds(0));

  // Keeps what is measured in a journal, and takes what stands there already. `work` tells it from any other work.
  // Throws InputError as Journal does, and for a key that is given twice.
  void keep_in(const std::string& journal, const nlohmann::ordered_json& work);

  // Gives `use` what an earlier run found out under this key, else what `measure` finds out now; nothing where it is
  // too late.
  void make(const std::string& key, const std::function<nlohmann::ordered_json()>& measure,
            const std::function<void(const JsonReader&)>& use);

  const Progression& progression() const { return progression_; }

  // Once the results are kept elsewhere.
  void remove_journal();

 private:
  bool too_late() const;

  Seconds start_, limit_;
  Progression progression_;
  std::optional<Journal> journal_;
  std::map<std::string, const JsonLine*> finished_;  // in the journal
};

}  // namespace dovetail::bench
