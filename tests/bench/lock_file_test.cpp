// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/lock_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <utility>

#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

// A process that has done `work` and then waits to be killed.
class Other {
 public:
  explicit Other(const std::function<void()>& work) {
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) throw DeviceError("pipe", "failed");
    pid = ::fork();
    if (pid == 0) {
      work();
      [[maybe_unused]] const auto put = ::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    [[maybe_unused]] const auto got = ::read(ready[0], &byte, 1);
    for (const int end : ready) ::close(end);
  }
  ~Other() { end(); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void end(int signal = SIGKILL) {
    if (pid <= 0) return;
    ::kill(pid, signal);
    ::waitpid(std::exchange(pid, -1), nullptr, 0);
  }

  pid_t pid = -1;
};

}  // namespace

TEST_CASE("A lock leaves nothing") {
  const test::TemporaryFolder folder;
  {
    const LockFile lock("a");
    CHECK(fs::is_empty("a.lock"));
  }
  CHECK_FALSE(fs::exists("a.lock"));
}

TEST_CASE("A file that another process locks is refused with its number, until it ends") {
  const test::TemporaryFolder folder;
  folder.write("a", "x");
  fs::create_symlink("a", "link");
  Other other([] { new LockFile("a"); });
  for (const char* name : {"a", "./a", "link"})
    CHECK_THROWS_WITH(LockFile(name),
                      Contains(std::string(name) + " is in use by process " + std::to_string(other.pid)));
  CHECK_NOTHROW(LockFile("b"));
  other.end();
  CHECK(fs::exists("a.lock"));  // of the killed one
  CHECK_NOTHROW(LockFile("a"));
  CHECK_FALSE(fs::exists("a.lock"));
}

TEST_CASE("Children of the process that has a lock do not keep it") {
  const test::TemporaryFolder folder;
  std::array<int, 2> until{};
  REQUIRE(::pipe(until.data()) == 0);
  Other parent([&] {
    new LockFile("a");
    ::close(until[1]);
    char byte = 0;
    if (::fork() == 0) ::_exit(static_cast<int>(::read(until[0], &byte, 1)));  // lives until the pipe is closed
  });
  parent.end();
  CHECK_NOTHROW(LockFile("a"));
  for (const int end : until) ::close(end);
}

TEST_CASE("A signal that ends the process removes its lock file") {
  const test::TemporaryFolder folder;
  Other other([] {
    install_stop_signals();
    new LockFile("a");
  });
  CHECK(fs::exists("a.lock"));
  other.end(SIGTERM);
  CHECK_FALSE(fs::exists("a.lock"));
}

TEST_CASE("A lock waits for another process as long as it is told to") {
  const test::TemporaryFolder folder;
  Other other([] {
    new LockFile("a");
    ::alarm(1);  // ends it
  });
  CHECK_NOTHROW(LockFile("a", std::chrono::seconds(60)));
}

TEST_CASE("A file that happens to be called like a lock stays as it is") {
  const test::TemporaryFolder folder;
  folder.write("a.lock", "important");
  CHECK_THROWS_WITH(LockFile("a"), Contains("a.lock is not a lock of dovetail"));
  CHECK(fs::file_size("a.lock") == 9);
  folder.write("important", "");
  fs::create_symlink("important", "b.lock");
  CHECK_THROWS_AS(LockFile("b"), InputError);
  CHECK(fs::is_symlink("b.lock"));
}
