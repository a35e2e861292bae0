// SPDX-License-Identifier: Apache-2.0
// A resident executor and its clients: requests one after another over one socket.
#include "exec/launch/serve.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "exec/launch/gpu_service.hpp"
#include "exec/launch/socket.hpp"
#include "exec/run/program.hpp"
#include "models/base/errors.hpp"
#include "models/files/schedule_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

// Until somebody listens there.
Socket connected(const std::string& path) {
  for (;;) {
    Socket socket = connect_to(path);
    if (socket.open()) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

nlohmann::json ask(Socket& socket, const std::string& request) {
  REQUIRE(socket.send(request));
  const auto line = socket.receive(10000);
  REQUIRE(line);
  return nlohmann::json::parse(*line);
}

// A build whose GPU runs schedules on the host, and fails at seed 13.
Cuda gpu_that_is_the_host() {
  Cuda cuda;
  // NOLINTNEXTLINE(performance-unnecessary-value-param): so is the pointer that it becomes
  cuda.run = [](const Experiment& e, std::shared_ptr<const PricedSchedule> priced, const RunOptions& options) {
    if (options.seed == 13) throw DeviceError("cudaLaunchKernel", "an illegal memory access was encountered");
    return run_on_host(e, std::move(priced), options);
  };
  return cuda;
}

ScheduleFile small_schedule() {
  const Experiment e = small_experiment({.dp = 2, .ep = 2});
  return {e, Plan(), price_plan(e, Plan())};
}

RunOptions short_run() {
  RunOptions how;
  how.emulate_links = false;
  how.measure.limit = Seconds(.05);
  return how;
}

}  // namespace

TEST_CASE("A server executes requests one after another, says why one is wrong, and ends with a failed device") {
  const TemporaryFolder folder;
  std::vector<std::vector<std::string>> requests;
  int code = -1;
  std::thread server([&] {
    code = serve("socket", [&](const std::vector<std::string>& words) {
      requests.push_back(words);
      return words.empty() ? Outcome{4, "the device failed"} : Outcome{static_cast<int>(words.size()) - 1, words[0]};
    });
  });
  {
    Socket first = connected("socket");
    CHECK(ask(first, R"(["a"])") == nlohmann::json{{"code", 0}, {"error", "a"}});
    CHECK(ask(first, R"(["b", "c"])") == nlohmann::json{{"code", 1}, {"error", "b"}});
    CHECK(ask(first, "no JSON") ==
          nlohmann::json{{"code", 2}, {"error", "a request that is no JSON array of texts: no JSON"}});
    CHECK(ask(first, R"({"a": 1})").at("code") == 2);
  }
  Socket second = connected("socket");  // once the first has gone
  CHECK(ask(second, "[]").at("code") == 4);
  server.join();
  CHECK(code == 4);
  CHECK(requests == std::vector<std::vector<std::string>>{{"a"}, {"b", "c"}, {}});
  CHECK_FALSE(connect_to("socket").open());
}

TEST_CASE("A path that is too long for a socket is refused") {
  CHECK_THROWS_WITH(connect_to(std::string(200, 'x')), Contains("too long for a socket"));
}

TEST_CASE("Runs go to the server that DOVETAIL_SERVER names, also after a wrong one, and know when it is gone") {
  const TemporaryFolder folder;
  std::thread server([] { run_program({"--device", "cuda", "--serve", "socket"}, nullptr, gpu_that_is_the_host()); });
  connected("socket");
  ::setenv(server_variable, "socket", 1);
  GpuService service;
  const ScheduleFile file = small_schedule();
  for (int run = 0; run < 2; ++run) {
    const RunResult result = service.run(file, short_run());
    CHECK(result.report.numerics_ok);
    CHECK(result.work.size() == file.priced.schedule->ops.size());
    RunOptions training = short_run();
    training.train = 1;  // of a whole model, which this is not
    CHECK_THROWS_AS(service.run(file, training), InputError);
  }
  RunOptions failing = short_run();
  failing.seed = 13;
  CHECK_THROWS_WITH(service.run(file, failing), Contains("illegal memory access"));
  server.join();
  CHECK_THROWS_WITH(service.run(file, short_run()), Contains("DOVETAIL_SERVER=socket") && Contains("nobody listens"));
  ::unsetenv(server_variable);
}
