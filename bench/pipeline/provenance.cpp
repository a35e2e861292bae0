// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "bench/cli/libraries.hpp"
#include "models/base/build_info.hpp"
#include "models/files/sha256.hpp"

namespace dovetail::bench {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

}  // namespace

RunProvenance provenance(const std::vector<std::string>& command_line, const FilesRead& files, int seed) {
  const BuildInfo build = build_info();
  RunProvenance p;
  p.version = build.version;
  p.git_revision = build.git_revision + (build.git_dirty ? "-dirty" : "");
  p.host = host_name();
  p.compiler = build.compiler + ", " + build.build_type;
  p.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  p.command_line = command_line;
  for (const Library& library : libraries())
    if (library.presence == Presence::BuiltIn) p.libraries[library.name] = library.version;
  for (const auto& [file, text] : files)
    if (std::string digest = sha256(text); !digest.empty()) p.input_sha256[file] = std::move(digest);
  p.seed = static_cast<unsigned long>(seed);
  return p;
}

}  // namespace dovetail::bench
