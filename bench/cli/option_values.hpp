// SPDX-License-Identifier: Apache-2.0
// Declares one option each and checks its value: a wrong one becomes an InputError that names the option.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail::bench {

// How --help shows an option: `value` is what to write after it ("FILE"), `group` the heading it stands under.
struct Shown {
  std::string names, value, help, group;
};

void add_text(CLI::App& app, const Shown& shown, std::string& target);
void add_integer(CLI::App& app, const Shown& shown, int& target, int min, int max);
void add_number(CLI::App& app, const Shown& shown, double& target, double min, double max);
void add_flag(CLI::App& app, const Shown& shown, bool& target);

// May be given several times. add_list also takes several values at once: "a,b,c".
void add_repeatable(CLI::App& app, const Shown& shown, std::vector<std::string>& target);
// The same, where each text is for `take`.
using Take = std::function<void(const std::string& text)>;
void add_repeatable(CLI::App& app, const Shown& shown, const Take& take);
void add_list(CLI::App& app, const Shown& shown, std::vector<std::string>& target);

// The index of `text` in `names`; throws with the nearest and all names.
std::size_t choose(std::string_view option, const std::string& text, const std::vector<std::string>& names);

// Table: a range of pair<string_view, Enum>.
template <class Table, class Target>
void add_choice(CLI::App& app, const Shown& shown, const Table& table, Target& target) {
  std::vector<std::string> names;
  for (const auto& [name, value] : table) names.emplace_back(name);
  const std::string option = shown.names.substr(0, shown.names.find(','));
  app.add_option_function<std::string>(
         shown.names,
         [option, names, &table, &target](const std::string& text) {
           target = std::begin(table)[choose(option, text, names)].second;
         },
         shown.help)
      ->type_name(shown.value)
      ->group(shown.group);
}

}  // namespace dovetail::bench
