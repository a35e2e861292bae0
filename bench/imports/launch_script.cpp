// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "bench/imports/given_run.hpp"
#include "bench/imports/megatron_table.hpp"
#include "bench/imports/shell_script.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

using Words = std::vector<PlacedWord>;

std::optional<int> size_in(std::string_view text) {
  int size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool whole = error == std::errc() && end == text.data() + text.size() && size > 0;
  return whole ? std::optional(size) : std::nullopt;
}

// A command that is one word, as after `bash -c`, is split at its blanks.
Words split_words(const Words& words) {
  Words split;
  for (const PlacedWord& word : words) {
    if (word.text.find(" --") == std::string::npos && !word.text.starts_with("--")) {
      split.push_back(word);
      continue;
    }
    for (std::size_t at = 0; (at = word.text.find_first_not_of(" \t\n", at)) != std::string::npos;) {
      const std::size_t end = std::min(word.text.find_first_of(" \t\n", at), word.text.size());
      split.push_back({word.text.substr(at, end - at), word.where});
      at = end;
    }
  }
  return split;
}

bool names_argument(const PlacedWord& word) {
  return word.text.starts_with("--") && word.text.size() > 2;
}

// Arguments of Megatron-LM among the words.
std::ptrdiff_t known_arguments(const Words& words, std::size_t from) {
  return std::count_if(words.begin() + static_cast<std::ptrdiff_t>(from), words.end(), [](const PlacedWord& word) {
    return names_argument(word) && find_megatron_argument(word.text.substr(0, word.text.find('='))) != nullptr;
  });
}

// Past the program that takes the arguments: the first word that is a Python file, or the module after -m that is not
// a launcher. 0: there is none.
std::size_t after_program(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py")) return i + 1;
    const bool module =
        i > 0 && words[i - 1].text == "-m" && words[i].text.find("torch.distributed") == std::string::npos;
    if (module) return i + 1;
  }
  return 0;
}

struct LaunchOption {
  std::string_view name;
  bool nodes = false;  // else ranks of a node
};
constexpr std::array launch_options{
    LaunchOption{"--nnodes", true}, LaunchOption{"--num_nodes", true}, LaunchOption{"--nodes", true},
    LaunchOption{"-N", true},       LaunchOption{"--nproc_per_node"},  LaunchOption{"--nproc-per-node"},
    LaunchOption{"--num_gpus"},     LaunchOption{"--ntasks-per-node"}, LaunchOption{"--gpus-per-node"},
};

// The first one that is given counts.
void take_size(std::string_view name, std::string_view text, GivenRun& run) {
  for (const auto& [option, nodes] : launch_options) {
    std::optional<int>& size = nodes ? run.nodes : run.ranks_a_node;
    if (option == name && !size) size = size_in(text);
  }
}

void read_launcher(const Words& words, std::size_t count, GivenRun& run) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& word = words[i].text;
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos)
      take_size(word.substr(0, equals), std::string_view(word).substr(equals + 1), run);
    else if (i + 1 < count)
      take_size(word, words[i + 1].text, run);
  }
}

// Slurm's own lines, which are comments to the shell.
void read_slurm_lines(const std::string& text, GivenRun& run) {
  for (const std::string_view line : lines_of(text)) {
    if (!line.starts_with("#SBATCH")) continue;
    Words words;
    std::string word;
    for (const char c : std::string(line.substr(7)) + " ") {
      if (c != ' ' && c != '\t' && c != '\r') {
        word += c;
      } else if (!word.empty()) {
        words.push_back({std::exchange(word, ""), {}});
      }
    }
    read_launcher(words, words.size(), run);
  }
}

void read_variables(const Variables& variables, GivenRun& run) {
  const auto take = [&](std::initializer_list<const char*> names, std::optional<int>& size) {
    for (const char* name : names)
      if (const auto found = variables.find(name); !size && found != variables.end()) size = size_in(found->second);
  };
  take({"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "WORLD_NODES"}, run.nodes);
  take({"GPUS_PER_NODE", "NPROC_PER_NODE", "NUM_GPUS_PER_NODE", "GPU_PER_NODE", "SLURM_NTASKS_PER_NODE"},
       run.ranks_a_node);
}

// The words of what the script holds in variables, where no command starts a training.
Words listed_words(const ShellScript& script) {
  Words words;
  for (const Words& command : script.commands)
    if (names_argument(command.front())) {
      words.insert(words.end(), command.begin(), command.end());
    } else if (!words.empty()) {  // values on a line of their own
      words.insert(words.end(), command.begin(), command.end());
    }
  if (known_arguments(words, 0) > 0) return split_words(words);
  words.clear();
  for (const Words& list : script.lists) {
    const Words split = split_words(list);
    if (!split.empty() && known_arguments(split, 0) > 0 && names_argument(split.front()))
      words.insert(words.end(), split.begin(), split.end());
  }
  return words;
}

}  // namespace

std::string as_written(std::string_view value) {
  std::string text(value);
  std::erase(text, open_mark);
  return text;
}

std::vector<GivenArgument> arguments_of(const std::vector<PlacedWord>& words, GivenRun& run) {
  std::vector<GivenArgument> arguments;
  for (const PlacedWord& word : words) {
    if (names_argument(word)) {
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      GivenArgument argument{word.text.substr(2, equals - 2), {}, word.where};
      std::ranges::replace(argument.name, '-', '_');
      if (equals < word.text.size()) argument.values.push_back(word.text.substr(equals + 1));
      arguments.push_back(std::move(argument));
      continue;
    }
    const MegatronArgument* const last = arguments.empty() ? nullptr : find_megatron_argument(arguments.back().name);
    const bool switch_before = last != nullptr && last->takes == Takes::Nothing;
    if (is_open(word.text) && (arguments.empty() || switch_before))
      run.notes.push_back(
          fmt::format("{}:{}:{}: {} is not known, so that arguments in it are missing; --var NAME=VALUE "
                      "gives a variable",
                      word.where.file, word.where.line, word.where.column, in_quotes(as_written(word.text))));
    else if (!arguments.empty())
      arguments.back().values.push_back(word.text);
  }
  return arguments;
}

GivenRun read_launch_script(const std::string& text, const std::string& name, const Variables& variables) {
  const ShellScript script = follow_script(text, name, variables);
  GivenRun run;
  run.notes = script.notes;
  Words training;
  std::size_t begin = 0;
  std::ptrdiff_t most = 0;
  for (const Words& command : script.commands) {
    const Words words = split_words(command);
    const std::size_t program = after_program(words);
    const std::ptrdiff_t known = program > 0 ? known_arguments(words, program) : 0;
    if (known <= most) continue;
    training = words;
    begin = program;
    most = known;
  }
  if (most > 0) {
    read_launcher(training, begin, run);
    run.read = fmt::format("the arguments of {} in {}", as_written(training[begin - 1].text), name);
  } else {
    training = listed_words(script);
    run.read = fmt::format("the arguments in {}", name);
  }
  run.arguments = arguments_of({training.begin() + static_cast<std::ptrdiff_t>(begin), training.end()}, run);
  if (run.arguments.empty())
    throw InputError({.file = name, .line = 1, .column = 1, .pointer = {}},
                     "no argument of Megatron-LM stands here; expected a script that starts a training, or a list such "
                     "as --num-layers 32");
  read_variables(script.variables, run);
  read_slurm_lines(text, run);
  return run;
}

}  // namespace dovetail::bench
