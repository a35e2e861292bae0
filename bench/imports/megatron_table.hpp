// SPDX-License-Identifier: Apache-2.0
// Every argument of Megatron-LM's parser, and what it is here: what it sets of an experiment, a switch of the framework
// file, something that no step shows, or something that cannot be said and why. Names, defaults and meanings were read
// in NVIDIA/Megatron-LM d98e8a6 (core 0.20.0).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::bench {

// The values of an argument. Nothing: it is given or not. Words: one or more. Any: one that says nothing here.
enum class Takes { Nothing, Whole, Number, Word, Words, Any };

// Sets: a part of the experiment. Option: a switch of the framework file (data/frameworks). Missing: an experiment
// cannot say it.
enum class Effect { Sets, Option, Missing, None };

struct MegatronArgument {
  std::string_view name;  // "num_layers": as its parser calls the value of --num-layers
  Takes takes = Takes::Word;
  std::string_view fallback = {};  // its value where it is not given; empty: none, or one that follows from others
  Effect effect = Effect::None;
  std::string_view what = {};  // Sets: the key that it sets. Option: the switch. Missing: the reason
};

// The rows that are more than None, in the order of the parts of an experiment.
std::span<const MegatronArgument> megatron_arguments();

// The argument of a name, with dashes or underscores; nullptr where the parser has none. One of no effect has a name
// that lasts for the whole program.
const MegatronArgument* find_megatron_argument(std::string_view name);

// Every name, for "did you mean".
const std::vector<std::string>& megatron_argument_names();

}  // namespace dovetail::bench
