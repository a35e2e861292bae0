#include "bench/pipeline/journal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::bench {

using Json = nlohmann::ordered_json;

Journal::Journal(std::string path, const Json& work) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) read(work);
  file_ = std::fopen(path_.c_str(), "a");
  if (file_ == nullptr) throw InputError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  if (std::filesystem::file_size(path_) == 0) add(work);
}

Journal::~Journal() {
  if (file_ != nullptr) std::fclose(file_);
}

void Journal::read(const Json& work) {
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::size_t whole = 0;  // bytes of whole lines
  for (std::size_t end; (end = text.find('\n', whole)) != std::string::npos; whole = end + 1) {
    Json line = Json::parse(std::string_view(text).substr(whole, end - whole), nullptr, /*allow_exceptions=*/false);
    if (line.is_discarded()) break;
    if (whole > 0)
      finished_.push_back(std::move(line));
    else if (line != work)
      throw InputError(fmt::format(
          "{} was begun by other work (another grid, version or option): finish it or remove the file", path_));
  }
  std::filesystem::resize_file(path_, whole);
}

void Journal::add(const Json& part) {
  const std::string line = part.dump() + '\n';
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0 &&
                       fdatasync(fileno(file_)) == 0;
  if (!written) throw DeviceError(path_, std::strerror(errno));
}

void Journal::remove() {
  std::fclose(std::exchange(file_, nullptr));
  std::filesystem::remove(path_);
}

}  // namespace dovetail::bench
