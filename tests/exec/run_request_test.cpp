// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run_request.hpp"

#include <catch2/catch.hpp>

#include "exec/run/program_options.hpp"
#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using Catch::Matchers::StartsWith;

namespace {

RunRequest on_gpus(RunTransport transport) {
  RunRequest request;
  request.device = RunDevice::Cuda;
  request.transport = transport;
  return request;
}

constexpr RunParts everything{true, true, true};

}  // namespace

TEST_CASE("run request: each contradiction is refused by the option that makes it") {
  CHECK_NOTHROW(validate(RunRequest{}));
  CHECK_NOTHROW(validate(on_gpus(RunTransport::NcclMpi)));
  CHECK_THROWS_WITH(validate(on_gpus(RunTransport::Mpi)), StartsWith("--device cuda: not with --transport mpi"));
  CHECK_THROWS_WITH(validate(RunRequest{.transport = RunTransport::Nccl}),
                    StartsWith("--transport nccl: only with --device cuda"));
  RunRequest emulated = on_gpus(RunTransport::Nccl);
  emulated.emulate_links = true;
  CHECK_THROWS_WITH(validate(emulated), StartsWith("--transport nccl: not with --emulate-links"));
  emulated.transport = RunTransport::Inproc;
  emulated.exchange_blocks = 4;
  CHECK_NOTHROW(validate(emulated));
  emulated.emulate_links = false;
  CHECK_THROWS_WITH(validate(emulated), StartsWith("--exchange-blocks: only with"));
  emulated = on_gpus(RunTransport::Inproc);
  emulated.train = 10;
  CHECK_NOTHROW(validate(emulated));
  emulated.emulate_links = true;
  CHECK_THROWS_WITH(validate(emulated), StartsWith("--train: not with --device cuda --emulate-links"));
  CHECK_NOTHROW(validate(RunRequest{.emulate_links = true, .one_rank = true}));
  CHECK_THROWS_WITH(validate(RunRequest{.one_rank = true}), StartsWith("--one-rank: only with --emulate-links"));
  CHECK_THROWS_WITH(validate(RunRequest{.transport = RunTransport::Mpi, .emulate_links = true, .one_rank = true}),
                    StartsWith("--one-rank: not with --transport mpi"));
  CHECK_THROWS_WITH(validate(RunRequest{.emulate_links = true, .one_rank = true, .train = 1}),
                    StartsWith("--train: not with --one-rank"));
  CHECK_THROWS_WITH(validate(RunRequest{.gemm_multiprocessors = 4}), StartsWith("--gemm-multiprocessors: only with"));
  CHECK_THROWS_WITH(validate(RunRequest{.hostfile = "hosts"}), StartsWith("--hostfile: only with"));
  CHECK_THROWS_WITH(validate(RunRequest{.transport = RunTransport::Mpi, .hostfile = "no-such-file"}),
                    StartsWith("--hostfile no-such-file: cannot be read"));
}

TEST_CASE("run request: what a build lacks is said with how to get it") {
  const RunRequest all = on_gpus(RunTransport::NcclMpi);
  CHECK_NOTHROW(require_parts(all, everything));
  CHECK_NOTHROW(require_parts(RunRequest(), RunParts()));
  CHECK_THROWS_WITH(require_parts(all, {false, true, true}), StartsWith("--device cuda: not in this build"));
  CHECK_THROWS_WITH(require_parts(all, {true, false, true}), StartsWith("--transport mpi: not in this build"));
  CHECK_THROWS_WITH(require_parts(all, {true, true, false}), StartsWith("--transport nccl: not in this build"));
}

TEST_CASE("run request: dovetail-exec's options fill it, and it becomes the options of a run") {
  const ProgramOptions o = parse_program_options(
      {"in.json", "--device", "cuda", "--emulate-links", "--exchange-blocks", "4", "--gemm-multiprocessors", "100",
       "--limit", "2", "--seed", "7", "--no-check", "--hang-time", "3", "--hold-compute", "never", "--pulse"});
  CHECK(o.schedule == "in.json");
  CHECK(o.output == "-");
  CHECK(o.pulse);
  CHECK(o.run.cuda());
  CHECK(o.costs.measure.limit == Seconds(2));
  const RunOptions how = run_options(o.run);
  CHECK(how.emulate_links);
  CHECK_FALSE(how.check_numerics);
  CHECK(how.hold_compute == HoldCompute::Never);
  CHECK(how.exchange_blocks == 4);
  CHECK(how.gemm_multiprocessors == 100);
  CHECK(how.measure.limit == Seconds(2));
  CHECK(how.patience == Seconds(3));
  CHECK(how.seed == 7);
  CHECK(how.train == 0);
  CHECK(run_options(parse_program_options({"in.json", "--train", "20"}).run).train == 20);
  CHECK_THROWS_WITH(parse_program_options({"in.json", "--train", "0"}),
                    StartsWith("--train 0: expected a number from 1"));
  CHECK(run_options(parse_program_options({"in.json", "--emulate-links", "--one-rank"}).run).one_rank);
  CHECK(run_options({}).exchange_blocks == RunOptions().exchange_blocks);
}

TEST_CASE("run request: an option without its value, or an unknown one, is refused by its name") {
  CHECK_THROWS_WITH(parse_program_options({"in.json", "--seed"}), StartsWith("--seed needs a value"));
  CHECK_THROWS_WITH(parse_program_options({"in.json", "--sead", "1"}), StartsWith("--sead: unexpected"));
  CHECK_THROWS_WITH(parse_program_options({"in.json", "--device", "tpu"}), StartsWith("--device tpu: expected one of"));
  CHECK(parse_program_options({"--help", "--calibrate"}).help);
}
