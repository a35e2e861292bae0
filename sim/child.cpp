#include "sim/child.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>

#include "models/base/errors.hpp"

namespace dovetail::sim {
namespace {

// Times follow, or a message.
enum class Answer : char { Times = 't', WrongInput = 'i', Failure = 'f' };

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
  } catch (const std::exception& error) {
    answer(file, Answer::Failure, error.what(), std::strlen(error.what()));
  }
}

std::string read_all(int file) {
  std::string text;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

}  // namespace

Timeline in_child(const std::function<Timeline()>& compute) {
  int ends[2];
  std::fflush(nullptr);
  if (::pipe(ends) != 0) throw DeviceError("simgrid-flow", "no pipe to a child process");
  const pid_t child = ::fork();
  if (child < 0) throw DeviceError("simgrid-flow", "no child process");
  if (child == 0) {
    ::close(ends[0]);
    be_child(ends[1], compute);
  }
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (text.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw DeviceError("simgrid-flow", "SimGrid gave up; what it says is above");
  const std::string rest = text.substr(1);
  switch (static_cast<Answer>(text.front())) {
    case Answer::WrongInput:
      throw unpacked(rest);
    case Answer::Failure:
      throw InternalError(rest);
    case Answer::Times:
      break;
  }
  Timeline timeline;
  timeline.kind = ResultKind::Simulated;
  timeline.ops.resize(rest.size() / sizeof(Interval));
  std::memcpy(timeline.ops.data(), rest.data(), timeline.ops.size() * sizeof(Interval));
  return timeline;
}

}  // namespace dovetail::sim
