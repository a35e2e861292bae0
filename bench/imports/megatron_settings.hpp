// SPDX-License-Identifier: Apache-2.0
// Given arguments with their values as numbers, words and switches, and with Megatron-LM's defaults for the others.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/imports/given_run.hpp"
#include "bench/imports/imported_run.hpp"
#include "bench/imports/megatron_table.hpp"

namespace dovetail::bench {

class MegatronSettings {
 public:
  // Throws InputError at an argument without its value, with one too many, or with one of another kind.
  MegatronSettings(const GivenRun& run, Unsaid& unsaid);

  bool given(std::string_view name) const { return values_.contains(name); }
  bool on(std::string_view name) const { return given(name); }  // a switch

  // The value, or the default of the table. `whole` and `number` throw InputError outside of their bounds.
  int whole(std::string_view name, int least = 1) const;
  std::optional<int> whole_if_given(std::string_view name, int least = 1) const;
  int required_whole(std::string_view name) const;  // throws InputError where it is not given
  double number(std::string_view name, double least = 0) const;
  std::string word(std::string_view name) const;
  std::vector<std::string> words(std::string_view name) const;
  std::string list_text(std::string_view name) const;  // "([0]*3+[1]*58)", or "[0,1,1]" of several values
  // A word that is one of these; throws InputError for another.
  std::string choice(std::string_view name, const std::vector<std::string>& choices) const;

  const GivenRun& run() const { return run_; }

  // Throws InputError at the argument.
  [[noreturn]] void fail(std::string_view name, std::string_view message) const;

  // Says that the experiment has something else than the argument asks for.
  void unsaid(std::string_view name, std::string_view why) const;

 private:
  void take(const GivenArgument& argument);
  void check_values(const GivenArgument& argument, const MegatronArgument& row) const;
  const GivenArgument& find(std::string_view name) const;
  std::string text(std::string_view name) const;

  const GivenRun& run_;
  Unsaid& unsaid_;
  std::map<std::string, GivenArgument, std::less<>> values_;
};

// "--num-layers" for "num_layers".
std::string as_option(std::string_view name);

}  // namespace dovetail::bench
