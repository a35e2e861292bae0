// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_device/command_order.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "models/base/errors.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

// The lane's command before, the record that is waited for, and the host's last wait.
std::vector<std::vector<std::size_t>> edges(std::span<const LoggedCommand> log) {
  std::map<std::int32_t, std::size_t> recorded;
  for (std::size_t i = 0; i < log.size(); ++i)
    if (log[i].records != 0) recorded[log[i].records] = i;
  std::vector<std::vector<std::size_t>> before(log.size());
  std::map<deferred::LaneId, std::size_t> last;
  std::optional<std::size_t> host;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (const auto found = last.find(log[i].lane); found != last.end()) before[i].push_back(found->second);
    if (const auto found = recorded.find(log[i].waits_for); found != recorded.end()) before[i].push_back(found->second);
    if (host) before[i].push_back(*host);
    if (log[i].host_waits)
      host = i;
    else
      last[log[i].lane] = i;
  }
  return before;
}

struct Access {
  deferred::Range bytes;
  std::size_t command;
  bool writes;
};

}  // namespace

CommandOrder::CommandOrder(std::span<const LoggedCommand> log)
    : before_(log.size(), std::vector<std::uint64_t>((log.size() + bits - 1) / bits)) {
  const auto direct = edges(log);
  std::vector<std::vector<std::size_t>> after(log.size());
  std::vector<std::size_t> missing(log.size()), ready;
  for (std::size_t i = 0; i < log.size(); ++i) {
    missing[i] = direct[i].size();
    for (std::size_t one : direct[i]) after[one].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  for (std::size_t done = 0; done < ready.size(); ++done) {
    const std::size_t i = ready[done];
    for (std::size_t one : direct[i]) {
      before_[i][one / bits] |= std::uint64_t{1} << (one % bits);
      for (std::size_t word = 0; word < before_[i].size(); ++word) before_[i][word] |= before_[one][word];
    }
    for (std::size_t next : after[i])
      if (--missing[next] == 0) ready.push_back(next);
  }
  check(ready.size() == log.size(), "commands wait for one another in a circle");
}

std::vector<CommandPair> unordered_accesses(std::span<const LoggedCommand> log) {
  const CommandOrder order(log);
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < log.size(); ++i) {
    for (const auto& bytes : log[i].reads) accesses.push_back({bytes, i, false});
    for (const auto& bytes : log[i].writes) accesses.push_back({bytes, i, true});
  }
  std::ranges::sort(accesses, {}, [](const Access& a) { return a.bytes.first; });
  std::vector<CommandPair> found;
  std::vector<const Access*> open;  // that reach the current byte
  for (const Access& a : accesses) {
    std::erase_if(open, [&](const Access* b) { return b->bytes.last <= a.bytes.first; });
    for (const Access* b : open)
      if ((a.writes || b->writes) && a.command != b->command && !order.before(a.command, b->command) &&
          !order.before(b->command, a.command))
        found.push_back({a.command, b->command});
    open.push_back(&a);
  }
  return found;
}

}  // namespace dovetail::test
