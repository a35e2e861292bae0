// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "bench/pipeline/backends.hpp"
#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/price/sizes_used.hpp"
#include "models/question/expert_loads.hpp"
#include "models/question/model_flops.hpp"
#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"
#include "models/question/volumes.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

void add_once(std::vector<std::string>& list, const std::string& what) {
  if (std::ranges::find(list, what) == list.end()) list.push_back(what);
}

// look(provenance, name) for each cost that notes speak of but interference, and each GEMM cost for which `counts`.
template <class Counts, class Look>
void for_each_cost(const Calibration& calibration, Counts counts, Look look) {
  for (const CollectiveCost& cost : calibration.collectives)
    look(cost.provenance,
         fmt::format("{} ({})", name_in(collective_names, cost.collective), name_in(link_kind_names, cost.link)));
  for (const GemmCost& cost : calibration.gemms)
    if (counts(cost)) look(cost.provenance, fmt::format("GEMM ({})", name_in(dtype_names, cost.dtype)));
  for (const KernelTable& table : calibration.tables)
    look(table.provenance, fmt::format("{} by shape ({})", name_in(kernel_kind_names, table.kind()),
                                       name_in(dtype_names, table.dtype())));
  look(calibration.memory.provenance, "kernels bound by device memory");
  if (calibration.strided_copy) look(calibration.strided_copy->provenance, "strided copies");
  for (const MessageCost& cost : calibration.messages)
    look(cost.provenance,
         fmt::format("{} messages ({})", name_in(protocol_names, cost.protocol), name_in(link_kind_names, cost.link)));
  if (calibration.host) look(calibration.host->provenance, "the host's time of a launch");
}

template <class Look>
void for_each_interference(std::span<const Interference> all, Look look) {
  for (const Interference& entry : all) look(entry.provenance, "interference " + name_of(entry));
}

// The products of a step in this number format take these costs alone, or hardly any.
bool priced_by_shape(const Calibration& calibration, DType dtype, AttentionKernel attention) {
  return find_table(calibration.tables, KernelKind::Gemm, dtype) != nullptr &&
         (attention == AttentionKernel::Eager ||
          find_table(calibration.tables, KernelKind::Attention, dtype) != nullptr);
}

}  // namespace

void add_assumptions(const Experiment& e, std::vector<std::string>& notes) {
  const Calibration& calibration = *e.calibration;
  const Workload& w = e.workload;
  std::vector<std::string> assumed, disturbed;
  const bool by_shape = priced_by_shape(calibration, w.dtype, w.attention);
  const auto used = [&](const GemmCost& gemm) {
    const bool products = w.other_products() == gemm.dtype;
    return (gemm.dtype == w.dtype && !by_shape) ||
           (products && find_table(calibration.tables, KernelKind::Gemm, gemm.dtype) == nullptr);
  };
  const auto look = [&](const Provenance& provenance, const std::string& what) {
    if (provenance.origin == Origin::Assumed) add_once(assumed, what);
    if (provenance.disturbed) add_once(disturbed, what);
  };
  for_each_cost(calibration, used, look);
  for_each_interference(interference_of(e), look);
  if (!assumed.empty())
    notes.push_back(fmt::format("{}: assumed costs, neither published nor measured: {}", calibration.name,
                                fmt::join(assumed, ", ")));
  if (!disturbed.empty())
    notes.push_back(fmt::format("{}: measured while threads shared cores, not to be trusted: {}", calibration.name,
                                fmt::join(disturbed, ", ")));
  add_bad_fits(calibration, notes);
  if (!w.causal && w.attention == AttentionKernel::Flash)
    notes.emplace_back("attention without a mask: assumed to take twice as long as a causal kernel");
}

void add_bad_fits(const Calibration& calibration, std::vector<std::string>& notes) {
  std::vector<std::string> bad;
  const auto all = [](const GemmCost&) { return true; };
  const auto look = [&](const Provenance& provenance, const std::string& what) {
    if (provenance.fits_badly())
      add_once(bad, fmt::format("{} (r2 {:.2f}, up to {:.0f} % off)", what, provenance.fit->r2,
                                100 * worst_error(*provenance.fit)));
  };
  for_each_cost(calibration, all, look);
  for_each_interference(calibration.interference, look);
  if (!bad.empty())
    notes.push_back(fmt::format("{}: measured times far from alpha + n beta (r2 below {}), not to be trusted: {}",
                                calibration.name, usual_r2, fmt::join(bad, ", ")));
}

void add_run_differences(const Experiment& asked, std::vector<std::string>& notes) {
  if (asked.workload.attention == AttentionKernel::Eager)
    notes.emplace_back(
        "attention runs, and is predicted here, as a flash kernel, which keeps no scores; eager attention is simulated "
        "alone");
  if (asked.workload.gradient_dtype() != asked.workload.dtype)
    notes.push_back(fmt::format("a run keeps the gradients of weights in the format of everything else, not in {}",
                                name_in(dtype_names, asked.workload.gradient_dtype())));
  if (asked.model.attention.window > 0)
    notes.push_back(fmt::format("a run's layers all see the whole sample; windows of {} positions are simulated alone",
                                asked.model.attention.window));
  if (!asked.parallelism.pipeline_layout.empty())
    notes.emplace_back("a run has few layers, in equal parts on all stages: parallelism.pipeline_layout is left out");
}

void add_stage_transfers(const Experiment& e, std::vector<std::string>& notes) {
  if (e.parallelism.pp == 1) return;
  const CollectivePrice cost =
      find_cost(*e.calibration, Collective::Send, place_of(e.parallelism, GroupKind::Pp, e.cluster));
  if (cost.provenance.origin == Origin::Assumed)
    notes.push_back(fmt::format("{}: transfers between pipeline stages: assumed costs, {}", e.calibration->name,
                                cost.provenance.source));
}

void add_routing(const Experiment& e, std::vector<std::string>& notes) {
  const Workload& w = e.workload;
  if (e.model.dense()) {
    notes.push_back(
        fmt::format("{} has no experts: degrees, and knobs of exchanges and of experts, change nothing", e.model.name));
    return;
  }
  if (w.message_sizes == MessageSizes::Routed && w.gate.batch_prioritised)
    notes.emplace_back(
        "gate batch_prioritised: rows of a chunk are modelled in the order of tokens, since scores are known only in a "
        "run");
  if (w.routing.kind == RoutingKind::Router && w.capacity_factor > 0) return;
  const RoutingSummary routing = summarize_routing(e);
  const bool by_router = w.routing.kind == RoutingKind::Router;
  notes.push_back(fmt::format(
      "routing {}: the fullest expert gets {:.2f} times the mean; capacity {} rows; {:.2f} % of "
      "the choices dropped",
      by_router ? "of the router, modelled as uniform" : name_in(routing_kind_names, w.routing.kind), routing.imbalance,
      layer_volumes(e).capacity, 100 * static_cast<double>(routing.dropped) / static_cast<double>(routing.choices)));
}

namespace {

// Parts of the model that no step has, though its layers, or all of it, are asked for with norms and other passes.
std::vector<std::string> parts_left_out(const Experiment& e) {
  const Model& m = e.model;
  std::vector<std::string> parts;
  if (!e.workload.whole_layers()) return parts;
  if (m.biases != Biases::None) parts.emplace_back("biases");
  if (m.attention.sinks) parts.emplace_back("sinks of attention");
  if (m.norms == NormKind::Layer) parts.emplace_back("means and biases of layer norms, which count as RMS norms");
  if (m.shared_experts.gate) parts.emplace_back("the gate of shared experts");
  if (e.workload.extent != Extent::Model) return parts;
  if (m.learned_positions > 0) parts.emplace_back("learned positions");
  if (const int left = m.mtp_layers - e.workload.mtp_layers; left > 0)
    parts.emplace_back(
        fmt::format("{} of multi-token prediction", left == 1 ? "the layer" : fmt::format("{} layers", left)));
  return parts;
}

// Layers differ in how they mix tokens, but a step has their mean in each layer.
std::string mean_of_layers(const Experiment& e) {
  const Model& m = e.model;
  const Recurrence& r = m.recurrence;
  if (r.layers == 0) return {};
  const double positions = e.workload.causal ? e.workload.sequence / 2. : e.workload.sequence;
  const Attention& a = m.attention;
  const std::int64_t widths = std::int64_t{a.heads} * (a.head_size + a.value_head_size());
  const double attention = 2 * static_cast<double>(attention_matrices(a, m.hidden, a.heads, a.kv_heads)) +
                           2 * positions * static_cast<double>(widths);
  const double recurrence = 2 * static_cast<double>(recurrence_sizes(r, m.hidden, 1).parameters()) + state_flops(r);
  return fmt::format(
      "{} of {} layers have attention ({:.3g} GFLOP a token forward), {} a recurrence, {} ({:.3g}): each layer of the "
      "step is priced as their mean, so stages and memory peaks may differ by that. The recurrence's times are derived "
      "from products of chunks",
      m.attention_layers(), m.layers, attention / 1e9, r.layers, name_in(recurrence_kind_names, r.kind),
      recurrence / 1e9);
}

// Embedding and output head are one matrix each, on the first and the last stage, divided over mp ranks.
std::string left_out(const Experiment& e) {
  if (e.workload.extent == Extent::Model) {
    const bool whole = parts_left_out(e).empty();
    return fmt::format("{} in time and memory; what CUDA and NCCL take for themselves is not in the memory",
                       whole ? "the whole model is" : "embedding, layers, norms, output head and loss are");
  }
  const std::string rest = fmt::format(
      "the loss with its logits{}, and the memory that CUDA and NCCL take for themselves are left out; workload.extent "
      "model has all but the last",
      e.workload.whole_layers() ? "" : ", norms and other passes of the layers");
  if (e.model.vocabulary == 0)
    return fmt::format(
        "time and memory are those of the layers: embedding and output head (their size is not known), {}", rest);
  const double parameters =
      static_cast<double>(e.model.vocabulary) * static_cast<double>(e.model.hidden) / e.parallelism.mp;
  const bool training = e.workload.phases == Phases::Training;
  const double element = size_of(e.workload.dtype).value();
  const double bytes = training ? 2 * element + 4 * (element < 4 ? 3 : 2) : element;  // as of the layers' parameters
  return fmt::format(
      "time and memory are those of the layers: embedding and output head ({} each for weights{}, if divided over "
      "mp{}), {}",
      reports::bytes(Bytes(parameters * bytes)), training ? ", gradients and Adam" : "",
      e.parallelism.pp > 1 ? "; on the first and the last stage" : "", rest);
}

std::string flops_of_token(const Experiment& e) {
  const ModelFlops flops = model_flops(e);
  return fmt::format(
      "model flops of a token: {} x {:.4g} billion active parameters of products{} + {:.3g} GFLOP of attention = "
      "{:.4g} GFLOP; MFU divides by the peak of the products' format",
      e.workload.phases == Phases::Training ? 6 : 2, flops.active_parameters / 1e9,
      e.workload.extent == Extent::Model ? ", output head included" : " of the layers", flops.of_attention / 1e9,
      flops.per_token() / 1e9);
}

// Rows that stand by their source are a product for each source, which reads the expert's weights again.
std::string reread_weights(const Experiment& e) {
  const Bytes size = e.cluster.device.l2_cache;
  const auto& cache = e.calibration->l2_cache;
  if (size > Bytes(0) && cache)
    return fmt::format(
        "plan.layout rank_major reads an expert's weights once for each rank whose rows it has: if they fit into {} of "
        "L2 cache, later times at its {} ({}); else each time from device memory",
        reports::bytes(size), format_quantity(cache->bandwidth), name_in(origin_names, cache->provenance.origin));
  return fmt::format(
      "plan.layout rank_major reads an expert's weights once for each rank whose rows it has, here each time from "
      "device memory: {}",
      cache ? fmt::format("cluster {} does not say how large the L2 cache is (device.l2_cache)", e.cluster.name)
            : fmt::format("calibration {} does not say what the L2 cache gives (l2_cache)", e.calibration->name));
}

std::string idle_stages(const Experiment& e) {
  return fmt::format(
      "{} pipeline stages, but a batch of {} sample{} makes {} micro-batch{} at most: the stages mostly wait for one "
      "another; a larger workload.batch fills them",
      e.parallelism.pp, e.workload.batch, e.workload.batch == 1 ? "" : "s", e.workload.batch,
      e.workload.batch == 1 ? "" : "es");
}

}  // namespace

void add_limits(Report& report) {
  const Experiment& e = report.experiment;
  const auto add = [&](std::string note) {
    if (std::ranges::find(report.notes, note) == report.notes.end()) report.notes.push_back(std::move(note));
  };
  add(left_out(e));
  if (const std::string mean = mean_of_layers(e); !mean.empty()) add(mean);
  if (const auto parts = parts_left_out(e); !parts.empty())
    add(fmt::format("neither time nor memory has these parts of {}: {}", e.model.name, fmt::join(parts, "; ")));
  if (report.kind != "run") add(flops_of_token(e));
  for (std::string& note : extrapolated_groups(e)) add(std::move(note));
  for (std::string& note : trees_taken(e)) add(std::move(note));
  if (e.workload.batch < e.parallelism.pp) add(idle_stages(e));
  for (const SystemResult& result : report.results)
    for (std::string& note : extrapolated_profiles(*result.schedule, e.model)) add(std::move(note));
  for (const SystemResult& result : report.results)
    for (std::string& note : sizes_outside(*result.schedule, e)) add(std::move(note));
  for (const SystemResult& result : report.results)
    if (const BackendEntry* backend = find_backend(result.backend); backend != nullptr && backend->links_alone)
      add(result.backend +
          " leaves out what is not a link: calibrated rates, interference and shared device memory; latencies and "
          "kernels are the calibration's");
  for (const SystemResult& result : report.results)
    if (result.plan.layout == Layout::RankMajor && !e.model.dense()) add(reread_weights(e));
  for (const SystemResult& result : report.results)
    if (result.plan.graphs != Graphs::None && !e.calibration->host)
      add(
          fmt::format("plan.graphs {} changes no time here: launches take the host none, since calibration {} has no "
                      "\"host\"",
                      name_in(graphs_names, result.plan.graphs), e.calibration->name));
  for (const SystemResult& result : report.results)
    if (const double share = result.metrics.launch_bound / result.metrics.makespan; share > .01)
      add(
          fmt::format("{}: {:.0f} % of the step waits for the host alone, which launches kernels one by one ({:.3g} us "
                      "each); --explain says what would shorten that",
                      result.system, 100 * share, 1e6 * e.calibration->host->launch.value()));
  for (const SpeedEvent& event : e.events)
    add(fmt::format("{} at {:.3g} % of its speed from {:.4g} ms {}; plans were made without that", event.resource,
                    100 * event.speed, 1e3 * event.at.value(),
                    event.until ? fmt::format("to {:.4g} ms", 1e3 * event.until->value()) : "on"));
  if (!e.cluster.network) return;
  for (const SystemResult& result : report.results) {
    const bool split = e.parallelism.pp == 1 && result.schedule->classes.size() > 1;
    if (split && result.planner.evaluations > 0)
      add(fmt::format("{}: {} classes of ranks that differ are simulated; the plan was made as if all were alike",
                      e.cluster.name, result.schedule->classes.size()));
    if (result.plan.split == Split::Peers)
      add(fmt::format("{}: exchanges with some of the peers count on its links as if spread over all of them",
                      e.cluster.name));
  }
}

}  // namespace dovetail::bench
