// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/usage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "bench/cli/help_format.hpp"
#include "bench/cli/megatron_names.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail::bench {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string help_of(const CLI::App& command) {
  return fmt::format("{}{} --help", command.get_parent() != nullptr ? "dovetail " : "", command.get_name());
}

// The first argument that nobody took, in the words of what it was meant to be.
void refuse_leftovers(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return;
  const std::string word = left.front().substr(0, left.front().find('='));
  if (word.starts_with("-") && word.size() > 1) {
    const std::string setting = megatron_setting(word);
    throw InputError(fmt::format(
        "unknown option {}{}; see {}", in_quotes(word),
        setting.empty() ? did_you_mean(word, option_names(command)) : fmt::format(", did you mean --set {}?", setting),
        help_of(command)));
  }
  if (command.get_parent() != nullptr)
    throw InputError(
        fmt::format("{}: {} is one argument too many; see {}", command.get_name(), in_quotes(word), help_of(command)));
  const std::vector<std::string> names = command_names(command);
  throw InputError(fmt::format("unknown command {}{}; expected one of {}", in_quotes(word), did_you_mean(word, names),
                               fmt::join(names, ", ")));
}

std::string in_our_words(const CLI::ParseError& error) {
  std::string text = error.what();  // "--nodes: 1 required COUNT missing"
  if (const auto colon = text.find(": 1 required "); colon != std::string::npos && text.ends_with(" missing"))
    return text.substr(0, colon) + ": its value is missing";
  if (error.get_name() == "ArgumentMismatch") return text.substr(0, text.find(':')) + ": given twice";
  return text;
}

}  // namespace

void prepare_usage(CLI::App& app) {
  app.allow_extras();
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", "this text");
  app.formatter(std::make_shared<HelpFormat>());
  app.get_help_ptr()->group("General");
  if (app.get_parent() != nullptr) app.group("Commands");
}

Parsed parse(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend() - 1);
  try {
    app.parse(reversed);
  } catch (const CLI::Success& success) {  // --help and --version
    app.exit(success);
    return Parsed::Answered;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    throw InputError(fmt::format("{}; see {}", in_our_words(error), help_of(chosen.empty() ? app : *chosen.front())));
  }
  refuse_leftovers(app);
  const auto chosen = app.get_subcommands();
  if (chosen.empty())
    throw InputError(fmt::format("no command given; expected one of {}", fmt::join(command_names(app), ", ")));
  refuse_leftovers(*chosen.front());
  return Parsed::Command;
}

}  // namespace dovetail::bench
