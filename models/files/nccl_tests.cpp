#include "models/files/nccl_tests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {
namespace {

constexpr std::array<std::pair<std::string_view, Collective>, 7> programs{
    {{"alltoall", Collective::AllToAll},
     {"all_gather", Collective::AllGather},
     {"reduce_scatter", Collective::ReduceScatter},
     {"all_reduce", Collective::AllReduce},
     {"broadcast", Collective::Broadcast},
     {"reduce", Collective::Reduce},
     {"sendrecv", Collective::Send}}};

// Of a program such as build/all_reduce_perf or alltoall_perf_mpi.
Collective collective_of(const Location& where, std::string_view program) {
  const std::string_view name = program.substr(program.find_last_of('/') + 1);
  const std::string_view test = name.substr(0, name.find("_perf"));
  std::string known;
  for (const auto& [each, collective] : programs) {
    if (each == test) return collective;
    known += fmt::format("{}{}_perf", known.empty() ? "" : ", ", each);
  }
  throw InputError(where, fmt::format("{}: no test of a collective that has costs, expected {}",
                                      in_quotes(std::string(program)), known));
}

// --- text ---

struct Word {
  std::string_view text;
  int column;
};

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back({line.substr(at, end - at), static_cast<int>(at) + 1});
    at = end;
  }
  return words;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

class TextReader {
 public:
  explicit TextReader(const std::string& file) : file_(file) { run_.file = file; }

  NcclTestsRun read(std::string_view text) {
    for (std::string_view line : lines_of(text)) {
      ++line_;
      const std::vector<Word> words = words_of(line);
      if (words.empty()) continue;
      if (words[0].text.starts_with('#'))
        comment(line, words);
      else if (number(words[0].text))
        row(words);  // all else is what other programs print between
    }
    if (time_ == 0)
      fail(1, 1, "no output of nccl-tests: expected its header \"# size count type ... time algbw busbw\"");
    if (run_.times.empty()) fail(line_, 1, "no rows of measurements, expected one for each size");
    run_.nodes = static_cast<int>(hosts_.size());
    return std::move(run_);
  }

 private:
  [[noreturn]] void fail(int line, int column, std::string_view message) const {
    throw InputError(Location{file_, line, column, ""}, message);
  }

  void comment(std::string_view line, const std::vector<Word>& words) {
    const auto at = [&](std::size_t i) { return i < words.size() ? words[i].text : std::string_view(); };
    constexpr std::string_view starting = "Collective test starting:";
    if (const std::size_t found = line.find(starting); found != std::string_view::npos)
      run_.collective = collective_of({file_, line_, words.back().column, ""}, words.back().text);
    const auto on = std::ranges::find(words, "on", &Word::text);
    if (at(1) == "Rank" && on != words.end() && on + 1 != words.end()) {
      ++run_.ranks;
      hosts_.emplace((on + 1)->text);
    }
    if (at(1) == "size" && at(2) == "count") header(words);
  }

  void header(const std::vector<Word>& words) {
    const auto time =
        std::ranges::find_if(words, [](const Word& w) { return w.text == "time" || w.text == "cputime"; });
    if (time == words.end()) fail(line_, 1, "a header without the column \"time\"");
    if (time->text == "cputime") fail(line_, time->column, "CPU times, expected those of the GPU: run without -C");
    time_ = static_cast<std::size_t>(time - words.begin()) - 1;  // without the #
    redop_ = words.size() > 4 && words[4].text == "redop";
    counts_wrong_ = time_ + 4 < words.size() && words[time_ + 4].text == "#wrong";
  }

  void row(const std::vector<Word>& words) {
    if (time_ == 0) fail(line_, 1, "numbers before the header of the table, expected the output of one nccl-test");
    // Collectives that reduce nothing leave the column blank in older versions.
    const bool blank = redop_ && words.size() > 3 && number(words[3].text).has_value();
    const std::size_t time = time_ - (blank ? 1 : 0);
    const double size = field(words, 0, "a size in bytes"), us = field(words, time, "a time in us");
    if (counts_wrong_ && time + 3 < words.size() && number(words[time + 3].text).value_or(0) > 0)
      fail(line_, words[time + 3].column, "wrong elements in the result: times of a run that fails are not used");
    if (size > 0) run_.times.push_back({size, Seconds(us * 1e-6)});
  }

  double field(const std::vector<Word>& words, std::size_t i, std::string_view what) const {
    if (i >= words.size())
      fail(line_, words.back().column + static_cast<int>(words.back().text.size()),
           fmt::format("the line ends, expected {}", what));
    const std::optional<double> value = number(words[i].text);
    if (!value || !std::isfinite(*value) || *value < 0 || (i > 0 && *value == 0))
      fail(line_, words[i].column, fmt::format("{}: expected {}", in_quotes(std::string(words[i].text)), what));
    return *value;
  }

  const std::string& file_;
  int line_ = 0;
  std::size_t time_ = 0;  // which column; 0: no header yet
  bool redop_ = false, counts_wrong_ = false;
  std::set<std::string_view> hosts_;
  NcclTestsRun run_;
};

// --- JSON ---

// `devices` has one entry for each process, whatever the ranks in it.
void read_devices(const JsonReader& config, NcclTestsRun& run) {
  const auto devices = config.find("devices");
  if (!devices) return;
  std::set<std::string> hosts;
  std::set<std::pair<std::string, int>> processes;
  for (const JsonReader& device : devices->elements()) {
    hosts.insert(device.string("hostname"));
    processes.emplace(device.string("hostname"), device.integer("pid"));
  }
  run.nodes = static_cast<int>(hosts.size());
  run.ranks =
      static_cast<int>(processes.size()) * config.integer("nthreads", 1, 1000) * config.integer("ngpus", 1, 1000);
}

NcclTestsRun read_json(const JsonFile& file) {
  const JsonReader json(file);
  NcclTestsRun run;
  run.file = file.name();
  const std::vector<JsonReader> arguments = json.at("args").elements();
  if (arguments.empty()) json.fail("args", "no arguments, expected the program first");
  run.collective = collective_of(file.locate(arguments[0].pointer()), arguments[0].string());
  if (const auto config = json.find("config")) read_devices(*config, run);
  for (const JsonReader& row : json.at("results").elements()) {
    const double size = row.number("size", 0);
    const JsonReader times = row.at("out_of_place");
    if (times.value().is_object() && times.has("cpu_time"))
      times.fail("cpu_time", "a CPU time, expected that of the GPU: run without -C");
    const JsonReader time = times.at("time");
    if (!(time.number(0) > 0)) time.fail("0: expected a time in us");
    if (const auto wrong = times.find("nwrong"); wrong && wrong->value().is_number() && wrong->number() > 0)
      wrong->fail("wrong elements in the result: times of a run that fails are not used");
    if (size > 0) run.times.push_back({size, Seconds(time.number() * 1e-6)});
  }
  if (run.times.empty()) json.fail("results", "no measurements, expected one for each size");
  return run;
}

}  // namespace

NcclTestsRun read_nccl_tests(const std::string& path, FilesRead& files) {
  std::string text = JsonFile::read_text(path);
  files[path] = text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return read_json(JsonFile::parse(std::move(text), path));
  return TextReader(path).read(text);
}

void merge_nccl_tests(Calibration& calibration, std::span<const NcclTestsRun> runs,
                      std::optional<Collective> collective, std::optional<LinkKind> link) {
  std::vector<CollectiveCost> costs;
  for (const NcclTestsRun& run : runs) {
    const Location where{run.file, 1, 1, ""};
    CollectiveCost cost;
    if (!run.collective && !collective) throw InputError(where, "which collective it does not say: add --collective");
    cost.collective = run.collective ? *run.collective : *collective;
    if (run.nodes == 0 && !link) throw InputError(where, "which nodes took part it does not say: add --link");
    cost.link = link ? *link : run.nodes > 1 ? LinkKind::Inter : LinkKind::Intra;
    cost.gpus = run.ranks;
    for (const CollectiveCost& other : costs)
      if (other.collective == cost.collective && other.link == cost.link &&
          (other.gpus == cost.gpus || other.gpus == 0 || cost.gpus == 0))
        throw InputError(where, fmt::format("a second {} on {} links of {} ranks, expected one",
                                            name_in(collective_names, cost.collective),
                                            name_in(link_kind_names, cost.link), cost.gpus));
    LineFit fit;
    try {
      fit = fit_line(run.times);
    } catch (const InputError& error) {
      throw InputError(where, error.what());
    }
    cost.alpha = fit.alpha;
    cost.beta = SecondsPerByte(fit.beta.value());
    cost.provenance = {Origin::Measured,
                       fmt::format("nccl-tests, {} out of place, {} ranks on {} nodes: {}",
                                   name_in(collective_names, cost.collective), run.ranks, run.nodes, run.file),
                       false, std::make_shared<const Fit>(std::move(fit.quality))};
    costs.push_back(std::move(cost));
  }
  for (const CollectiveCost& cost : costs) {
    std::erase_if(calibration.collectives, [&](const CollectiveCost& old) {
      return old.collective == cost.collective && old.link == cost.link;
    });
    if (cost.collective == Collective::AllToAll)  // costs by message would go before it
      std::erase_if(calibration.messages, [&](const MessageCost& old) { return old.link == cost.link; });
  }
  calibration.collectives.insert(calibration.collectives.end(), costs.begin(), costs.end());
}

}  // namespace dovetail
