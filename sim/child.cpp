// SPDX-License-Identifier: Apache-2.0
#include "sim/child.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace dovetail::sim {
namespace {

// Times follow, or a message.
enum class Answer : char { Times = 't', WrongInput = 'i', Failure = 'f', GaveUp = 'g' };

void write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file, at, size);
    if (written <= 0) ::_exit(1);
    at += written;
    size -= static_cast<std::size_t>(written);
  }
}

// Its parts, each but the last with a zero byte after it.
std::string packed(const InputError& error) {
  const Location& at = error.where();
  std::string text;
  for (const std::string& part : {at.file, std::to_string(at.line), std::to_string(at.column), at.pointer})
    text.append(part).push_back('\0');
  return text + error.message();
}

InputError unpacked(const std::string& text) {
  std::array<std::string, 4> parts;
  std::istringstream in(text);
  for (std::string& part : parts) std::getline(in, part, '\0');
  const std::string message(std::istreambuf_iterator<char>(in), {});
  return {Location{parts[0], std::stoi(parts[1]), std::stoi(parts[2]), parts[3]}, message};
}

[[noreturn]] void answer(int file, Answer kind, const void* data, std::size_t size) {
  write_all(file, &kind, 1);
  write_all(file, data, size);
  ::_exit(0);  // destructors are the parent's business
}

[[noreturn]] void be_child(int file, const std::function<Timeline()>& compute) {
  try {
    const Timeline timeline = compute();
    answer(file, Answer::Times, timeline.ops.data(), timeline.ops.size() * sizeof(Interval));
  } catch (const InputError& error) {
    const std::string text = packed(error);
    answer(file, Answer::WrongInput, text.data(), text.size());
  } catch (const InternalError& error) {
    answer(file, Answer::Failure, error.what(), std::strlen(error.what()));
  } catch (const std::exception& error) {
    answer(file, Answer::GaveUp, error.what(), std::strlen(error.what()));
  }
}

std::string read_all(int file) {
  std::string text;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(file, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

// Files that end with this process, or earlier with their owner.
class OwnFile {
 public:
  explicit OwnFile(int file) : file_(file) {
    if (file < 0) throw DeviceError("simgrid-flow", "no file for a child process");
  }
  ~OwnFile() { close(); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  operator int() const { return file_; }
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  int file_;
};

// The line of what SimGrid said that tells why it ended: "[0.000000] [xbt/CRITICAL] Assertion ... failed".
std::string essence(const std::string& said) {
  constexpr std::string_view mark = "/CRITICAL] ";
  const std::size_t critical = said.find(mark);
  const std::size_t first = critical == std::string::npos ? 0 : critical + mark.size();
  return said.substr(first, said.find('\n', first) - first);
}

std::string how_it_ended(int status, const std::string& said) {
  const std::string end = WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                              : fmt::format("ended with code {}", WEXITSTATUS(status));
  return fmt::format("SimGrid {}{}", end, said.empty() ? "" : ": " + essence(said));
}

}  // namespace

Timeline in_child(const std::function<Timeline()>& compute) {
  int ends[2];
  std::fflush(nullptr);
  if (::pipe(ends) != 0) throw DeviceError("simgrid-flow", "no pipe to a child process");
  OwnFile in(ends[0]), out(ends[1]), errors(::memfd_create("errors", MFD_CLOEXEC));
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw DeviceError("simgrid-flow", "no child process");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    for (const int each : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      std::signal(each, SIG_DFL);  // the parent tells of the end
    ::dup2(errors, STDERR_FILENO);
    in.close();
    be_child(out, compute);
  }
  out.close();
  const std::string text = read_all(in);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::lseek(errors, 0, SEEK_SET);
  const std::string said = read_all(errors);
  if (text.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ChildEnded("simgrid-flow", how_it_ended(status, said));
  const std::string rest = text.substr(1);
  switch (static_cast<Answer>(text.front())) {
    case Answer::WrongInput:
      throw unpacked(rest);
    case Answer::Failure:
      throw InternalError(rest);
    case Answer::GaveUp:
      throw ChildEnded("simgrid-flow", "SimGrid says: " + rest);
    case Answer::Times:
      break;
  }
  std::fwrite(said.data(), 1, said.size(), stderr);
  Timeline timeline;
  timeline.kind = ResultKind::Simulated;
  timeline.ops.resize(rest.size() / sizeof(Interval));
  std::memcpy(timeline.ops.data(), rest.data(), timeline.ops.size() * sizeof(Interval));
  return timeline;
}

}  // namespace dovetail::sim
