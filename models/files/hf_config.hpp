// SPDX-License-Identifier: Apache-2.0
// A checkpoint's config.json by what its keys mean. Families of models name the same sizes in different ways, and some
// nest them.
#pragma once
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json/json_reader.hpp"

namespace dovetail {

class HfConfig {
 public:
  // Keys that mean the same, by paths ("attn_config/kv_n_heads"); the first that is given counts. A null is not given:
  // checkpoints write it for "the usual".
  using Keys = std::initializer_list<std::string_view>;

  explicit HfConfig(const JsonFile& file);

  // The language model's part: that under text_config (inside thinker_config, where there is one), or the whole.
  const JsonReader& text() const { return text_; }
  bool nested() const { return nested_; }
  std::string model_type() const;  // of that part; empty where it has none

  std::optional<JsonReader> find(Keys keys) const;
  // Fails with the first name, and with the others as other names, if none is given.
  JsonReader at(Keys keys) const;
  bool given(Keys keys) const { return find(keys).has_value(); }

  // A list of equal numbers, one for each layer, counts as that number.
  int integer(Keys keys, int min, int max = JsonReader::int_max) const;
  int integer_or(Keys keys, int fallback, int min = 1, int max = JsonReader::int_max) const;
  double number_or(Keys keys, double fallback) const;
  bool boolean_or(Keys keys, bool fallback) const;  // 0 and other numbers count as false and true

  // Keys of the language model's part that nobody has asked for and that may say something about its work.
  std::vector<std::string> unknown() const;

 private:
  JsonReader whole_, text_;
  bool nested_ = false;
  mutable std::set<std::string, std::less<>> asked_;  // keys of the part itself
};

}  // namespace dovetail
