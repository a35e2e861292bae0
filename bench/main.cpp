// SPDX-License-Identifier: Apache-2.0
// The command-line tool: picks the command, runs it and turns failures into one line and an exit code.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <new>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/usage.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/base/plain_text.hpp"
#include "models/base/streams.hpp"

namespace {

using namespace dovetail;
using bench::Exit;

Exit fail(Exit code, std::string_view message) {
  say(plain_text(message) + '\n');
  return code;
}

std::string version() {
  const BuildInfo build = build_info();
  return fmt::format("dovetail {} ({}{})", build.version, build.git_revision, build.git_dirty ? "-dirty" : "");
}

Exit run(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Finds the fastest schedule for training a Mixture-of-Experts model on a cluster: plans, simulates, runs it.",
      "dovetail");
  app.footer("dovetail COMMAND --help shows the options of a command, with examples.");
  app.set_version_flag("--version", version, "the version of this program")->group("General");
  bench::prepare_usage(app);
  std::vector<bench::Action> actions;
  for (const bench::Command& command : bench::commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    actions.push_back(command.declare(*sub));
    bench::prepare_usage(*sub);  // last, so that --help stands last
  }
  if (bench::parse(app, arguments) == bench::Parsed::Answered) return Exit::Ok;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (app.got_subcommand(std::string(bench::commands()[i].name))) return actions[i](arguments);
  throw InternalError("no command was chosen");
}

Exit run_and_report(const std::vector<std::string>& arguments) {
  try {
    const Exit code = run(arguments);
    finish_standard_output();
    return code;
  } catch (const InputError& error) {
    const bool in_file = error.where().line > 0;  // editors look for file:line:column at the start
    return fail(Exit::BadInput, (in_file ? "" : "dovetail: ") + std::string(error.what()));
  } catch (const DeviceError& error) {
    return fail(Exit::MissingDevice, fmt::format("dovetail: {}", error.what()));
  } catch (const InternalError& error) {
    return fail(Exit::Failure, fmt::format("dovetail: this is a bug, please report it: {}", error.what()));
  } catch (const bench::Stopped& stopped) {
    bench::end_by(stopped.signal);
    return Exit::Failure;
  } catch (const std::bad_alloc&) {
    return fail(Exit::Failure, "dovetail: out of memory");
  } catch (const std::exception& error) {
    return fail(Exit::Failure, fmt::format("dovetail: {}", error.what()));
  }
}

// A search makes one large schedule after the other. The system need not take back and clear the memory in between.
void keep_memory() {
#if defined(__GLIBC__)
  constexpr int mebibyte = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * mebibyte);
  mallopt(M_TRIM_THRESHOLD, 256 * mebibyte);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  prepare_streams();
  bench::install_stop_signals();
  const Exit code = run_and_report({argv, argv + argc});
  bench::end_if_stopped();
  return static_cast<int>(code);
}
