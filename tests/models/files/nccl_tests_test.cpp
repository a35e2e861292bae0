// SPDX-License-Identifier: Apache-2.0
// The sample files are made up: all-to-all takes 30 us + n / (20 GB/s), all-gather 15 us + n / (200 GB/s); the columns
// in place are 10 % slower.
#include "models/files/nccl_tests.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <regex>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/files/input_file.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;

namespace {

const std::string samples = DOVETAIL_TEST_DATA "/nccl-tests/";

std::vector<NcclTestsRun> read_all(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("out.txt", text);
  FilesRead files;
  return read_nccl_tests("out.txt", files);
}

NcclTestsRun read(const std::string& text) {
  const std::vector<NcclTestsRun> runs = read_all(text);
  REQUIRE(runs.size() == 1);
  return runs.front();
}

NcclTestsRun sample(const std::string& name, FilesRead& files) {
  const std::vector<NcclTestsRun> runs = read_nccl_tests(samples + name, files);
  REQUIRE(runs.size() == 1);
  return runs.front();
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

// As nccl-tests define counts of elements, here of 4 bytes, and the bus bandwidth.
struct Columns {
  bool count_of_one_rank = false;
  double bus_share = 1;
};
Columns columns_of(std::string_view program, int ranks) {
  const double others = 1 - 1.0 / ranks;
  if (program.empty() || program.starts_with("all_reduce")) return {false, 2 * others};
  if (program.starts_with("sendrecv")) return {};
  return {true, others};
}

std::string row_of(std::string_view program, double size, double us, int ranks) {
  const auto [of_one_rank, share] = columns_of(program, ranks);
  return fmt::format("{} {} float none -1 {:.4f} {:.2f} {:.2f} 0 1.0 1.0 1.0 0\n", size,
                     size / 4 / (of_one_rank ? ranks : 1), us, size / us / 1e3, share * size / us / 1e3);
}

const std::string header =
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";

// The devices of 2 nodes, one for each rank.
std::string devices_of(int ranks_per_node) {
  std::string text;
  for (int rank = 0; rank < 2 * ranks_per_node; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on node-{} device {:2} [0000:10:00] GPU\n", rank, 100 + rank,
                        rank / ranks_per_node, rank % ranks_per_node);
  return text;
}

// A test as current versions print it, one size a line: alpha 20 us, `rate` bytes a us.
std::string output_of(const std::string& program, double rate, int ranks_per_node = 2,
                      const std::vector<double>& sizes = {1024, 8192, 65536}) {
  std::string text = "# nccl-tests version 2.17.6\n";
  if (!program.empty()) text += "# Collective test starting: " + program + "\n";
  text +=
      "# nThread 1 nGpus 1 minBytes 1024 maxBytes 65536 step: 8(factor) warmup iters: 5 iters: 20\n# Using devices\n" +
      devices_of(ranks_per_node) + header;
  for (const double size : sizes) text += row_of(program, size, 20 + size / rate, 2 * ranks_per_node);
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n";
}

// The same without some of its lines, those of ranks from `first` to `last`.
std::string without_ranks(const std::string& text, int first, int last) {
  std::string left;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t rank = line.find("Rank ");
    const int number = rank == std::string_view::npos ? -1 : std::stoi(std::string(line.substr(rank + 5)));
    if (number < first || number > last) left += std::string(line) + "\n";
    if (number == first) left += "......\n";
  }
  return left;
}

std::string with_text(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string tagged(const std::string& tag, const std::string& text) {
  std::string all;
  for (std::string_view line : lines_of(text)) all += tag + std::string(line) + "\n";
  return all;
}

}  // namespace

TEST_CASE("nccl-tests as text: ranks, nodes and times out of place") {
  FilesRead files;
  const NcclTestsRun run = sample("alltoall.txt", files);
  CHECK(files.size() == 1);
  CHECK(run.collective == Collective::AllToAll);
  CHECK(run.ranks == 16);
  CHECK(run.nodes == 2);
  CHECK(run.members_per_node == 8);
  REQUIRE(run.rows.size() == 6);
  CHECK(run.rows[2].size == 1048576);
  CHECK(run.rows[2].us.value == Approx(82.43));  // 30 + 1048576 / 20000 = 82.4288 us; in place 90.67
}

TEST_CASE("nccl-tests as JSON: one device for each process, whatever its ranks") {
  FilesRead files;
  const NcclTestsRun run = sample("all_gather.json", files);
  CHECK(run.collective == Collective::AllGather);
  CHECK(run.ranks == 8);  // two processes of 4 GPUs
  CHECK(run.nodes == 1);
  REQUIRE(run.rows.size() == 6);
  CHECK(run.rows[0].us.value == Approx(15.32768));  // 15 + 65536 / 200000 us
}

TEST_CASE("fits of nccl-tests replace a calibration's collectives on their links") {
  FilesRead files;
  Calibration c = load_calibration("ndv4", files);
  REQUIRE(find_message(c, LinkKind::Inter, Protocol::Simple) != nullptr);
  const std::vector<NcclTestsRun> runs{sample("alltoall.txt", files), sample("all_gather.json", files)};
  const std::size_t before = c.collectives.size();
  merge_nccl_tests(c, runs, {}, {});
  CHECK(c.collectives.size() == before);
  const CollectivePrice exchange = find_cost(c, Collective::AllToAll, {{16, 2}, 0, 8});
  CHECK(exchange.gpus == 16);
  CHECK(exchange.members_per_node == 8);
  CHECK(exchange.alpha.value() == Approx(30e-6).epsilon(.001));  // times have two decimals
  CHECK(exchange.beta.value() == Approx(50e-12).epsilon(.001));  // 1 / (20 GB/s)
  CHECK(exchange.provenance.origin == Origin::Measured);
  REQUIRE(exchange.provenance.fit);
  CHECK(exchange.provenance.fit->points.size() == 6);
  const CollectivePrice gather = find_cost(c, Collective::AllGather, {{8, 1}, 0, 8});
  CHECK(gather.alpha.value() == Approx(15e-6).epsilon(1e-5));
  CHECK(gather.beta.value() == Approx(5e-12).epsilon(1e-5));
  CHECK(find_cost(c, Collective::AllGather, {{16, 2}, 0, 8}).provenance.origin == Origin::Assumed);
  // Costs by message would stand in for the measured all-to-all.
  CHECK(find_message(c, LinkKind::Inter, Protocol::Simple) == nullptr);
  CHECK(find_message(c, LinkKind::Intra, Protocol::Simple) != nullptr);
}

TEST_CASE("older texts: no collective, no root, a blank where nothing is reduced, other lines between") {
  const NcclTestsRun run = read(
      "# nThread 1 nGpus 2\n#   Rank  0 Pid  7 on  host-a device  0 [0x00] GPU\n"
      "#   Rank  1 Pid  7 on  host-a device  1 [0x01] GPU\n"
      "#       size         count    type   redop     time   algbw   busbw   error     time   algbw   busbw   error\n"
      "host-a:7:7 [0] NCCL INFO Launch mode Group\n"
      "           0             0   float             3.00    0.00    0.00  0e+00     4.00    0.00    0.00  0e+00\n"
      "        1024           128   float            10.00    0.10    0.05  0e+00    20.00    0.05    0.02  0e+00\n"
      "        2048           256   float     sum  1.2e+01    0.17    0.08  1e-07    22.00    0.09    0.05  1e-07\n");
  CHECK_FALSE(run.collective);
  CHECK(run.ranks == 2);
  CHECK(run.nodes == 1);
  REQUIRE(run.rows.size() == 2);  // not that of no bytes
  CHECK(run.rows[0].us.value == Approx(10));
  CHECK(run.rows[1].us.value == Approx(12));
  Calibration c;
  CHECK_THROWS_WITH(merge_nccl_tests(c, {&run, 1}, {}, {}), Catch::Contains("add --collective"));
  merge_nccl_tests(c, {&run, 1}, Collective::AllGather, LinkKind::Inter);
  CHECK(c.collectives.at(0).link == LinkKind::Inter);
  CHECK(c.collectives.at(0).beta.value() == Approx(2e-6 / 1024));  // 10 us to 12 us in 1024 bytes
}

TEST_CASE("a log of several tests is split, and each is fitted by itself") {
  const std::vector<std::string> programs{"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf",
                                          "sendrecv_perf"};
  std::string log;
  for (std::size_t i = 0; i < programs.size(); ++i)
    log += "$ mpirun " + programs[i] + "\n" + output_of(programs[i], 100.0 * static_cast<double>(i + 1));
  const std::vector<NcclTestsRun> runs = read_all(log);
  REQUIRE(runs.size() == 5);
  CHECK(runs[3].collective == Collective::AllToAll);
  CHECK(runs[0].line == 1);
  CHECK(runs[1].line == 19);  // 15 lines of a test and one between; the one that names it is its first
  Calibration c;
  merge_nccl_tests(c, runs, {}, {});
  REQUIRE(c.collectives.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(c.collectives[i].alpha.value() == Approx(20e-6).epsilon(1e-3));
    CHECK(c.collectives[i].beta.value() == Approx(1e-8 / static_cast<double>(i + 1)).epsilon(1e-3));
    CHECK(c.collectives[i].gpus == 4);
    CHECK(c.collectives[i].members_per_node == 2);
    CHECK(c.collectives[i].provenance.fit->r2 == Approx(1).epsilon(1e-3));
    CHECK_FALSE(c.collectives[i].provenance.fits_badly());
  }
}

TEST_CASE("tags of mpirun and srun stand before the lines") {
  const std::string text = output_of("alltoall_perf", 100);
  for (const char* tag : {"[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-node-7@1,0]<stdout>: ", "0: ", " 0: "}) {
    INFO(tag);
    const NcclTestsRun run = read(tagged(tag, text));
    CHECK(run.collective == Collective::AllToAll);
    CHECK(run.ranks == 4);
    CHECK(run.members_per_node == 2);
    CHECK(run.rows.size() == 3);
  }
  CHECK(complaint("[1,0]<stdout>:" + header + "[1,0]<stdout>:8 2 float sum -1 fast 0.1 0.1 0\n") ==
        "out.txt:2:32: \"fast\": expected a time in us");
}

TEST_CASE("tests that cannot be told apart are refused, not merged") {
  Calibration c;
  // Older versions do not name the test.
  const std::vector<NcclTestsRun> unnamed = read_all(output_of("", 100) + output_of("", 200));
  REQUIRE(unnamed.size() == 2);
  CHECK_THROWS_WITH(merge_nccl_tests(c, unnamed, Collective::AllReduce, {}),
                    Catch::StartsWith("out.txt:1:1: several tests in one file"));
  // Nothing but the table.
  CHECK_THAT(complaint(header + "8 2 float sum -1 9 0 0 0\n16 4 float sum -1 9 0 0 0\n8 2 float sum -1 9 0 0 0\n"),
             Catch::StartsWith("out.txt:4:1: sizes start again without a header"));
  // Two processes without MPI print at once.
  CHECK_THAT(complaint("#  Rank  0 Pid  7 on node-a device 0\n#  Rank  0 Pid  8 on node-a device 0\n"),
             Catch::StartsWith("out.txt:2:1: rank 0 twice"));
  CHECK_THAT(complaint("[1,0]<stdout>:" + header + "[1,1]<stdout>:8 2 float sum -1 9 0 0 0\n"),
             Catch::StartsWith("out.txt:2:15: a second process prints a table"));
  // A test that failed before its table.
  CHECK_THAT(complaint("# Collective test starting: all_reduce_perf\n" + output_of("alltoall_perf", 100)),
             Catch::StartsWith("out.txt:1:1: no output of nccl-tests"));
}

TEST_CASE("where ranks are goes into the entry: one on each node is another place than eight") {
  Calibration c;
  std::vector<NcclTestsRun> runs{read(output_of("alltoall_perf", 100, 8)), read(output_of("alltoall_perf", 10, 1))};
  merge_nccl_tests(c, runs, {}, {});
  REQUIRE(c.collectives.size() == 2);
  CHECK(find_cost(c, Collective::AllToAll, {{16, 2}, 8, 8}).beta.value() == Approx(1e-8).epsilon(1e-3));
  CHECK(find_cost(c, Collective::AllToAll, {{2, 2}, 1, 8}).beta.value() == Approx(1e-7).epsilon(1e-3));
  // One that does not say it cannot stand beside one that does.
  runs[1].members_per_node = 0;
  CHECK_THROWS_WITH(merge_nccl_tests(c, runs, {}, {}), Catch::Contains("how many ranks each node has"));
}

TEST_CASE("a shortened list of devices is completed where counts and devices leave one answer") {
  FilesRead files;
  const NcclTestsRun shortened = sample("alltoall-shortened.txt", files);  // of 64 ranks it lists 0 to 2 and 61 to 63
  CHECK(shortened.ranks == 64);
  CHECK(shortened.nodes == 8);
  CHECK(shortened.members_per_node == 8);
  // An all-reduce counts the same elements for any number of ranks; its bandwidths tell 16 from 17.
  const std::string reduced = output_of("all_reduce_perf", 10000, 8, {65536, 1073741824});
  CHECK(read(without_ranks(reduced, 3, 12)).ranks == 16);
  CHECK(read(without_ranks(reduced, 3, 12)).members_per_node == 8);
  // Small sizes do not; devices that are each the first of their process say nothing of nodes; a send has no ratio.
  CHECK_THAT(complaint(without_ranks(output_of("all_reduce_perf", 1000, 8), 3, 12)),
             Catch::Contains("has 6 of 16 ranks and leaves open how many each node has"));
  CHECK_THAT(complaint(without_ranks(
                 std::regex_replace(output_of("alltoall_perf", 1000, 8), std::regex("device .."), "device 0"), 3, 12)),
             Catch::Contains("has 6 of 16 ranks and leaves open how many each node has"));
  CHECK_THAT(complaint(without_ranks(output_of("sendrecv_perf", 1000, 8), 3, 12)),
             Catch::StartsWith("out.txt:9:1: the list of devices has 6 of 16 ranks"));
}

TEST_CASE("parts of an output that disagree are refused at their place") {
  for (const std::string program : {"alltoall_perf", "all_gather_perf", "reduce_scatter_perf"}) {
    const std::string text = output_of(program, 1000, 8);
    CHECK(complaint(text) == "none");
    // The ranks of a node are missing, and those that are left count up.
    CHECK_THAT(complaint(without_ranks(text, 8, 15)),
               Catch::Contains(": 8 ranks in the list of devices, but the counts of elements are those of 16"));
    CHECK_THAT(complaint(with_text(text, "8192 128 ", "8192 256 ")), Catch::Contains("do not make 8192 bytes of "));
    CHECK_THAT(complaint(with_text(text, " float ", " flat ")), Catch::Contains("\"flat\": no type of nccl-tests"));
  }
  const std::string reduced = output_of("all_reduce_perf", 1000, 8);
  CHECK_THAT(complaint(without_ranks(reduced, 8, 15)),
             Catch::Contains("bus bandwidth 0.54 of 0.29 GB/s, but that of all_reduce among 8 ranks is 1.75 times"));
  CHECK_THAT(complaint(with_text(reduced, "8192 2048 ", "8192 1024 ")),
             Catch::Contains("1024 elements of 4 bytes do not make 8192 bytes of all_reduce"));
  FilesRead files;
  CHECK_THROWS_WITH(
      read_nccl_tests(samples + "alltoall-seconds.txt", files),
      Catch::Contains(":26:1: 3.328e-05 us for 65536 bytes are 1.969e+06 GB/s, but the output says 1.97"));
}

TEST_CASE("parts of a JSON output that disagree are refused too") {
  FilesRead files;
  const std::string text = JsonFile::read_text(samples + "all_gather.json");
  CHECK(complaint(text) == "none");
  CHECK(read(with_text(text, "\"ngpus\": 4", "\"ngpus\": 2")).ranks == 8);  // devices 0, 1, 4 and 5 of one node
  CHECK_THAT(complaint(with_text(text, "\"ngpus\": 4", "\"ngpus\": 8")),
             Catch::Contains("/config/devices/1: rank 4 is listed twice"));
  CHECK_THAT(complaint(with_text(with_text(text, "\"ngpus\": 4", "\"ngpus\": 2"), "\"node-a\", \"device\": 4",
                                 "\"node-b\", \"device\": 0")),
             Catch::Contains("/config/devices/1: the list of devices has 4 of 8 ranks"));
  CHECK_THAT(
      complaint(with_text(text, "\"count\": 8192", "\"count\": 4096")),
      Catch::Contains("/results/1: 4096 elements of 4 bytes do not make 262144 bytes of all_gather among 8 ranks"));
  CHECK_THAT(complaint(with_text(text, "\"bus_bw\": 3.741205", "\"bus_bw\": 3.207")),
             Catch::Contains("/results/0: bus bandwidth 3.207 of 4.276 GB/s"));
  CHECK_THAT(complaint(with_text(text, "\"time\": 15.32768", "\"time\": 0.01532768")),
             Catch::Contains("/results/0: 0.0153277 us for 65536 bytes are 4276 GB/s, but the output says 4.276"));
}

TEST_CASE("times in which the base's links cannot carry so much are refused") {
  FilesRead files;
  Calibration c = load_calibration("dgx-h100", files);
  // 2 x 8 ranks, 15/16 of what they send leaves each; half a node's 64 KiB in 20.07 us are no problem, 500 MB are one.
  const auto merge = [&](double size, LinkKind link) {
    const NcclTestsRun run = read("# Collective test starting: alltoall_perf\n" + devices_of(8) + header +
                                  row_of("alltoall", 1024, 20, 16) + row_of("alltoall", size, 900, 16));
    merge_nccl_tests(c, {&run, 1}, {}, link);
  };
  CHECK_NOTHROW(merge(65536000, LinkKind::Inter));
  CHECK_THROWS_WITH(
      merge(524288000, LinkKind::Inter),
      Catch::StartsWith("out.txt:20:1: ") && Catch::Contains("through the network cards of a node, above"));
  CHECK_THROWS_WITH(merge(524288000, LinkKind::Intra),
                    Catch::Contains("from a GPU to others of its node, above the 450 GB/s"));
}

TEST_CASE("times far from a line are told") {
  const NcclTestsRun run =
      read("# Collective test starting: sendrecv_perf\n" + header + row_of("sendrecv", 8, 9, 2) +
           row_of("sendrecv", 16, 900, 2) + row_of("sendrecv", 32, 9, 2) + row_of("sendrecv", 64, 500, 2));
  Calibration c;
  merge_nccl_tests(c, {&run, 1}, {}, LinkKind::Inter);
  CHECK(c.collectives.front().provenance.fits_badly());
}

TEST_CASE("what is wrong with an output is named with its place") {
  CHECK(complaint("") ==
        "out.txt:1:1: no output of nccl-tests: expected its header \"# size count type ... time algbw "
        "busbw\"");
  CHECK(complaint("8 2 float sum -1 9.0 0 0 0\n") ==
        "out.txt:1:1: numbers before the header of the table, expected the output of nccl-tests");
  CHECK(complaint(header) == "out.txt:1:1: no rows of measurements, expected one for each size");
  CHECK(complaint(header + "8 2 float sum -1 fast 0.1 0.1 0\n") == "out.txt:2:18: \"fast\": expected a time in us");
  CHECK(complaint(header + "8 2 float sum -1\n") == "out.txt:2:17: the line ends, expected a time in us");
  CHECK(complaint(header + "8 2 float sum -1 9.0 0.1 0.1 3\n") ==
        "out.txt:2:30: wrong elements in the result: times of a run that fails are not used");
  CHECK(complaint("# size count type redop root cputime algbw busbw #wrong\n") ==
        "out.txt:1:30: CPU times, expected those of the GPU: run without -C");
  CHECK_THAT(complaint("# Collective test starting: gather_perf\n"),
             Catch::StartsWith("out.txt:1:29: \"gather_perf\": no test of a collective that has costs"));
  CHECK_THAT(complaint("{\"args\": [\"x/hypercube_perf\"], \"results\": []}"), Catch::StartsWith("out.txt:1:11: "));
  CHECK(complaint(
            "{\"args\": [\"x/all_reduce_perf\"], \"results\": [{\"size\": 8, \"out_of_place\": {\"cpu_time\": 1}}]}")
            .find("/results/0/out_of_place/cpu_time: a CPU time") != std::string::npos);
  CHECK(complaint("{\"args\": [\"x/all_reduce_perf\"], \"results\": [{\"size\": 8, \"out_of_place\": {\"time\": 1, "
                  "\"nwrong\": 2.0}}]}")
            .find("/results/0/out_of_place/nwrong: wrong elements") != std::string::npos);
}

TEST_CASE("a run of one size, or the same twice, is refused") {
  const NcclTestsRun one = read("# Collective test starting: sendrecv_perf\n" + header + "8 2 float none -1 9 0 0 0\n");
  Calibration c;
  CHECK_THROWS_WITH(merge_nccl_tests(c, {&one, 1}, {}, LinkKind::Inter), Catch::StartsWith("out.txt:1:1: a fit of"));
  CHECK_THROWS_WITH(merge_nccl_tests(c, {&one, 1}, {}, {}), Catch::Contains("add --link"));
  FilesRead files;
  const NcclTestsRun run = sample("alltoall.txt", files);
  const std::vector<NcclTestsRun> twice{run, run};
  CHECK_THROWS_WITH(merge_nccl_tests(c, twice, {}, {}), Catch::Contains("a second all_to_all on inter links"));
}
