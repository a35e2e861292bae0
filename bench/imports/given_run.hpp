// SPDX-License-Identifier: Apache-2.0
// The arguments of a training as a file gives them: names, values and places, before anything of them is understood.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail::bench {

// Begins a piece of a value that the file leaves open, such as a variable which it does not set; the piece itself
// follows.
inline constexpr char open_mark = '\x01';

inline bool is_open(std::string_view value) {
  return value.find(open_mark) != std::string_view::npos;
}

// A value as the file has it, without marks.
std::string as_written(std::string_view value);

struct GivenArgument {
  std::string name;                 // "num_layers": without leading dashes, with underscores
  std::vector<std::string> values;  // none: the argument alone, as a switch is given
  Location where = {};
};

struct GivenRun {
  std::vector<GivenArgument> arguments;    // as they follow one another; a later one overrides an earlier one
  std::optional<int> nodes, ranks_a_node;  // of the launch
  // Names are fields of configurations rather than arguments of a command line: a switch that is not given is off, and
  // fields say what arguments leave to their defaults.
  bool fields = false;
  std::string read;                // what was read, in words
  std::vector<std::string> notes;  // sentences with places: what the file leaves open, and what was taken for it
};

// Variables that the file does not set, by name.
using Variables = std::map<std::string, std::string>;

// The words of a command line after the program. A word that begins with two dashes names an argument, and those after
// it are its values; "--a=b" is both. Words before the first argument are left out.
struct PlacedWord {
  std::string text;
  Location where = {};
};
std::vector<GivenArgument> arguments_of(const std::vector<PlacedWord>& words, GivenRun& run);

// Reads a launch script of a shell, which is never executed, or a plain list of arguments. Throws InputError at the
// place of what is no shell, and where no argument stands.
GivenRun read_launch_script(const std::string& text, const std::string& name, const Variables& variables);

// Reads a YAML file of Megatron Bridge or of Megatron-LM's --yaml-cfg. Throws InputError at the place of what is no
// YAML, and DeviceError where this build has no library for YAML.
GivenRun read_yaml_arguments(const std::string& text, const std::string& name, const Variables& variables);

// Reads an object of arguments, a list of them, or the `args` of an object; `entry` names or numbers (from 1) one of a
// list of such objects. Throws InputError at the place of what is none.
GivenRun read_json_arguments(const std::string& text, const std::string& name, const std::string& entry);

}  // namespace dovetail::bench
