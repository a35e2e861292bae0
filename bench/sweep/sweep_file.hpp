// The results of a sweep as JSON lines: the first says what sweep it is, each of the others is a cell ("cell": number
// first). While the sweep runs, cells stand in the order in which they were finished; at the end they are sorted.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dovetail::bench {

// Where the line of each cell is, in one file or several of the same sweep.
class CellIndex {
 public:
  // `cells`: of the whole sweep.
  explicit CellIndex(std::int64_t cells) : places_(static_cast<std::size_t>(cells)) {}

  // Adds a file whose first line must be `header`, up to its last whole line; later lines of a cell do not count.
  // Returns the bytes of its whole lines. Throws InputError where the file is not of this sweep.
  std::int64_t add(const std::string& path, const nlohmann::ordered_json& header);

  bool has(std::int64_t cell) const { return places_[static_cast<std::size_t>(cell)].file >= 0; }
  std::int64_t count() const { return count_; }

  // The lines there are, by cell, without their line ends.
  void for_each(const std::function<void(std::string_view line)>& use) const;

 private:
  struct Place {
    std::int64_t offset = 0;
    int length = 0, file = -1;
  };
  std::vector<Place> places_;
  std::vector<std::string> files_;
  std::int64_t count_ = 0;
};

// The first line of a sweep's file. Throws InputError.
nlohmann::ordered_json read_sweep_header(const std::string& path);

// A file that finished cells are added to. What `add` has written outlives this process, and at most the last second's
// cells are lost where the machine fails.
class SweepLog {
 public:
  // Goes on behind `whole` bytes, or begins with the header.
  SweepLog(const std::string& path, const nlohmann::ordered_json& header, std::int64_t whole);
  ~SweepLog();
  SweepLog(const SweepLog&) = delete;
  SweepLog& operator=(const SweepLog&) = delete;
  void add(std::string_view lines);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace dovetail::bench
