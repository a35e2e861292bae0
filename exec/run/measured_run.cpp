// SPDX-License-Identifier: Apache-2.0
#include "exec/run/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "exec/reference/reference.hpp"
#include "exec/run/emulation.hpp"
#include "exec/run/training.hpp"
#include "models/network/routed_rows.hpp"

namespace dovetail::exec {
namespace {

constexpr int work_samples = 5;  // steps that tell what each op really takes
constexpr int most_repetitions = 3;
constexpr int numerics_attempts = 3;

class MeasuredRun {
 public:
  MeasuredRun(RunTarget& target, const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
              const RunOptions& options)
      : target_(target),
        e_(experiment),
        priced_(std::move(priced)),
        options_(options),
        rules_(rules_of(*priced_->schedule)) {
    result_.report = target_.report();
  }

  RunResult run() {
    target_.require_possible();
    if (options_.train > 0) require_trainable(e_);
    prepare();
    emulated_.held = target_.held_ops(result_.notes);
    const Executor* const exact = executor_.get();
    executor_ = target_.make_timed(std::move(executor_), data_, emulated_.held, result_.notes);
    if (const std::string what = executor_->description(); !what.empty())
      result_.notes.insert(result_.notes.begin(), what);
    if (executor_->captures()) capture(executor_.get() == exact);
    note_graphs();
    if (!e_.extensions.empty())
      result_.notes.push_back(e_.extensions.note() + ", and the reference calls the same gate and experts");
    data_ = {};
    reference_.reset();
    warm_up();
    emulated_.work = measure_work();
    const bool given = options_.dilation > 0 || !target_.stretches();
    double dilation = first_dilation();
    for (int repetition = 0;; ++repetition, dilation *= 2) {
      emulate(dilation);
      const bool last = given || repetition == most_repetitions;
      if (sample(dilation, last) || last) break;
    }
    if (priced_->schedule->routed) note_sent_rows();
    if (options_.train > 0) result_.report.training = train();
    return std::move(result_);
  }

 private:
  void note_sent_rows() {
    const Schedule& s = *priced_->schedule;
    SentBytes rows;
    const IdVector<OpId, SentBytes> sent = executor_->sent_bytes();
    for (const OpId i : sent.ids())
      if (RoutedRows::moves(s.ops[i])) {
        rows.sent += sent[i].sent;
        rows.padded += sent[i].padded;
      }
    result_.notes.push_back(
        fmt::format("routed messages: ranks sent each other {:.4g} MB of rows in a step; with room "
                    "for the whole capacity it would be {:.4g} MB",
                    1e-6 * rows.sent, 1e-6 * rows.padded));
  }

  // A poisoned first step, compared with the reference. With ReLU in float, about one in ten large runs has a gradient
  // that differs: then other data decide.
  void prepare() {
    const bool relu_in_float = e_.model.expert_kind == ExpertKind::Ffn && target_.in_float();
    if (!options_.check_numerics) {
      data_ = target_.data(options_.seed);
      result_.report.numerics_checked = false;
      result_.notes.emplace_back("numerics were not checked");
      return;
    }
    for (int attempt = 1;; ++attempt) {
      data_ = target_.data(options_.seed + static_cast<std::uint64_t>(attempt - 1));
      reference_ = compute_reference(e_, data_, rules_);
      executor_.reset();
      executor_ = target_.make_exact(data_, reference_->routing);
      std::optional<Reference> exact;
      if (rules_.rounds()) exact = compute_reference(e_, data_, rules_.exact());
      check_numerics(Poison::Yes, exact ? &*exact : nullptr);
      if (exact && attempt == 1)
        result_.notes.push_back(fmt::format("compressed messages change the outputs by {:.1e} of their norm",
                                            result_.numerics.rounding_error));
      if (result_.report.numerics_ok || !relu_in_float || attempt == numerics_attempts) return;
      result_.notes.push_back(fmt::format("numerics checked again with seed {}: gradients differed by {:.1e}",
                                          options_.seed + static_cast<std::uint64_t>(attempt),
                                          result_.report.gradient_error));
    }
  }

  void check_numerics(Poison poison, const Reference* without_rounding) {
    executor_->run_step(poison);
    result_.numerics = compare(e_, *priced_->schedule, *executor_, *reference_, without_rounding);
    RunReport& r = result_.report;
    r.dropped = result_.numerics.dropped;
    r.output_error = result_.numerics.output_error;
    r.gradient_error = result_.numerics.gradient_error();
    r.numerics_ok = result_.numerics.ok(target_.tolerance(rules_));
  }

  // In the first step libraries and kernels are loaded. A captured step is checked too: the worse of both counts.
  void capture(bool exact) {
    executor_->run_stamped();
    target_.expect(executor_->run_step(Poison::No));
    const std::string reason = executor_->capture();
    captured_ = reason.empty();
    result_.notes.push_back(captured_ ? "each step is captured as one graph; op times are of steps with time stamps"
                                      : "the step could not be captured: " + reason);
    if (!captured_ || !exact || !reference_) return;
    const RunReport before = result_.report;
    const NumericsReport numerics = result_.numerics;
    check_numerics(Poison::Before, nullptr);
    if (!before.numerics_ok || error_of(numerics) > error_of(result_.numerics)) {
      result_.report = before;
      result_.numerics = numerics;
    }
  }
  // Executors run the same ops one by one or all in one graph, whatever the plan says of graphs.
  void note_graphs() {
    const Graphs wanted = priced_->schedule->graphs;
    if (wanted != Graphs::None && (wanted != Graphs::All || !captured_))
      result_.notes.push_back(fmt::format("plan.graphs {} is not what ran: {}", name_in(graphs_names, wanted),
                                          captured_ ? "each step is one graph" : "no graph was captured"));
  }
  static double error_of(const NumericsReport& n) { return std::max(n.output_error, n.gradient_error()); }

  void warm_up() {
    for (Seconds worked; worked < target_.warm_up();)
      worked += executor_->run_step(Poison::No) * executor_->steps_per_sample();
  }

  // Held ops count by their fastest time, since other work of the machine must not stretch the run; overruns tell if it
  // does not suffice. The others take their median, which is their prediction.
  IdVector<OpId, Seconds> measure_work() {
    IdVector<OpId, std::vector<Seconds>> samples(priced_->schedule->ops.size());
    for (int i = 0; i < work_samples; ++i) {
      executor_->run_stamped();
      keep(executor_->work(), samples);
    }
    IdVector<OpId, Seconds> work = medians(samples);
    for (const OpId op : samples.ids())
      if (emulated_.held[op]) work[op] = std::ranges::min(samples[op]);
    return work;
  }
  static void keep(const IdVector<OpId, Seconds>& of_step, IdVector<OpId, std::vector<Seconds>>& samples) {
    for (const OpId op : of_step.ids()) samples[op].push_back(of_step[op]);
  }
  static IdVector<OpId, Seconds> medians(const IdVector<OpId, std::vector<Seconds>>& samples) {
    IdVector<OpId, Seconds> all;
    for (const std::vector<Seconds>& of_op : samples) all.push_back(median(of_op));
    return all;
  }

  // By an executor of its own, whose gates choose by weights that change; the one before it makes room.
  TrainingReport train() {
    executor_.reset();
    ModelData start = target_.data(options_.seed);
    executor_ = target_.make_trained(start);
    TrainingSettings settings{options_.train, options_.seed, options_.check_numerics, {}};
    if (const auto of_gradients = target_.training_tolerance(rules_))
      settings.tolerance = training_tolerance(options_.train, *of_gradients);
    else if (settings.check)
      result_.notes.emplace_back("losses of the training are not judged: gates choose by scores that are rounded");
    return exec::train(*executor_, e_, *priced_->schedule, std::move(start), settings);
  }

  bool holds() const { return std::ranges::find(emulated_.held, true) != emulated_.held.end(); }

  double first_dilation() const {
    if (!target_.stretches()) return 1;
    if (options_.dilation > 0) return options_.dilation;
    return holds() ? choose_dilation(*priced_, emulated_) : 1;
  }

  void emulate(double dilation) {
    PricedSchedule predicted = stretch(*priced_, emulated_, dilation);
    if (holds()) target_.hold(predicted, emulated_.held);
    if (!captured_ && !predicted.duration.empty()) target_.expect(std::ranges::max(predicted.duration));
    result_.predicted = std::make_shared<const PricedSchedule>(std::move(predicted));
    steps_ = 0;
    overruns_before_ = executor_->overruns();
  }

  // Ops of a step on all ranks that are measured.
  double ops() const {
    const Schedule& s = *priced_->schedule;
    double count = 0;
    for (const Op& op : s.ops) count += s.classes[static_cast<std::size_t>(s.class_of(op))].ranks;
    return count * result_.report.ranks / e_.cluster.gpus();
  }
  long overruns() { return executor_->overruns() - overruns_before_; }
  // Judged as if all samples that are due had been taken, so that it may end the sampling early.
  bool overran_too_often() {
    const double steps = std::max<double>(options_.measure.min_samples, static_cast<double>(steps_));
    return exec::overran_too_often(overruns(), steps * ops());
  }

  // Returns false if too many ops overran: then only the `last` repetition goes on to the end.
  bool sample(double dilation, bool last) {
    std::vector<std::pair<Seconds, Timeline>> timelines;
    IdVector<OpId, std::vector<Seconds>> work(priced_->schedule->ops.size());
    executor_->clock();
    const Measurement m = measure(
        [&] {
          const Seconds time = executor_->run_step(Poison::No);
          steps_ += executor_->steps_per_sample();
          timelines.emplace_back(time, executor_->timeline());
          if (!captured_) keep(executor_->work(), work);
          return time;
        },
        options_.measure, [&] { return !last && overran_too_often(); },
        // The clock that started first: all processes see the same one.
        [&] { return Seconds(target_.maximum(steady_time().value())); });
    if (overran_too_often()) {
      if (!last) return false;
      result_.report.valid = false;
      result_.notes.push_back(
          fmt::format("invalid: {} of {:.0f} ops outlasted their modelled time even at dilation {:.4g}", overruns(),
                      static_cast<double>(steps_) * ops(), dilation));
    }
    const auto distance = [&](const auto& timed) { return std::fabs((timed.first - m.median).value()); };
    result_.timeline = std::ranges::min_element(timelines, {}, distance)->second;
    result_.work = captured_ ? emulated_.work : medians(work);
    report(m, dilation);
    result_.report.clock = executor_->clock();
    return true;
  }

  void report(const Measurement& m, double dilation) {
    RunReport& r = result_.report;
    r.dilation = dilation;
    r.overruns = overruns();
    r.samples = m.samples;
    r.ci95_low = m.ci95_low;
    r.ci95_high = m.ci95_high;
    r.stopped_by = m.stopped_by;
    r.emulated_share = emulated_share(result_.timeline);
    r.allocated_bytes = executor_->memory_bytes() + executor_->scratch_bytes();
    if (r.allocated_bytes > 0)
      result_.notes.push_back(fmt::format("tensors {:.3f} GB for each rank, scratch {:.3f} GB",
                                          1e-9 * static_cast<double>(executor_->memory_bytes()),
                                          1e-9 * static_cast<double>(executor_->scratch_bytes())));
  }

  RunTarget& target_;
  const Experiment& e_;
  std::shared_ptr<const PricedSchedule> priced_;
  const RunOptions& options_;
  ComputeRules rules_;
  ModelData data_;
  std::optional<Reference> reference_;  // none: numerics are not checked
  std::unique_ptr<Executor> executor_;
  Emulated emulated_;
  bool captured_ = false;
  long steps_ = 0, overruns_before_ = 0;  // since the last emulate()
  RunResult result_;
};

}  // namespace

RunResult measured_run(RunTarget& target, const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                       const RunOptions& options) {
  return MeasuredRun(target, experiment, std::move(priced), options).run();
}

}  // namespace dovetail::exec
