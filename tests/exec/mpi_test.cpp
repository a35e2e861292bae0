// SPDX-License-Identifier: Apache-2.0
// The MPI transport and what runs over it. All processes of mpirun run all cases in the same order; figures are summed
// over them, so that all see the failure of one.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/nodes_first.hpp"
#include "bench/examples/custom_moe/reversed_order.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "exec/host/host_executor.hpp"
#include "exec/host/host_run.hpp"
#include "exec/run/training.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "exec/transport/mpi_world.hpp"
#include "models/files/load.hpp"
#include "models/network/rank_flows.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "tests/conformance/conformance.hpp"
#include "tests/conformance/host_backend.hpp"
#include "tests/exec/transport_checks.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

World& world() {
  static const std::unique_ptr<World> it = make_mpi_world();
  return *it;
}

std::unique_ptr<Transport> transport_of(const Schedule& schedule) {
  return world().transport(schedule.groups, static_cast<int>(schedule.streams.size()));
}

std::unique_ptr<Transport> one_group(GroupKind kind) {
  Parallelism p;
  (kind == GroupKind::Pp ? p.pp : p.ep) = world().size();
  return world().transport(p, 2);
}

double summed(Transport& transport, double value) {
  transport.sum({&value, 1});
  return value;
}

NumericsReport numerics_of(const Experiment& e, const Plan& plan, Transport& transport,
                           const std::shared_ptr<const Schedule>& schedule, Element element) {
  const ModelData data = random_model_data(e, 5, plan.micro_batches);
  const Reference reference = compute_reference(e, data, rules_of(*schedule));
  const auto executor = make_host_executor(e, schedule, element, data, reference.routing, transport);
  executor->run_step(Poison::Yes);
  return compare(e, *schedule, *executor, reference);
}

void check_numerics(const Experiment& e, const Plan& plan) {
  INFO(describe(e, plan));
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport = transport_of(*schedule);
  const NumericsReport r = numerics_of(e, plan, *transport, schedule, Element::Double);
  CHECK(r.dropped == r.reference_dropped);
  CHECK(r.ok(tolerance_of(Element::Double, rules_of(*schedule))));
}

// Draws until it has as many ranks as there are processes.
Experiment random_experiment_here(Random& random) {
  for (;;)
    if (const Experiment e = random_executable(random); e.cluster.gpus() == world().size()) return e;
}

}  // namespace

TEST_CASE("Sub-modules of a program's own and hooks run over MPI") {
  Experiment e = round_numbers(2);
  const int ranks = world().size();
  e.cluster.nodes = 2;
  e.cluster.gpus_per_node = ranks / 2;
  e.model.experts = 8;
  e.parallelism = {.dp = ranks, .mp = 1, .ep = ranks, .esp = 1, .pp = 1, .edp = 1};
  e.extensions = {std::make_shared<HashGate>(), std::make_shared<ReversedOrder>(), std::make_shared<TanhExpert>(),
                  std::make_shared<NodesFirst>()};
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  check_numerics(e, plan);

  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport = transport_of(*schedule);
  const ModelData data = random_model_data(e, 5);
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  Hooks hooks;
  std::atomic<int> calls = 0;
  for (const auto& [point, factor] : {std::pair(HookPoint::BeforeDispatch, .5), {HookPoint::AfterDispatch, 2.}})
    hooks.at(point) = [&calls, factor](const HookCall& call) {
      ++calls;
      for (double& value : std::get<std::span<double>>(call.values)) value *= factor;
    };
  executor->set_hooks(hooks);
  executor->run_step(Poison::Yes);
  CHECK(summed(*transport, calls) == 2 * 2 * 2 * 2 * ranks);  // points, passes, layers, chunks
  CHECK(compare(e, *schedule, *executor, compute_reference(e, data, rules_of(*schedule))).ok(1e-12));
}

TEST_CASE("Every block of every collective arrives over MPI, small and large") {
  const auto transport = one_group(GroupKind::Ep);
  Communicator& c = transport->communicator(world().rank(), StreamId(0), GroupKind::Ep);
  CHECK(c.rank() == world().rank());
  CHECK(c.size() == world().size());
  for (int count : {1, 3, 40000}) {  // the last is sent in pieces
    CHECK(summed(*transport, wrong_blocks<float>(c, count)) == 0);
    CHECK(summed(*transport, wrong_blocks<double>(c, count)) == 0);
  }
  CHECK(summed(*transport, wrong_messages(c)) == 0);
}

TEST_CASE("Groups of all kinds on all streams are apart over MPI, from a thread per stream") {
  const int ranks = world().size(), rank = world().rank();
  Parallelism p;
  p.mp = p.esp = 2;
  p.dp = p.ep = ranks / 2;
  constexpr int streams = 3;
  const auto transport = world().transport(p, streams);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (StreamId stream{0}; stream < streams; ++stream)
    threads.emplace_back([&, stream] {
      for (GroupKind kind : {GroupKind::Ep, GroupKind::Esp, GroupKind::Dp, GroupKind::Mp, GroupKind::Edp}) {
        float mine = static_cast<float>(rank + 100 * stream), sum = 0, expected = 0;
        transport->communicator(rank, stream, kind).all_reduce(exchange(&mine, &sum, 1, 0));
        for (int member : group_members(p, kind, rank)) expected += static_cast<float>(member + 100 * stream);
        wrong += sum != expected;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(summed(*transport, wrong) == 0);
}

TEST_CASE("Sums over MPI round as between threads") {
  const auto transport = one_group(GroupKind::Ep);
  const int ranks = world().size();
  const auto value = [](int rank, std::size_t i) { return 1 / static_cast<float>(3 + rank + 7 * static_cast<int>(i)); };
  std::vector<float> mine(1000), sum(1000);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(world().rank(), i);
  transport->communicator(world().rank(), StreamId(0), GroupKind::Ep)
      .all_reduce(exchange(mine.data(), sum.data(), 1000, 0));
  int wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float in_order = value(0, i);
    for (int rank = 1; rank < ranks; ++rank) in_order += value(rank, i);
    wrong += sum[i] != in_order;
  }
  CHECK(summed(*transport, wrong) == 0);
}

TEST_CASE("Messages of stages over MPI wait for their receiver and go by their tags, while the sender computes") {
  const auto transport = one_group(GroupKind::Pp);
  int wrong = 0;
  constexpr std::size_t size = 200000;
  if (world().rank() == 0) {
    Communicator& c = transport->communicator(0, StreamId(0), GroupKind::Pp);
    std::vector<double> values(size, 1);
    c.post(exchange<double>(values.data(), nullptr, size, 5), 1, 7);
    values.assign(size, 2);  // the buffer is the sender's again
    c.post(exchange<double>(values.data(), nullptr, size, 6), 1, 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // without a call that would move messages
  } else if (world().rank() == 1) {
    Communicator& c = transport->communicator(1, StreamId(1), GroupKind::Pp);  // on another stream
    std::vector<double> got(size);
    wrong += c.take(exchange<double>(nullptr, got.data(), size, 1), 8) != 6;
    wrong += got != std::vector<double>(size, 2);
    wrong += c.take(exchange<double>(nullptr, got.data(), size, 9), 7) != 9;
    wrong += got != std::vector<double>(size, 1);
  }
  CHECK(summed(*transport, wrong) == 0);
}

TEST_CASE("Maximum and sum are over all processes, NaN included") {
  const auto transport = one_group(GroupKind::Ep);
  const double rank = world().rank(), ranks = world().size();
  std::array<double, 2> values{rank, -rank};
  transport->maximum(values);
  CHECK(values == std::array<double, 2>{ranks - 1, 0});
  values = {rank, 1};
  transport->sum(values);
  CHECK(values == std::array<double, 2>{ranks * (ranks - 1) / 2, ranks});
  CHECK(std::isnan(summed(*transport, rank == 0 ? std::nan("") : 1)));
  CHECK(transport->machine_ranks() == world().size());
  CHECK(transport->local_ranks() == std::vector<int>{world().rank()});
}

TEST_CASE("A text of process 0 reaches all") {
  std::string text = world().rank() == 0 ? std::string(100000, 'x') : "mine";
  world().broadcast(text);
  CHECK(text == std::string(100000, 'x'));
}

TEST_CASE("Cancelling ends waits for processes that never come") {
  const auto transport = one_group(GroupKind::Ep);
  if (world().rank() == 0) CHECK(cancelling_ends_waits(*transport));
}

TEST_CASE("The host executor over MPI conforms on the schedules of plans") {
  const bool staged = GENERATE(false, true);
  const Experiment e = conformance_experiment(world().size(), staged);
  for (const Plan& plan : conformance_plans(staged)) {
    HostBackend backend(e, transport_of);
    check_conformance(backend, price_plan(e, plan));
  }
}

TEST_CASE("Every shipped system computes over MPI what the reference does") {
  Random random(7);
  for (const std::string& name : known_names("systems")) {
    INFO(name);
    Plan plan = shipped_plan(name);
    if (plan.scope == Scope::Batch && plan.pipeline().halves && world().size() < 4) continue;  // stages and exchanges
    cut_rows(plan, 2);
    int attempts = 0;
    Experiment e;
    do {
      e = random_experiment_here(random);
      fill_pipeline(plan, e);
    } while (refusal(plan, e) && ++attempts < 1000);
    REQUIRE(attempts < 1000);
    check_numerics(e, plan);
  }
}

TEST_CASE("What the backward pass computes again is sent again over MPI") {
  Random random(11);
  for (const auto& [name, part] : recompute_names) {
    INFO(name);
    Plan plan;
    plan.recompute = {part};
    int attempts = 0;
    Experiment e = random_experiment_here(random);
    for (; refusal(plan, e) && attempts < 1000; ++attempts) e = random_experiment_here(random);
    REQUIRE(attempts < 1000);
    check_numerics(e, plan);
  }
}

TEST_CASE("Random plans compute over MPI what the reference does") {
  Random random(31);
  for (int i = 0; i < 15; ++i) {
    const Experiment e = random_experiment_here(random);
    check_numerics(e, random_legal_plan(random, e));
  }
}

namespace {

// A random experiment with loads of its own for each expert, that this plan fits. Its gate gives slots in token order:
// the model of routing does not know scores, which would put other tokens into a chunk.
Experiment routed_here(Random& random, const Plan& plan) {
  for (;;) {
    Experiment e = random_experiment_here(random);
    e.workload.capacity_factor = 0;
    e.parallelism.sequence_parallel.reset();
    e.workload.message_sizes = MessageSizes::Routed;
    e.workload.routing.kind = RoutingKind::Zipf;
    e.workload.gate.batch_prioritised = false;
    resolve_capacity(e);
    if (e.workload.gate.token_choice() && e.parallelism.ep > 1 && !refusal(plan, e)) return e;
  }
}

// Five steps of Adam beside the same in sequence.
void check_training(const Experiment& e, const Plan& plan, double tolerance) {
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport = transport_of(*schedule);
  ModelData data = random_model_data(e, 5, plan.micro_batches);
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  const TrainingReport r = train(*executor, e, *schedule, std::move(data), {5, 5, true, tolerance});
  CHECK(r.loss_error <= tolerance);
  CHECK(r.weight_error <= tolerance);
  CHECK(r.ok);
}

void check_numbers_and_bytes(const Experiment& e, const Plan& plan) {
  INFO(describe(e, plan));
  check_numerics(e, plan);
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport = transport_of(*schedule);
  const auto executor = make_host_executor(e, schedule, Element::Float, random_model_data(e, 5), {}, *transport);
  executor->run_step(Poison::Yes);
  const RankFlows flows(e, *schedule);
  const IdVector<OpId, SentBytes> sent = executor->sent_bytes();
  for (const OpId i : sent.ids()) {
    if (!RoutedRows::moves(schedule->ops[i])) continue;
    double simulated = 0;
    for (const RankFlow& flow : flows.of(schedule->ops[i])) simulated += flow.bytes.value();
    CHECK(sent[i].sent == Approx(simulated).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("Routed rows over MPI: the reference's numbers, and the bytes that the routing model says") {
  Random random(19);
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.expert_kernel = ExpertKernel::Grouped;
  plan.row_tile = 8;
  SECTION("to each expert") {}
  SECTION("to each node once") {
    plan.all_to_all = AllToAll::NodeDeduplicated;
    plan.scores_at = ScoresAt::Experts;
  }
  for (int run = 0; run < 3; ++run) check_numbers_and_bytes(routed_here(random, plan), plan);
}

TEST_CASE("Trainings over MPI have the losses of the sequential one") {
  Random random(17);
  for (int run = 0; run < 5;) {
    const Experiment e = random_experiment_here(random);
    const Plan plan = random_legal_plan(random, e);
    if (e.workload.extent != Extent::Model || e.workload.phases != Phases::Training) continue;
    ++run;
    INFO(describe(e, plan));
    const ComputeRules rules = rules_of(build_schedule(e, plan));
    check_training(e, plan, rounding_growth(e) * tolerance_of(Element::Double, rules));
  }
}

TEST_CASE("Ranks that repeat tokens train over MPI as the reference does") {
  Experiment e = round_numbers(2);
  e.cluster.nodes = world().size() / 2;
  e.parallelism = {.dp = world().size() / 2, .mp = 2, .ep = world().size() / 2, .esp = 2, .sequence_parallel = false};
  e.model.experts = world().size();
  e.model.vocabulary = 10;
  e.model.attention.qk_norm = QkNorm::Head;
  e.workload.extent = Extent::Model;
  e.workload.clip_gradients = .5;
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  plan.zero = GENERATE(0, 1);
  check_training(e, plan, 1e-12);
}

TEST_CASE("Tied embeddings and further predictions on the first and the last process's stage train over MPI") {
  Experiment e = with_predictions(round_numbers(4), GENERATE(0, 2));
  const int stages = std::min(4, world().size()), ranks = world().size() / stages;
  e.cluster.nodes = stages;
  e.cluster.gpus_per_node = ranks;
  e.parallelism = {.dp = ranks, .mp = 1, .ep = ranks, .esp = 1, .pp = stages};
  e.model.vocabulary = 10;
  e.model.tied_embeddings = true;
  e.workload.extent = Extent::Model;
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  plan.zero = 1;
  check_training(e, plan, 1e-12);
}

TEST_CASE("Latent attention over model-parallel processes trains over MPI") {
  Experiment e = with_latent_attention(round_numbers(2), GENERATE(0, 7));
  const int mp = 2, dp = world().size() / mp;
  e.cluster.nodes = dp;
  e.cluster.gpus_per_node = mp;
  e.parallelism = {.dp = dp, .mp = mp, .ep = dp, .esp = mp};
  e.model.vocabulary = 10;
  e.workload.extent = Extent::Model;
  Plan plan;
  plan.zero = GENERATE(0, 1);
  plan.recompute = {Recompute::UpProjections, Recompute::MpGather};
  check_training(e, plan, 1e-12);
}

TEST_CASE("A step over MPI differs from the reference by as much as one between threads") {
  Random random(3);
  for (int i = 0; i < 5; ++i) {
    const Experiment e = random_experiment_here(random);
    const Plan plan = random_legal_plan(random, e);
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    const auto mpi = transport_of(*schedule), inproc = inproc_transport_of(*schedule);
    const NumericsReport a = numerics_of(e, plan, *mpi, schedule, Element::Float);
    const NumericsReport b = numerics_of(e, plan, *inproc, schedule, Element::Float);
    CHECK(a.output_error == Approx(b.output_error).epsilon(1e-9));
    CHECK(a.gradient_error() == Approx(b.gradient_error()).epsilon(1e-9));
    CHECK(a.dropped == b.dropped);
  }
}

TEST_CASE("A whole run over MPI is the same for all processes") {
  const Experiment e = conformance_experiment(world().size(), false);
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
  const auto transport = transport_of(*schedule);
  RunOptions options;
  options.measure.limit = Seconds(.3);
  const RunResult r = run_on_host(e, std::make_shared<const PricedSchedule>(price(schedule, e)), options, *transport);
  CHECK(r.report.numerics_ok);
  CHECK(r.report.transport == "mpi");
  CHECK(r.report.ranks == world().size());
  CHECK(r.timeline.ops.size() == schedule->ops.size());
  double samples = static_cast<double>(r.report.samples.size());
  transport->maximum({&samples, 1});
  CHECK(samples == static_cast<double>(r.report.samples.size()));
}
