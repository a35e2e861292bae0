// SPDX-License-Identifier: Apache-2.0
#include "models/files/nccl_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/base/json/json_text.hpp"
#include "models/files/input_file.hpp"
#include "models/files/nccl_agreement.hpp"

namespace dovetail {
namespace {

struct Word {
  std::string_view text;
  int column;
};

std::vector<Word> words_of(std::string_view line, int first_column) {
  std::vector<Word> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back({line.substr(at, end - at), static_cast<int>(at) + first_column});
    at = end;
  }
  return words;
}

// A tag that mpirun --tag-output or srun --label puts before a line:
// "[1,0]<stdout>:", "[prterun-node-7@1,0]<stdout>: ", "0: ".
std::string_view tag_of(std::string_view line) {
  std::size_t end = 0;
  if (line.starts_with('[')) {
    end = std::min(line.find(']'), line.size());
    if (line.substr(0, end).find(',') == std::string_view::npos) return {};
    end = line.find(':', end);
    return end == std::string_view::npos ? std::string_view() : line.substr(0, end + 1);
  }
  end = line.find_first_not_of(" 0123456789");
  return end != std::string_view::npos && end > 0 && line.substr(end).starts_with(": ") ? line.substr(0, end + 1)
                                                                                        : std::string_view();
}

std::optional<double> number_of(std::string_view text) {
  const std::optional<Printed> printed = printed_number(text);
  return printed ? std::optional(printed->value) : std::nullopt;
}

class TextReader {
 public:
  explicit TextReader(const std::string& file) : file_(file) {}

  std::vector<NcclTestsRun> read(std::string_view text) {
    begin_test();
    for (std::string_view line : lines_of(text)) {
      ++line_;
      const std::string_view tag = tag_of(line);
      const std::vector<Word> words = words_of(line.substr(tag.size()), static_cast<int>(tag.size()) + 1);
      if (words.empty()) continue;
      if (words[0].text.starts_with('#'))
        comment(line, words, tag);
      else if (number_of(words[0].text))
        row(words, tag);  // all else is what other programs print between
    }
    end_test();
    return std::move(runs_);
  }

 private:
  [[noreturn]] void fail(int line, int column, std::string_view message) const {
    throw InputError(Location{file_, line, column, ""}, message);
  }

  void begin_test() {
    run_ = {};
    run_.file = file_;
    run_.line = std::max(line_, 1);
    began_ = settings_ = redop_ = bandwidths_ = counts_wrong_ = false;
    time_ = 0;
    known_ranks_.clear();
    tag_ = {};
  }

  void end_test() {
    if (time_ == 0)
      fail(run_.line, 1, "no output of nccl-tests: expected its header \"# size count type ... time algbw busbw\"");
    if (run_.rows.empty()) fail(line_, 1, "no rows of measurements, expected one for each size");
    set_ranks(run_, run_.collective);
    runs_.push_back(std::move(run_));
  }

  // A line that comes once in each test begins another where the test at hand is beyond it.
  void next_test(bool beyond) {
    if (!beyond) return;
    end_test();
    begin_test();
  }

  // Processes that were built without MPI each run a test of their own, at the same time.
  void of_one_process(std::string_view tag, int column) {
    if (!began_) tag_ = tag;
    began_ = true;
    if (tag != tag_)
      fail(line_, column,
           "a second process prints a table: tests that run at once cannot be told apart. Was it built "
           "with MPI=1?");
  }

  void comment(std::string_view line, const std::vector<Word>& words, std::string_view tag) {
    const auto at = [&](std::size_t i) { return i < words.size() ? words[i].text : std::string_view(); };
    constexpr std::string_view starting = "Collective test starting:";
    if (line.find(starting) != std::string_view::npos) {
      next_test(began_);
      of_one_process(tag, words[0].column);
      run_.collective = nccl_collective({file_, line_, words.back().column, ""}, words.back().text);
    } else if (at(1) == "nThread") {
      next_test(settings_ || time_ != 0);
      of_one_process(tag, words[0].column);
      settings_ = true;
    } else if (at(1) == "Rank") {
      next_test(time_ != 0);
      rank(words, tag);
    } else if (at(1) == "size" && at(2) == "count") {
      next_test(time_ != 0);
      of_one_process(tag, words[0].column);
      header(words);
    }
  }

  // "#  Rank  0 Group  0 Pid 7 on host device 0 [0x00] GPU".
  void rank(const std::vector<Word>& words, std::string_view tag) {
    const auto after = [&](std::string_view word) {
      const auto found = std::ranges::find(words, word, &Word::text);
      return found == words.end() || found + 1 == words.end() ? std::string_view() : (found + 1)->text;
    };
    const std::string_view host = after("on");
    if (host.empty()) return;
    of_one_process(tag, words[0].column);
    const std::optional<double> rank = number_of(after("Rank")), device = number_of(after("device"));
    if (!rank || *rank < 0 || *rank >= most_nccl_ranks)
      fail(line_, words[0].column, fmt::format("rank {}, expected a whole number", in_quotes(after("Rank"))));
    if (!known_ranks_.emplace(static_cast<int>(*rank)).second)
      fail(line_, words[0].column,
           fmt::format("rank {} twice: tests that run at once cannot be told apart. Was it built with MPI=1?", *rank));
    run_.listed.push_back({{file_, line_, words[0].column, ""},
                           static_cast<int>(*rank),
                           std::string(host),
                           std::string(after("Group")),
                           device ? static_cast<int>(*device) : -1});
  }

  void header(const std::vector<Word>& words) {
    const auto time =
        std::ranges::find_if(words, [](const Word& w) { return w.text == "time" || w.text == "cputime"; });
    if (time == words.end()) fail(line_, 1, "a header without the column \"time\"");
    if (time->text == "cputime") fail(line_, time->column, "CPU times, expected those of the GPU: run without -C");
    time_ = static_cast<std::size_t>(time - words.begin()) - 1;  // without the #
    redop_ = words.size() > 4 && words[4].text == "redop";
    bandwidths_ = time_ + 3 < words.size() && words[time_ + 2].text == "algbw" && words[time_ + 3].text == "busbw";
    counts_wrong_ = time_ + 4 < words.size() && words[time_ + 4].text == "#wrong";
  }

  void row(const std::vector<Word>& words, std::string_view tag) {
    if (time_ == 0) fail(line_, 1, "numbers before the header of the table, expected the output of nccl-tests");
    of_one_process(tag, words[0].column);
    // Collectives that reduce nothing leave the column blank in older versions.
    const bool blank = redop_ && words.size() > 3 && number_of(words[3].text).has_value();
    const std::size_t time = time_ - (blank ? 1 : 0);
    NcclTestsRow row{{file_, line_, words[0].column, ""}, field(words, 0, "a size in bytes").value, {}};
    row.us = field(words, time, "a time in us");
    if (counts_wrong_ && time + 3 < words.size() && number_of(words[time + 3].text).value_or(0) > 0)
      fail(line_, words[time + 3].column, "wrong elements in the result: times of a run that fails are not used");
    if (row.size <= 0) return;
    if (!run_.rows.empty() && row.size < run_.rows.back().size)
      fail(line_, words[0].column,
           "sizes start again without a header: tests that do not say where they begin cannot "
           "be told apart, expected a file for each");
    row.count = field(words, 1, "a count of elements").value;
    row.element = nccl_element_bytes({file_, line_, words[2].column, ""}, words[2].text);
    if (bandwidths_) {
      row.algorithm_bandwidth = bandwidth(words, time + 1);
      row.bus_bandwidth = bandwidth(words, time + 2);
    }
    run_.rows.push_back(std::move(row));
  }

  Printed bandwidth(const std::vector<Word>& words, std::size_t i) const {
    constexpr std::string_view what = "a bandwidth in GB/s";
    if (i < words.size() && number_of(words[i].text) == 0) return printed_number(words[i].text).value();
    return field(words, i, what);
  }

  Printed field(const std::vector<Word>& words, std::size_t i, std::string_view what) const {
    if (i >= words.size())
      fail(line_, words.back().column + static_cast<int>(words.back().text.size()),
           fmt::format("the line ends, expected {}", what));
    const std::optional<Printed> value = printed_number(words[i].text);
    if (!value || value->value < 0 || (i > 0 && value->value == 0))
      fail(line_, words[i].column, fmt::format("{}: expected {}", in_quotes(std::string(words[i].text)), what));
    return *value;
  }

  const std::string& file_;
  int line_ = 0;
  std::vector<NcclTestsRun> runs_;
  // These are about the test at hand.
  NcclTestsRun run_;
  bool began_ = false, settings_ = false;  // whether any of its lines was read; that of its settings
  std::size_t time_ = 0;                   // which column; 0: no header yet
  bool redop_ = false, bandwidths_ = false, counts_wrong_ = false;  // columns that its header has
  std::set<int> known_ranks_;
  std::string_view tag_;
};

}  // namespace

std::vector<NcclTestsRun> read_nccl_text(const std::string& file, std::string_view text) {
  return TextReader(file).read(text);
}

}  // namespace dovetail
