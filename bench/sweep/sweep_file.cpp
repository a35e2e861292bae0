// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "bench/pipeline/differences.hpp"
#include "bench/pipeline/json_line.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

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
  JsonLine(path, 1, line).read(read_sweep_shape);
  return Json::parse(line);
}

CellIndex::CellIndex(Json header)
    : header_(std::move(header)),
      shape_(JsonLine("the header of the sweep", 1, header_.dump()).read(read_sweep_shape)),
      places_(static_cast<std::size_t>(shape_.cells)) {}

std::int64_t CellIndex::add(const std::string& path) {
  if (const Json there = read_sweep_header(path); there != header_)
    throw InputError(Location{path, 1, 1, ""},
                     fmt::format("this file belongs to another sweep ({}): finish that one, or remove the file",
                                 differences(there, header_)));
  const int file = static_cast<int>(files_.size());
  files_.push_back(path);
  std::ifstream in = open(path);
  std::int64_t whole = 0;
  long number = 1;
  for (std::string line; std::getline(in, line) && !in.eof(); ++number) {  // at the end: cut off, so never written
    if (number > 1) add_line(line, {whole, static_cast<int>(line.size()), file}, number);
    whole += std::ssize(line) + 1;
  }
  return whole;
}

void CellIndex::add_line(const std::string& line, Place place, long number) {
  const std::string& path = files_[static_cast<std::size_t>(place.file)];
  CellLine cell =
      JsonLine(path, number, line).read([&](const JsonReader& json) { return read_cell_line(json, shape_); });
  Place& known = places_[static_cast<std::size_t>(cell.cell)];
  if (known.file >= 0) {
    if (line_at(known) == line) return;
    throw InputError(Location{path, static_cast<int>(number), 1, ""},
                     fmt::format("cell {} stands here again, with another result than in {}", cell.cell,
                                 files_[static_cast<std::size_t>(known.file)]));
  }
  known = place;
  ++count_;
  if (cell.refusal.empty()) return;
  if (bug_.empty() && cell.refusal.starts_with(a_bug)) bug_ = fmt::format("cell {}: {}", cell.cell, cell.refusal);
  if (refused_++ == 0 || cell.cell < first_refusal_.cell) first_refusal_ = std::move(cell);
}

void CellIndex::require_a_result() const {
  if (count_ > 0 && refused_ == count_)
    throw InputError(fmt::format("every cell is refused; the first: {}", first_refusal_.refusal));
}

std::string CellIndex::line_at(const Place& place) const {
  std::ifstream in = open(files_[static_cast<std::size_t>(place.file)]);
  std::string line(static_cast<std::size_t>(place.length), '\0');
  in.seekg(place.offset).read(line.data(), place.length);
  return line;
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

}  // namespace dovetail::bench
