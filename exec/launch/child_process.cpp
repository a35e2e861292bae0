// SPDX-License-Identifier: Apache-2.0
#include "exec/launch/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw DeviceError("pipe2", std::strerror(errno), errno);
  return {ends[0], ends[1]};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** entry = ::environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const auto& [name, value] : added) {
    std::erase_if(all, [&](const std::string& entry) { return entry.starts_with(name + "="); });
    all.push_back(name + "=" + value);
  }
  return all;
}

struct Redirections {
  int in, out, err, failure;
};

// After fork only what POSIX allows in a program with threads. Ends with this program: nobody would stop it.
[[noreturn]] void become(char* const* command, char** environment, Redirections to, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it went before it could be asked for that
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(to.in >= 0 ? to.in : ::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(to.out, STDOUT_FILENO);
  ::dup2(to.err, STDERR_FILENO);
  ::environ = environment;
  ::execvp(command[0], command);
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(to.failure, &reason, sizeof reason);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::vector<std::pair<std::string, std::string>>& environment, int input) {
  std::vector<std::string> words = command, variables = environment_with(environment);
  const std::vector<char*> arguments = pointers(words);
  std::vector<char*> entries = pointers(variables);
  const Pipe output = make_pipe(), errors = make_pipe(), failure = make_pipe();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0)
    become(arguments.data(), entries.data(), {input, output.write_end, errors.write_end, failure.write_end}, parent);
  const int fork_error = errno;
  for (const int end : {output.write_end, errors.write_end, failure.write_end}) ::close(end);
  pipes_ = {output.read_end, errors.read_end};
  int reason = pid_ < 0 ? fork_error : 0;
  if (pid_ > 0 && ::read(failure.read_end, &reason, sizeof reason) <= 0) reason = 0;
  ::close(failure.read_end);
  if (reason == 0) {
    for (const int pipe : pipes_) ::fcntl(pipe, F_SETFL, O_NONBLOCK);
    return;
  }
  for (const int pipe : pipes_) ::close(pipe);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  throw DeviceError(command.front(), std::strerror(reason), reason);
}

ChildProcess::~ChildProcess() {
  constexpr std::chrono::seconds patience{
      15};  // a launcher ends its own processes in 1 to 2 s, on a full machine in 10
  if (!ended()) {
    ::kill(-pid_, SIGTERM);
    for (const auto end = std::chrono::steady_clock::now() + patience;
         !ended() && std::chrono::steady_clock::now() < end; read(0))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(-pid_, SIGKILL);
    status();
  }
  for (const int pipe : pipes_)
    if (pipe >= 0) ::close(pipe);
}

bool ChildProcess::read(int milliseconds) {
  std::array<pollfd, 2> waited{};
  for (std::size_t i = 0; i < 2; ++i) waited[i] = {pipes_[i], POLLIN, 0};  // poll passes over negative ones
  ::poll(waited.data(), waited.size(), milliseconds);
  const bool out_open = drain(0), err_open = drain(1);
  return out_open || err_open || !ended();
}

bool ChildProcess::drain(std::size_t which) {
  std::array<char, 1 << 16> buffer{};
  std::string& text = which == 0 ? out : err;
  while (pipes_[which] >= 0) {
    const ssize_t size = ::read(pipes_[which], buffer.data(), buffer.size());
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
    } else if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    } else {
      ::close(pipes_[which]);
      pipes_[which] = -1;
    }
  }
  return pipes_[which] >= 0;
}

bool ChildProcess::ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

int ChildProcess::status() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, 0) == pid_) status_ = status;
  return status_.value_or(0);
}

}  // namespace dovetail::exec
