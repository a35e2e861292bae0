// The sample files are made up: all-to-all takes 30 us + n / (20 GB/s), all-gather 15 us + n / (200 GB/s); the columns
// in place are 10 % slower.
#include "models/files/nccl_tests.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
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

// A test of 2 nodes as current versions print it, one size a line: alpha 20 us, `rate` bytes a us.
std::string output_of(const std::string& program, double rate, int ranks_per_node = 2) {
  std::string text = "# nccl-tests version 2.17.6\n";
  if (!program.empty()) text += "# Collective test starting: " + program + "\n";
  text +=
      "# nThread 1 nGpus 1 minBytes 1024 maxBytes 65536 step: 8(factor) warmup iters: 5 iters: 20\n# Using devices\n";
  for (int rank = 0; rank < 2 * ranks_per_node; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on node-{} device  0 [0000:10:00] GPU\n", rank, 100 + rank,
                        rank / ranks_per_node);
  text += "#       size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  for (double size : {1024, 8192, 65536})
    text += fmt::format("{} 16 float none -1 {:.4f} 1.0 1.0 0 1.0 1.0 1.0 0\n", size, 20 + size / rate);
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n";
}

std::string tagged(const std::string& tag, const std::string& text) {
  std::string all;
  for (std::string_view line : lines_of(text)) all += tag + std::string(line) + "\n";
  return all;
}

const std::string header =
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";

}  // namespace

TEST_CASE("nccl-tests as text: ranks, nodes and times out of place") {
  FilesRead files;
  const NcclTestsRun run = sample("alltoall.txt", files);
  CHECK(files.size() == 1);
  CHECK(run.collective == Collective::AllToAll);
  CHECK(run.ranks == 16);
  CHECK(run.nodes == 2);
  CHECK(run.members_per_node == 8);
  REQUIRE(run.times.size() == 6);
  CHECK(run.times[2].size == 1048576);
  CHECK(run.times[2].time.value() == Approx(82.43e-6));  // 30 + 1048576 / 20000 = 82.4288 us; in place 90.67
}

TEST_CASE("nccl-tests as JSON: one device for each process, whatever its ranks") {
  FilesRead files;
  const NcclTestsRun run = sample("all_gather.json", files);
  CHECK(run.collective == Collective::AllGather);
  CHECK(run.ranks == 8);  // two processes of 4 GPUs
  CHECK(run.nodes == 1);
  REQUIRE(run.times.size() == 6);
  CHECK(run.times[0].time.value() == Approx(15.32768e-6));  // 15 + 65536 / 200000 us
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

TEST_CASE("older texts: no collective, no root, a blank where nothing is reduced; other lines between") {
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
  REQUIRE(run.times.size() == 2);  // not that of no bytes
  CHECK(run.times[0].time.value() == Approx(10e-6));
  CHECK(run.times[1].time.value() == Approx(12e-6));
  Calibration c;
  CHECK_THROWS_WITH(merge_nccl_tests(c, {&run, 1}, {}, {}), Catch::Contains("add --collective"));
  merge_nccl_tests(c, {&run, 1}, Collective::AllReduce, LinkKind::Inter);
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
    CHECK(run.times.size() == 3);
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

TEST_CASE("times far from a line are told") {
  const NcclTestsRun run = read("# Collective test starting: sendrecv_perf\n" + header +
                                "8 2 float none -1 9 0 0 0\n16 2 float none -1 900 0 0 0\n"
                                "32 2 float none -1 9 0 0 0\n64 2 float none -1 500 0 0 0\n");
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
