#include "bench/sweep/sweep_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view cell_key = "{\"cell\":";

// The cell that a line is about; -1: none.
std::int64_t cell_of(std::string_view line) {
  std::int64_t cell = -1;
  if (line.starts_with(cell_key)) std::from_chars(line.data() + cell_key.size(), line.data() + line.size(), cell);
  return cell;
}

std::ifstream open(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return in;
}

}  // namespace

Json read_sweep_header(const std::string& path) {
  std::ifstream in = open(path);
  std::string line;
  std::getline(in, line);
  Json header = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object() || header.value("kind", "") != "sweep")
    throw InputError(fmt::format("{}: not a result of dovetail sweep", path));
  return header;
}

std::int64_t CellIndex::add(const std::string& path, const Json& header) {
  if (read_sweep_header(path) != header)
    throw InputError(
        fmt::format("{} is of another sweep (another grid, input file, version or option): finish or remove it", path));
  const int file = static_cast<int>(files_.size());
  files_.push_back(path);
  std::ifstream in = open(path);
  std::int64_t whole = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // at the end: cut off, so never written
    const std::int64_t cell = cell_of(line);
    if (cell >= static_cast<std::int64_t>(places_.size()) || (cell < 0 && whole > 0))
      throw InputError(fmt::format("{}: \"{}\" is no cell of this sweep", path, line.substr(0, 40)));
    if (cell >= 0 && !has(cell)) {
      places_[static_cast<std::size_t>(cell)] = {whole, static_cast<int>(line.size()), file};
      ++count_;
    }
    whole += static_cast<std::int64_t>(line.size()) + 1;
  }
  return whole;
}

void CellIndex::for_each(const std::function<void(std::string_view)>& use) const {
  std::vector<std::ifstream> in;
  for (const std::string& path : files_) in.push_back(open(path));
  std::string line;
  for (const Place& place : places_) {
    if (place.file < 0) continue;
    std::ifstream& from = in[static_cast<std::size_t>(place.file)];
    line.resize(static_cast<std::size_t>(place.length));
    if (!from.seekg(place.offset).read(line.data(), place.length))
      throw DeviceError(files_[static_cast<std::size_t>(place.file)], "cannot be read again");
    use(line);
  }
}

SweepLog::SweepLog(const std::string& path, const Json& header, std::int64_t whole) : path_(path) {
  if (whole > 0) std::filesystem::resize_file(path, static_cast<std::uintmax_t>(whole));
  file_ = std::fopen(path.c_str(), whole > 0 ? "a" : "w");
  if (file_ == nullptr) throw InputError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  if (whole == 0) add(header.dump() + '\n');
}

SweepLog::~SweepLog() {
  std::fclose(file_);
}

void SweepLog::add(std::string_view lines) {
  const auto now = std::chrono::steady_clock::now();
  const bool sync = now - synced_ >= std::chrono::seconds(1);  // each takes some milliseconds
  const bool written = std::fwrite(lines.data(), 1, lines.size(), file_) == lines.size() && std::fflush(file_) == 0 &&
                       (!sync || fdatasync(fileno(file_)) == 0);
  if (!written) throw DeviceError(path_, std::strerror(errno));
  if (sync) synced_ = now;
}

}  // namespace dovetail::bench
