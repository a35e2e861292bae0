#include "models/files/nccl_tests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/price/collective_price.hpp"

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

// Reads the name of a program such as build/all_reduce_perf or alltoall_perf_mpi.
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

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// How many members each of the nodes has; 0: not the same number.
template <class Counts>
int members_of_each(const Counts& by_host) {
  if (by_host.empty()) return 0;
  const int first = by_host.begin()->second;
  return std::ranges::all_of(by_host, [&](const auto& host) { return host.second == first; }) ? first : 0;
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
      else if (number(words[0].text))
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
    began_ = settings_ = redop_ = counts_wrong_ = false;
    time_ = 0;
    hosts_.clear();
    known_ranks_.clear();
    group_ = tag_ = {};
  }

  void end_test() {
    if (time_ == 0)
      fail(run_.line, 1, "no output of nccl-tests: expected its header \"# size count type ... time algbw busbw\"");
    if (run_.times.empty()) fail(line_, 1, "no rows of measurements, expected one for each size");
    run_.nodes = static_cast<int>(hosts_.size());
    run_.members_per_node = members_of_each(hosts_);
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
      run_.collective = collective_of({file_, line_, words.back().column, ""}, words.back().text);
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

  // "#  Rank  0 Group  0 Pid 7 on host device 0 [0x00] GPU". Several groups that run at once are alike.
  void rank(const std::vector<Word>& words, std::string_view tag) {
    const auto after = [&](std::string_view word) {
      const auto found = std::ranges::find(words, word, &Word::text);
      return found == words.end() || found + 1 == words.end() ? std::string_view() : (found + 1)->text;
    };
    const std::string_view host = after("on"), number = after("Rank"), group = after("Group");
    if (host.empty()) return;
    of_one_process(tag, words[0].column);
    if (!known_ranks_.emplace(number).second)
      fail(line_, words[0].column,
           fmt::format("rank {} twice: tests that run at once cannot be told apart. Was it "
                       "built with MPI=1?",
                       number));
    if (run_.ranks == 0) group_ = group;
    if (group != group_) return;
    ++run_.ranks;
    ++hosts_[host];
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

  void row(const std::vector<Word>& words, std::string_view tag) {
    if (time_ == 0) fail(line_, 1, "numbers before the header of the table, expected the output of nccl-tests");
    of_one_process(tag, words[0].column);
    // Collectives that reduce nothing leave the column blank in older versions.
    const bool blank = redop_ && words.size() > 3 && number(words[3].text).has_value();
    const std::size_t time = time_ - (blank ? 1 : 0);
    const double size = field(words, 0, "a size in bytes"), us = field(words, time, "a time in us");
    if (counts_wrong_ && time + 3 < words.size() && number(words[time + 3].text).value_or(0) > 0)
      fail(line_, words[time + 3].column, "wrong elements in the result: times of a run that fails are not used");
    if (size <= 0) return;
    if (!run_.times.empty() && size < run_.times.back().size)
      fail(line_, words[0].column,
           "sizes start again without a header: tests that do not say where they begin cannot "
           "be told apart, expected a file for each");
    run_.times.push_back({size, Seconds(us * 1e-6)});
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
  std::vector<NcclTestsRun> runs_;
  // These are about the test at hand.
  NcclTestsRun run_;
  bool began_ = false, settings_ = false;  // whether any of its lines was read; that of its settings
  std::size_t time_ = 0;                   // which column; 0: no header yet
  bool redop_ = false, counts_wrong_ = false;
  std::map<std::string_view, int> hosts_;  // ranks on each
  std::set<std::string_view> known_ranks_;
  std::string_view group_, tag_;
};

// --- JSON ---

// `devices` has one entry for each process, whatever the ranks in it.
void read_devices(const JsonReader& config, NcclTestsRun& run) {
  const auto devices = config.find("devices");
  if (!devices) return;
  std::set<std::pair<std::string, int>> processes;
  for (const JsonReader& device : devices->elements())
    processes.emplace(device.string("hostname"), device.integer("pid"));
  const int ranks_of_each = config.integer("nthreads", 1, 1000) * config.integer("ngpus", 1, 1000);
  std::map<std::string, int> hosts;
  for (const auto& [host, pid] : processes) hosts[host] += ranks_of_each;
  run.nodes = static_cast<int>(hosts.size());
  run.ranks = static_cast<int>(processes.size()) * ranks_of_each;
  run.members_per_node = members_of_each(hosts);
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

// --- fitting ---

Location place(const NcclTestsRun& run) {
  return {run.file, run.line, 1, ""};
}

void require_told_apart(const NcclTestsRun& run, std::span<const NcclTestsRun> runs) {
  if (run.collective) return;
  for (const NcclTestsRun& other : runs)
    if (other.file == run.file && other.line != run.line)
      throw InputError(place(run), fmt::format("several tests in one file, of which this one does not say its "
                                               "collective: expected a file of its own with --collective"));
}

CollectiveCost fitted(const NcclTestsRun& run, std::optional<Collective> collective, std::optional<LinkKind> link) {
  if (!run.collective && !collective)
    throw InputError(place(run), "the output does not say which collective it measured: add --collective");
  if (run.nodes == 0 && !link)
    throw InputError(place(run), "the output does not say which nodes took part: add --link");
  CollectiveCost cost;
  cost.collective = run.collective ? *run.collective : *collective;
  cost.link = link ? *link : run.nodes > 1 ? LinkKind::Inter : LinkKind::Intra;
  cost.gpus = run.ranks;
  cost.members_per_node = cost.link == LinkKind::Inter && run.nodes > 1 ? run.members_per_node : 0;
  LineFit fit;
  try {
    fit = fit_line(run.times);
  } catch (const InputError& error) {
    throw InputError(place(run), error.what());
  }
  cost.alpha = fit.alpha;
  cost.beta = SecondsPerByte(fit.beta.value());
  cost.provenance = {Origin::Measured,
                     fmt::format("nccl-tests, {} out of place, {} ranks on {} nodes: {}",
                                 name_in(collective_names, cost.collective), run.ranks, run.nodes, run.file),
                     false, std::make_shared<const Fit>(std::move(fit.quality))};
  return cost;
}

// The calibration knows more of sizes that were not measured, where it knows such a group.
void take_base_line(CollectiveCost& cost, const NcclTestsRun& run, const Calibration& base) {
  const int nodes = cost.link == LinkKind::Inter ? run.nodes : 1;
  const bool known = std::ranges::any_of(base.collectives, [&](const CollectiveCost& entry) {
    return entry.collective == cost.collective && entry.link == cost.link;
  });
  if (!known || run.ranks < 2 || (cost.link == LinkKind::Inter && nodes < 2)) return;
  const CollectivePrice price =
      find_cost(base, cost.collective, {{run.ranks, nodes}, cost.members_per_node, run.ranks / nodes, {}});
  take_outside(cost, price.alpha, price.beta);
}

void require_distinct_run(const NcclTestsRun& run, const CollectiveCost& cost, const CollectiveCost& other) {
  if (other.collective != cost.collective || other.link != cost.link) return;
  const std::string what =
      fmt::format("{} on {} links", name_in(collective_names, cost.collective), name_in(link_kind_names, cost.link));
  if ((other.members_per_node == 0) != (cost.members_per_node == 0))
    throw InputError(place(run),
                     fmt::format("a {} of which one says how many ranks each node has and another does not, "
                                 "expected it of all or none",
                                 what));
  const bool alike = other.gpus == cost.gpus && other.members_per_node == cost.members_per_node;
  if (alike || other.gpus == 0 || cost.gpus == 0)
    throw InputError(place(run), fmt::format("a second {} of {} ranks, expected one", what, cost.gpus));
}

}  // namespace

std::vector<NcclTestsRun> read_nccl_tests(const std::string& path, FilesRead& files) {
  std::string text = JsonFile::read_text(path);
  files[path] = text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return {read_json(JsonFile::parse(std::move(text), path))};
  return TextReader(path).read(text);
}

void merge_nccl_tests(Calibration& calibration, std::span<const NcclTestsRun> runs,
                      std::optional<Collective> collective, std::optional<LinkKind> link) {
  std::vector<CollectiveCost> costs;
  for (const NcclTestsRun& run : runs) {
    require_told_apart(run, runs);
    CollectiveCost cost = fitted(run, collective, link);
    take_base_line(cost, run, calibration);
    for (const CollectiveCost& other : costs) require_distinct_run(run, cost, other);
    costs.push_back(std::move(cost));
  }
  for (const CollectiveCost& cost : costs) {
    std::erase_if(calibration.collectives, [&](const CollectiveCost& old) {
      return old.collective == cost.collective && old.link == cost.link;
    });
    if (cost.collective == Collective::AllToAll)  // costs by message would go before it
      std::erase_if(calibration.messages, [&](const MessageCost& old) { return old.link == cost.link; });
    if (cost.link == LinkKind::Intra)  // so would a table by size
      std::erase_if(calibration.tables, [&](const KernelTable& old) {
        return is_collective(old.kind()) && collective_of(old.kind()) == cost.collective;
      });
  }
  calibration.collectives.insert(calibration.collectives.end(), costs.begin(), costs.end());
}

}  // namespace dovetail
