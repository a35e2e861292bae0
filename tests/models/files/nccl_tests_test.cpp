// The sample files are made up: all-to-all takes 30 us + n / (20 GB/s), all-gather 15 us + n / (200 GB/s); the columns
// in place are 10 % slower.
#include "models/files/nccl_tests.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/input_file.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;

namespace {

const std::string samples = DOVETAIL_TEST_DATA "/nccl-tests/";

NcclTestsRun read(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("out.txt", text);
  FilesRead files;
  return read_nccl_tests("out.txt", files);
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

const std::string header =
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";

}  // namespace

TEST_CASE("nccl-tests as text: ranks, nodes and times out of place") {
  FilesRead files;
  const NcclTestsRun run = read_nccl_tests(samples + "alltoall.txt", files);
  CHECK(files.size() == 1);
  CHECK(run.collective == Collective::AllToAll);
  CHECK(run.ranks == 16);
  CHECK(run.nodes == 2);
  REQUIRE(run.times.size() == 6);
  CHECK(run.times[2].size == 1048576);
  CHECK(run.times[2].time.value() == Approx(82.43e-6));  // 30 + 1048576 / 20000 = 82.4288 us; in place 90.67
}

TEST_CASE("nccl-tests as JSON: one device for each process, whatever its ranks") {
  FilesRead files;
  const NcclTestsRun run = read_nccl_tests(samples + "all_gather.json", files);
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
  const std::vector<NcclTestsRun> runs{read_nccl_tests(samples + "alltoall.txt", files),
                                       read_nccl_tests(samples + "all_gather.json", files)};
  const std::size_t before = c.collectives.size();
  merge_nccl_tests(c, runs, {}, {});
  CHECK(c.collectives.size() == before);
  const CollectiveCost exchange = find_cost(c, Collective::AllToAll, {16, 2}, 8);
  CHECK(exchange.gpus == 16);
  CHECK(exchange.alpha.value() == Approx(30e-6).epsilon(.001));  // times have two decimals
  CHECK(exchange.beta.value() == Approx(50e-12).epsilon(.001));  // 1 / (20 GB/s)
  CHECK(exchange.provenance.origin == Origin::Measured);
  REQUIRE(exchange.provenance.fit);
  CHECK(exchange.provenance.fit->points.size() == 6);
  const CollectiveCost gather = find_cost(c, Collective::AllGather, {8, 1}, 8);
  CHECK(gather.alpha.value() == Approx(15e-6).epsilon(1e-5));
  CHECK(gather.beta.value() == Approx(5e-12).epsilon(1e-5));
  CHECK(find_cost(c, Collective::AllGather, {16, 2}, 8).provenance.origin == Origin::Assumed);
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

TEST_CASE("what is wrong with an output is named with its place") {
  CHECK(complaint("") ==
        "out.txt:1:1: no output of nccl-tests: expected its header \"# size count type ... time algbw "
        "busbw\"");
  CHECK(complaint("8 2 float sum -1 9.0 0 0 0\n") ==
        "out.txt:1:1: numbers before the header of the table, expected the output of one nccl-test");
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
  const NcclTestsRun run = read_nccl_tests(samples + "alltoall.txt", files);
  const std::vector<NcclTestsRun> twice{run, run};
  CHECK_THROWS_WITH(merge_nccl_tests(c, twice, {}, {}), Catch::Contains("a second all_to_all on inter links"));
}
