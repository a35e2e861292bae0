// SPDX-License-Identifier: Apache-2.0
// Mutated input files of every kind are used, or refused in one line: no crash, no other exception, no endless work.
// DOVETAIL_FUZZ_COUNT and DOVETAIL_FUZZ_SEED give another number of files and the first one; each has a seed of its
// own.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <typeinfo>

#include "models/base/errors.hpp"
#include "tests/fuzz/from_environment.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/temporary_folder.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

using namespace dovetail;
using namespace dovetail::test;

namespace {

constexpr unsigned longest = 120;  // seconds of one file, under sanitizers on a busy machine
constexpr std::size_t longest_message = 4000;

std::string doing;  // which file is used now

// Called while the program ends: nothing is allocated here.
void say_what_ended() {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, doing.data(), doing.size());
}

extern "C" void dovetail_fuzz_too_long(int /*signal*/) {
  std::abort();
}

extern "C" void dovetail_fuzz_crashed(int signal) {
  say_what_ended();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void watch() {
  ::signal(SIGALRM, dovetail_fuzz_too_long);
  ::signal(SIGABRT, dovetail_fuzz_crashed);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(say_what_ended);
#else
  for (const int each : {SIGSEGV, SIGFPE, SIGBUS}) ::signal(each, dovetail_fuzz_crashed);
  constexpr rlim_t most = rlim_t{4} << 30;  // bytes; sanitizers have a limit of their own
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

// Empty where the file was used, or refused as it should be.
std::string fault_of(const FuzzTarget& target, Dice& dice) {
  try {
    target.use(dice);
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.size() > longest_message)
      return fmt::format("a message of {} bytes: {}", what.size(), what.substr(0, 500));
  } catch (const std::exception& error) {
    return fmt::format("{} ({})", error.what(), typeid(error).name());
  }
  return "";
}

// With some of the systems and options that the dice choose: not every one takes every experiment.
void require_valid(const FuzzTarget& target, const std::string& seed) {
  constexpr std::uint64_t tries = 20;
  std::ofstream(target.file, std::ios::binary) << seed;
  std::string refusal;
  for (std::uint64_t i = 0; i < tries; ++i) try {
      Dice dice(i);
      return target.use(dice);
    } catch (const InputError& error) {
      refusal = error.what();
    }
  FAIL_CHECK(target.name << ": " << refusal);
}

}  // namespace

TEST_CASE("Mutated input files are used or refused") {
  const TemporaryFolder folder;
  const std::vector<FuzzTarget> targets = fuzz_targets();
  for (const FuzzTarget& target : targets)
    for (const std::string& seed : target.seeds) require_valid(target, seed);
  std::vector<std::size_t> choice;
  for (std::size_t i = 0; i < targets.size(); ++i)
    choice.insert(choice.end(), static_cast<std::size_t>(targets[i].weight), i);
  watch();
  const std::uint64_t first = from_environment("DOVETAIL_FUZZ_SEED", 1),
                      count = from_environment("DOVETAIL_FUZZ_COUNT", static_cast<std::uint64_t>(cases(2000)));
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Dice dice(seed);
    const FuzzTarget& target = targets[dice.pick(choice)];
    std::ofstream(target.file, std::ios::binary) << mutated(dice.pick(target.seeds), dice);
    doing = fmt::format("\nwhile using {}: {} (DOVETAIL_FUZZ_SEED={} DOVETAIL_FUZZ_COUNT=1)\n", target.name,
                        std::filesystem::absolute(target.file).string(), seed);
    ::alarm(longest);
    const std::string fault = fault_of(target, dice);
    ::alarm(0);
    const std::string command = last_command();
    if (fault.empty()) continue;
    const auto kept = std::filesystem::temp_directory_path() / fmt::format("dovetail-fuzz-{}-{}", seed, target.file);
    std::filesystem::copy_file(target.file, kept, std::filesystem::copy_options::overwrite_existing);
    UNSCOPED_INFO(fmt::format("seed {}, {}, {}, last command: {}", seed, target.name, kept.string(), command));
    FAIL_CHECK(fault);
  }
}
