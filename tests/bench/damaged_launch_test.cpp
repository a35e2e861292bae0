// SPDX-License-Identifier: Apache-2.0
// Damaged launch scripts and configurations are read or refused, and nothing else happens.
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>

#include "bench/dependencies.hpp"
#include "bench/imports/given_run.hpp"
#include "bench/imports/megatron_import.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

constexpr std::array<std::string_view, 34> noise{
    "$",     "${", "}", "(",  ")",  "\"",      "'",    "`",    "$((",          "))", "\\",  "\n",
    " --",   "[",  "]", ":",  "- ", "{",       "\x01", "\xc3", "999999999999", "-1", "if ", "fi\n",
    "<<E\n", "*",  "&", "&&", "||", "${a:-${", "#",    "=",    "*x: &x ",      "|"};

std::string fixture(const char* name) {
  std::ifstream file(std::string(DOVETAIL_TEST_DATA "/launch/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string damaged(std::string text, std::mt19937& draw) {
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(draw); };
  for (std::size_t changes = 1 + below(5); changes > 0; --changes) {
    const std::size_t at = below(text.size()), length = std::min(below(1) * below(60), text.size() - at);
    text.replace(at, length, noise[below(noise.size() - 1)]);
  }
  return text;
}

// Whether the file is read; an error of the user's is the only other end.
bool is_read(std::string_view kind, const std::string& text) {
  const ImportRequest request{.model = kind == "deepspeed" ? "olmoe-1b-7b" : "", .name = "m", .source = "file"};
  try {
    if (kind == "deepspeed")
      import_deepspeed(JsonFile::parse(text, "file"), request);
    else if (kind == "json")
      import_megatron(read_json_arguments(text, "file", ""), request);
    else if (kind == "yaml")
      import_megatron(read_yaml_arguments(text, "file", {}), request);
    else
      import_megatron(read_launch_script(text, "file", {}), request);
    return true;
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return false;
  }
}

}  // namespace

TEST_CASE("damaged scripts, lists and configurations are read or refused") {
  const std::vector<std::pair<std::string_view, const char*>> files{{"script", "moe-16b.sh"},
                                                                    {"script", "list.txt"},
                                                                    {"yaml", "recipe.yaml"},
                                                                    {"json", "metadata.json"},
                                                                    {"deepspeed", "ds_config.json"}};
  constexpr int trials = 300;
  for (const auto& [kind, name] : files) {
    if (kind == "yaml" && found::has_yaml_cpp == 0) continue;
    const std::string text = fixture(name);
    INFO(name);
    CHECK(is_read(kind, text));
    std::mt19937 draw(7);
    int read = 0;
    for (int trial = 0; trial < trials; ++trial) {
      const std::string bad = damaged(text, draw);
      INFO(bad);
      bool whole = false;
      CHECK_NOTHROW(whole = is_read(kind, bad));
      read += whole ? 1 : 0;
    }
    CHECK(read < trials);  // the damage reaches what is read
  }
}
