// SPDX-License-Identifier: Apache-2.0
#include "models/files/schedule_match.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/files/read_schedule.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

using Json = nlohmann::ordered_json;

Plan two_chunks(Order order = Order::DispatchFirst) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  plan.order = order;
  plan.comm_streams = CommStreams::InterIntra;
  return plan;
}

Json two_chunk_file() {
  const Experiment e = test::round_numbers(2);
  return to_json(ScheduleFile{e, two_chunks(), price_plan(e, two_chunks())});
}

ScheduleFile read_json(const Json& json) {
  return read_schedule(JsonFile::parse(json.dump(1), "s.json"));
}

// The first op or tensor of a kind, as a pointer.
std::string first_of(const Json& file, const std::string& list, const std::string& kind) {
  const auto is = [&](const Json& each) { return each.at("kind") == kind; };
  const auto found = std::ranges::find_if(file.at(list), is);
  REQUIRE(found != file.at(list).end());
  return "/" + list + "/" + std::to_string(found - file.at(list).begin());
}

std::string work_of(const std::string& op) {
  return op + "/work";
}

void check_refused(Json file, const std::string& pointer, const Json& value) {
  Json& changed = file[Json::json_pointer(pointer)];
  const std::string was = changed.dump(), is = value.dump();
  CAPTURE(pointer, was, is);
  changed = value;
  CHECK_THROWS_WITH(read_json(file), Contains("s.json:") && Contains(pointer + ": " + is + ", but ") && Contains(was));
}

// The change gives an op operands that its kind does not have.
void check_operands(Json file, const std::string& pointer, const Json& value, const std::string& message) {
  file[Json::json_pointer(pointer)] = value;
  CHECK_THROWS_WITH(read_json(file), Contains("s.json:") && Contains(message));
}

}  // namespace

TEST_CASE("Each value that question and plan imply is refused where it differs, with both values") {
  const Json file = two_chunk_file();
  REQUIRE_NOTHROW(read_json(file));
  const std::string expert = first_of(file, "ops", "expert"), dispatch = first_of(file, "ops", "dispatch"),
                    rows = first_of(file, "tensors", "dispatched"), dense = first_of(file, "tensors", "dense_weights");
  check_refused(file, "/groups/ep", 4);
  check_refused(file, "/groups/mp", 1);
  check_refused(file, "/micro_batches", 2);
  check_refused(file, "/rank_classes/0/ranks", 2);
  check_refused(file, "/streams/0/kind", "copy");
  check_refused(file, dense + "/elements", 1);
  check_refused(file, dense + "/layer", 1);
  check_refused(file, rows + "/rows/1", 1000);
  check_refused(file, rows + "/peers/1", 1000);
  check_refused(file, expert + "/rows/0", 1);
  check_refused(file, expert + "/layer", 1);
  check_refused(file, work_of(expert) + "/gemm_rows", 3);
  check_refused(file, expert + "/dependencies/0", 0);
  check_refused(file, work_of(dispatch) + "/collective", "none");
  check_refused(file, work_of(dispatch) + "/group", "dp");
  check_refused(file, dispatch + "/stream", 0);
}

TEST_CASE("An op with other operands than those of its kind is refused by their names") {
  const Json file = two_chunk_file();
  const std::string expert = first_of(file, "ops", "expert"), dispatch = first_of(file, "ops", "dispatch"),
                    rows = first_of(file, "tensors", "dispatched");
  const std::string arrives = " in the place of dispatched or compressed or staging";
  check_operands(file, rows + "/kind", "expert_input", dispatch + ": dispatch[0].0 writes expert_input[0].0" + arrives);
  check_operands(file, rows + "/gradient", true, dispatch + ": dispatch[0].0 writes d_dispatched[0].0" + arrives);
  check_operands(file, expert + "/kind", "gate",
                 expert + ": gate[0].0 reads expert_input[0].0 in the place of layer_input");
  check_operands(file, expert + "/phase", "update", expert + ": expert[0].0 has no update pass");
  check_operands(file, expert + "/reads/0", 0, expert + ": expert[0].0 reads dense_weights[0] in the place of encoded");
  check_operands(file, expert + "/writes/0", 0,
                 expert + ": expert[0].0 writes dense_weights[0] in the place of hidden");
  check_operands(file, expert + "/reads", Json::array({file.at(Json::json_pointer(expert + "/reads/0"))}),
                 expert + ": expert[0].0 does not read expert_weights or gathered_weights");
}

TEST_CASE("A question or a plan of another schedule is refused") {
  const auto change = [](const char* pointer, const Json& value) {
    Json file = two_chunk_file();
    file[Json::json_pointer(pointer)] = value;
    return file;
  };
  CHECK_THROWS_WITH(read_json(change("/model/hidden", 16)), Contains("/tensors/0/elements: "));
  CHECK_THROWS_WITH(read_json(change("/model/attention/head_size", 8)), Contains("/tensors/0/elements: "));
  CHECK_THROWS_WITH(read_json(change("/workload/batch", 2)), Contains("/tensors/"));
  CHECK_THROWS_WITH(read_json(change("/parallelism/pp", 2)), Contains("/parallelism: pp 2 x dp"));
  CHECK_THROWS_WITH(read_json(change("/plan/forward_degree", 1)), Contains("/ops: ") && Contains(" ops, but "));
  CHECK_THROWS_WITH(read_json(change("/plan/micro_batches", 3)), Contains("/plan/micro_batches: "));
  CHECK_THROWS_WITH(read_json(change("/plan/scope", "layer")), Contains("/plan/forward_degree: 2 contradicts"));
}

TEST_CASE("Dense encoding of more weights than can be counted is refused") {
  Json file = two_chunk_file();
  file["plan"]["encoding"] = "dense";
  file["workload"]["sequence"] = 100'000'000;
  file["workload"]["batch"] = 1000;
  CHECK_THROWS_WITH(read_json(file), Contains("/plan/encoding: dense has ") && Contains("at most 2^53"));
}

TEST_CASE("A plan of more ops than the file has is refused before it is built") {
  Json file = two_chunk_file();
  file["plan"]["forward_degree"] = 2'000'000'000;
  CHECK_THROWS_WITH(read_json(file), Contains("/plan: makes at least 4000000006 ops, but the file has "));
  file = two_chunk_file();
  file["plan"]["grad_sync"] = "fixed_chunks";
  file["plan"]["gradient_chunk_bytes"] = 4;
  file["model"]["attention"]["head_size"] = 65'536;
  // Over mp 2, both layers have 64 x 65,536 weights of attention on each rank, one in each slice; at least 10 other
  // ops.
  CHECK_THROWS_WITH(read_json(file), Contains("/plan: makes at least 4194314 ops, but the file has "));
}

TEST_CASE("With order ready_first the order of ops is the file's, as far as it is free") {
  const Experiment e = test::round_numbers(2);
  const Plan plan = two_chunks(Order::ReadyFirst);
  CHECK_NOTHROW(read_json(to_json(ScheduleFile{e, plan, price_plan(e, plan)})));
  const auto other = std::make_shared<const Schedule>(build_step(e, plan));
  Json file = to_json(ScheduleFile{e, plan, price(other, e)});
  CHECK_NOTHROW(read_json(file));
  Json swapped = file;
  std::swap(swapped["ops"][0], swapped["ops"][1]);
  CHECK_THROWS_WITH(read_json(swapped), Contains("/ops/0/dependencies/0: 0, expected an op before this one"));
  swapped["ops"][0]["dependencies"] = Json::array();
  CHECK_THROWS_WITH(read_json(swapped), Contains("/ops/0: ") && Contains(" stands before "));
  const auto another = std::ranges::find_if(
      file["tensors"], [](const Json& each) { return each.at("kind") == "expert_input" && each.at("chunk") == 1; });
  check_refused(file, first_of(file, "ops", "expert") + "/reads/0", another - file["tensors"].begin());
  file["ops"][3] = file["ops"][2];
  CHECK_THROWS_WITH(read_json(file), Contains("/ops/3: ") && Contains("the plan has no such op left"));
}

TEST_CASE("A price that contradicts what it consists of is refused") {
  const Json file = two_chunk_file();
  for (const double seconds : {0., 1e5}) {
    Json changed = file;
    changed["ops"][2]["duration_s"] = seconds;
    CHECK_THROWS_WITH(read_json(changed),
                      Contains("/ops/2/duration_s: ") && Contains("its fixed time and its demands"));
  }
  Json changed = file;
  changed["ops"][2]["fixed_s"] = 1e300;
  CHECK_THROWS_WITH(read_json(changed), Contains("/ops/2/fixed_s: "));
}
