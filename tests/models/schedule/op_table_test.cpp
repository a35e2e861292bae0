// SPDX-License-Identifier: Apache-2.0
// The table of ops against the schedules that are built: every op has the operands and the traits of its kind.
#include "models/schedule/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "models/base/json/json_file.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/lowering.hpp"
#include "models/schedule/operand_check.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

Schedule random_schedule(Random& random) {
  Experiment e = random_experiment(random);
  if (e.workload.extent == Extent::Model && !e.parallelism.repeats_tokens() && e.model.moe_every == 1 &&
      random() % 2 == 0)
    e = with_predictions(e, 1 + static_cast<int>(random() % 2));
  e.framework.waits_for_loss = e.framework.waits_for_norm = random() % 2 == 0;
  const Plan plan = random_legal_plan(random, e);
  INFO(describe(e, plan));
  return build_schedule(e, plan);
}

Op& first_op(Schedule& s, OpKind kind, Phase phase) {
  const auto found = std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
  REQUIRE(found != s.ops.end());
  return *found;
}

const Tensor& tensor(const Schedule& s, TensorId id) {
  return s.tensors[id];
}

// Gives an op other operands than those it was built with.
void set_operands(Schedule& s, Op& op, const std::vector<TensorId>& reads, const std::vector<TensorId>& writes) {
  const auto append = [&s](const std::vector<TensorId>& ids) {
    const auto first = static_cast<std::int32_t>(s.operands.size());
    s.operands.insert(s.operands.end(), ids.begin(), ids.end());
    return Span{first, static_cast<std::int32_t>(s.operands.size())};
  };
  op.reads = append(reads);
  op.writes = append(writes);
}

template <class Ids>
std::vector<TensorId> list(const Ids& ids) {
  return {ids.begin(), ids.end()};
}

using Accesses = std::set<std::string>;

// An op of a kind in a pass.
struct Doing {
  OpKind op;
  Phase phase;
  Half half;
  explicit Doing(const Op& of) : op(of.kind), phase(of.phase), half(of.half) {}
  Doing(OpKind kind, Phase pass, Half which) : op(kind), phase(pass), half(which) {}
};

std::string access(const Doing& doing, std::string_view verb, const Tensor& tensor) {
  return fmt::format("{}{} {} {} {}{}", name_in(phase_names, doing.phase),
                     doing.half == Half::Both ? "" : fmt::format(" {} half", name_in(half_names, doing.half)),
                     entry_of(doing.op).name, verb, tensor.gradient ? "d_" : "", entry_of(tensor.kind).name);
}

void add_accesses(const Doing& doing, std::string_view verb, const std::vector<const Operand*>& operands,
                  Accesses& to) {
  for (const Operand* operand : operands)
    for (const TensorEntry& t : tensor_table)
      for (const bool gradient : {false, true}) {
        Tensor tensor;
        tensor.kind = t.kind;
        tensor.gradient = gradient;
        if (operand->role.covers(tensor)) to.insert(access(doing, verb, tensor));
      }
}

std::string text_of(const Operands& operands) {
  std::string text;
  for (const Operand& each : operands) {
    std::string one = to_string(each.role);
    if (each.count == Count::Some || each.count == Count::Any) one += " …";
    if (each.count == Count::Optional || each.count == Count::Any) one = "[" + one + "]";
    if (each.share == Share::Inputs) one += " *i*";
    if (each.share == Share::Weights) one += " *w*";
    if (each.share == Share::Between) one += " *between*";
    if (each.share == Share::BetweenAndWhole) one += " *between, too*";
    if (!each.note.empty()) one += fmt::format(" ({})", each.note);
    text += (text.empty() ? "" : "; ") + one;
  }
  return text;
}

std::string tables() {
  std::string text = "| tensor | shape | holds |\n|---|---|---|\n";
  for (const TensorEntry& t : tensor_table)
    text += fmt::format("| {} | {} | {}{} |\n", t.name, t.shape.empty() ? "below" : t.shape, t.holds,
                        t.wide ? "; at least fp32" : "");
  text +=
      "\nOne or more of an operand: `x …`. It may be missing: `[x]`, `[x …]`. Where an op has halves, *i* marks what "
      "the "
      "half of the inputs alone reads or writes, and *w* the same of the half of the weights; what stands *between* is "
      "written by the first and read by the second, and the whole op has it only where *too* is added.\n\n";
  text += "| op | pass | reads | writes |\n|---|---|---|---|\n";
  for (const OpEntry& op : op_table)
    for (const Signature& each : op.signatures)
      text += fmt::format("| {} | {}{} | {} | {} |\n", op.name, name_in(phase_names, each.phase),
                          each.remark.empty() ? "" : fmt::format(", {}", each.remark), text_of(each.reads),
                          text_of(each.writes));
  return text;
}

// The document with the tables of the code between its marks.
std::string with_tables(const std::string& document) {
  const std::string begin = "<!-- made from models/schedule/op_table.cpp by a test -->\n", end = "<!-- end -->\n";
  const std::size_t first = document.find(begin), last = document.find(end, first);
  check(first != std::string::npos && last != std::string::npos, "operands.md has lost the marks of its tables");
  return document.substr(0, first + begin.size()) + tables() + document.substr(last);
}

}  // namespace

TEST_CASE("Letters, colours and names of ops differ") {
  std::set<char> letters;
  std::set<std::string_view> colours, names;
  for (const OpEntry& entry : op_table) {
    letters.insert(entry.letter);
    colours.insert(entry.colour);
    names.insert(entry.name);
    CHECK(name_in(op_kind_names, entry.kind) == entry.name);
    CHECK(entry_of(entry.kind).letter == entry.letter);
  }
  CHECK(letters.size() == op_kinds);
  CHECK(colours.size() == op_kinds);
  CHECK(names.size() == op_kinds);
}

TEST_CASE("The operands of every op of random plans fit the table, and all that the table allows occurs") {
  Accesses seen, allowed;
  for (const OpEntry& entry : op_table)
    for (const Signature& signature : entry.signatures)
      for (const auto& [name, half] : half_names) {
        if (half != Half::Both && !signature.has_halves()) continue;
        const Doing doing(entry.kind, signature.phase, half);
        add_accesses(doing, "reads", read_by(half, signature), allowed);
        add_accesses(doing, "writes", written_by(half, signature), allowed);
      }
  Random random(31);
  for (int plans = 0; plans < 500 || (seen != allowed && plans < 40'000); ++plans) {
    const Schedule s = random_schedule(random);
    for (const Op& op : s.ops) {
      REQUIRE(operand_fault(s, op).value_or("") == "");
      for (TensorId id : s.reads_of(op)) seen.insert(access(Doing(op), "reads", tensor(s, id)));
      for (TensorId id : s.writes_of(op)) seen.insert(access(Doing(op), "writes", tensor(s, id)));
    }
  }
  CHECK(seen == allowed);
}

TEST_CASE("The tables in operands.md are those of the code") {
  const auto path = std::filesystem::path(DOVETAIL_TEST_DATA) / "../../models/schedule/operands.md";
  CHECK(golden_difference("../../models/schedule/operands.md", with_tables(JsonFile::read_text(path))) == "");
}

TEST_CASE("The traits of ops are those that schedules show") {
  const auto check_op = [](const Schedule& s, const Op& op) {
    const OpEntry& entry = entry_of(op.kind);
    INFO(to_string(op));
    REQUIRE(entry.communicates == (op.exchange() != nullptr));
    const bool on_compute = s.streams[op.stream].kind == StreamKind::Compute;
    if (entry.floats) REQUIRE(!on_compute);
    if (entry.communicates) REQUIRE(!on_compute);
    if (entry.exchanges_rows) REQUIRE(op.group() == GroupKind::Ep);
    for (TensorId id : s.writes_of(op)) {
      const Tensor& t = tensor(s, id);
      if (!entry.communicates || op.group() != GroupKind::Ep) continue;
      if (t.kind == TensorKind::Dispatched || t.kind == TensorKind::Combined)
        REQUIRE(to_owners(op) == (t.kind == TensorKind::Dispatched));
      if (t.kind == TensorKind::ExpertOutput || t.kind == TensorKind::Encoded)
        REQUIRE(to_owners(op) == (t.kind == TensorKind::ExpertOutput));
    }
    const bool makes_gradients =
        std::ranges::any_of(s.writes_of(op), [&](TensorId id) { return tensor(s, id).gradient; });
    if (entry.restores) REQUIRE((op.phase == Phase::Backward && !makes_gradients));
  };
  Random random(32);
  for (int plans = 0; plans < 500; ++plans) {
    const Schedule s = random_schedule(random);
    for (const Op& op : s.ops) check_op(s, op);
  }
  for (const OpEntry& entry : op_table) {
    INFO(entry.name);
    const auto has = [&](Phase phase) {
      return std::ranges::any_of(entry.signatures, [&](const Signature& each) { return each.phase == phase; });
    };
    if (!entry.stands_alone && has(Phase::Backward)) CHECK(has(Phase::Forward));
    if (entry.restores) CHECK(!has(Phase::Forward));
  }
}

TEST_CASE("validate refuses a missing operand, one too many, two in the wrong order and a wrong size, by name") {
  Schedule s = build_schedule(round_numbers(), Plan{});
  REQUIRE_NOTHROW(validate(s));
  Op& gate = first_op(s, OpKind::Gate, Phase::Forward);
  const std::vector<TensorId> reads = list(s.reads_of(gate)), writes = list(s.writes_of(gate));
  SECTION("missing at the end") {
    set_operands(s, gate, {reads[0], reads[1]}, writes);
    CHECK_THROWS_WITH(validate(s), Contains("gate[0] does not read router_weights"));
  }
  SECTION("missing in the middle") {
    set_operands(s, gate, {reads[0], reads[2]}, writes);
    CHECK_THROWS_WITH(
        validate(s), Contains("gate[0] reads router_weights[0] in the place of attention_partial or attention_output"));
  }
  SECTION("missing among the results") {
    set_operands(s, gate, reads, {writes[0]});
    CHECK_THROWS_WITH(validate(s), Contains("gate[0] does not write routing"));
  }
  SECTION("one too many") {
    set_operands(s, gate, {reads[0], reads[1], reads[2], reads[0]}, writes);
    CHECK_THROWS_WITH(validate(s), Contains("gate[0] reads layer_input[0], which is no operand of it there"));
  }
  SECTION("in the wrong order") {
    set_operands(s, gate, reads, {writes[1], writes[0]});
    CHECK_THROWS_WITH(validate(s), Contains("gate[0] writes routing[0] in the place of moe_input"));
  }
  SECTION("a value where a gradient is expected") {
    Op& back = first_op(s, OpKind::EspAllGather, Phase::Backward);
    set_operands(s, back, list(s.reads_of(first_op(s, OpKind::Expert, Phase::Forward))), list(s.writes_of(back)));
    CHECK_THROWS_WITH(validate(s), Contains("reads expert_input[0].0 in the place of d_expert_input"));
  }
  SECTION("in a pass that its kind does not have") {
    gate.kind = OpKind::Prefetch;
    CHECK_THROWS_WITH(validate(s), Contains("prefetch[0] has no forward pass"));
  }
  SECTION("of another size") {
    s.tensors[writes[0]].elements += 1;
    CHECK_THROWS_WITH(validate(s), Contains("but both are (T, M)"));
  }
}
