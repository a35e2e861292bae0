// SPDX-License-Identifier: Apache-2.0
// Tutel's tables: what is predicted follows from the costs by hand.
#include <catch2/catch.hpp>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/names.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

ReproducedTable table(const std::string& id) {
  FilesRead files;
  return reproduce_table(id, files);
}

double ours(const ReproducedTable& table, const std::string& name) {
  for (const ReproducedValue& value : table.values)
    if (value.name == name) return std::get<double>(value.ours);
  FAIL("no value " << name);
  return 0;
}

Experiment small_layer() {
  FilesRead files;
  const JsonFile options = JsonFile::parse(R"({"cluster": "ndv4", "model": "moe-bert-l"})", "options");
  LayerSizes sizes;
  sizes.gpus = 16;
  sizes.tokens = 1024;
  sizes.hidden = sizes.expert_hidden = 512;
  sizes.experts = 8;
  return moe_layer(read_experiment(JsonReader(options), files), sizes);
}

}  // namespace

TEST_CASE("a layer alone: experts over the GPUs that there are, time for nothing but the MoE part") {
  const Experiment e = small_layer();
  CHECK(e.cluster.nodes == 2);
  CHECK(e.parallelism.ep == 8);
  CHECK(e.parallelism.esp == 2);  // 8 experts, 16 GPUs
  const PricedSchedule priced = price_moe(e, Plan{});
  Seconds sum;
  for (const OpId i : priced.duration.ids()) {
    const Op& op = priced.schedule->ops[i];
    INFO(name_in(op_kind_names, op.kind));
    const bool timed = OpKind::Gate <= op.kind && op.kind <= OpKind::Decode;
    CHECK((priced.duration[i] > Seconds(0)) == timed);
    sum += priced.duration[i];
  }
  CHECK(moe_time(e, Plan{}).value() == Approx(sum.value()));             // nothing overlaps in this plan
  CHECK(in_degrees(e, Plan{}, std::array{1, 2, 128, 256}).size() == 3);  // capacity 1024 / 8 rows
}

TEST_CASE("tutel-table1: four all-to-alls of k T M rows, each GPU to the 8 of the other node") {
  const double bytes = 2.0 * 65536 * 4096 * 4, messages = 8 * 3e-6 * (1 + 15 / 850.0);
  CHECK(ours(table("tutel-table1"), "16 GPUs: all-to-all") == Approx(4e3 * (messages + bytes / 2 / 22.5e9)));
}

TEST_CASE("tutel-layout: 2,048 GEMMs of 8 rows are one launch of the table of TF32") {
  // Bytes of both factors and the product at the law's bandwidth, and a launch; tiles take less, at the fourth power.
  const double bytes = 4.0 * 2048 * (2048.0 * 2048 + 8 * 4096);
  const ReproducedTable t = table("tutel-layout");
  CHECK(ours(t, "rank_major, weights from memory each time") == Approx(2e3 * bytes / 1417.5e9).epsilon(.3));
  // From the L2 cache the weights take 6.4 ms for each product, and tiles of 64 x 64 with 8 rows each take longer.
  CHECK(ours(t, "rank_major") > 2e3 * 4 * 2048 * 2048 * 2048 / 5.4e12);
  CHECK(ours(t, "rank_major") < .5 * ours(t, "rank_major, weights from memory each time"));
  CHECK(ours(t, "one product: rank_major") == Approx(.5 * ours(t, "rank_major")));
}

TEST_CASE("tutel-table4: one GPU with two experts in fp16, by hand") {
  // Fairseq's gate at 32,768 tokens: S E C = 2 S^2 entries of 12 + 2 + 1 bytes, and S C = S^2 of 24; the layer's rows,
  // weights and optimizer are what Tutel has too, less its k S M rows in several tensors.
  const ReproducedTable t = table("tutel-table4");
  const double gate = (2.0 * 15 + 24) * 32768 * 32768 / (1 << 30);
  const double fairseq = ours(t, "Fairseq, 32768 tokens"), tutel = ours(t, "Tutel, 32768 tokens");
  CHECK(fairseq > gate);
  CHECK(fairseq < gate + tutel);
}
