// SPDX-License-Identifier: Apache-2.0
// dovetail run: a system's plan for real on this machine, scaled down, predicted beside measured.
#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/alternation.hpp"
#include "bench/pipeline/backend_option.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/gpu_service.hpp"
#include "bench/pipeline/host_scale.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "exec/launch/mpi_launch.hpp"
#include "exec/run/run_request.hpp"
#include "exec/run/scale_down.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "models/files/schedule_json.hpp"
#include "models/price/price.hpp"
#include "models/results/add_figures.hpp"

namespace dovetail::bench {
namespace {

constexpr auto run_examples = R"(Examples:
  Four ranks as threads of this process; links are held to their modelled times:
    dovetail run --ranks 4 --emulate-links --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe -o run.json

  The same ranks as processes that mpirun starts, here or in a Slurm allocation (--hostfile names other machines):
    dovetail run --transport mpi --ranks 4 --emulate-links --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe

  On two GPUs of this machine, and on sixteen GPUs of a Slurm allocation or of --hostfile, which exchange by NCCL:
    dovetail run --device cuda --transport nccl --ranks 2 --cluster dgx-h100 --model mixtral-8x7b --system tutel
    dovetail run --device cuda --transport nccl-mpi --ranks 16 --cluster dgx-h100 \
      --model mixtral-8x7b --system tutel

  A longer run without emulation, with two layers and 256 tokens per rank:
    dovetail run --ranks 2 --cluster fsmoe-testbed-a --model gpt2-xl-moe --system tutel --layers 2 --tokens 256 \
      --measure-time 5

  A model that learns a made-up language for 100 steps, each of whose losses must be that of the sequential training:
    dovetail run --train 100 --layers 2 --experts 8 --hidden 16 --expert-hidden 16 --head-size 8 --tokens 32 \
      --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe --set workload.extent=model

  Tutel's two ways to share an expert by turns, on the same weights: the cost of each switch, and its numerics:
    dovetail run --ranks 2 --rank-nodes 1 --cluster fsmoe-testbed-b --model mixtral-8x7b --system tutel --tokens 64 \
      --hidden 64 --set workload.extent=model --set plan.expert_sharding=ep_dp \
      --alternate plan.expert_sharding=ep_mp --measure-time 1

The experiment is scaled down to the ranks (two nodes for each pipeline stage) and planned again. Times are milliseconds
on this machine's clock. With --emulate-links they are modelled times, all stretched by one factor, the dilation, so
that the real work fits. Over MPI, dovetail-exec must be at the same path on all machines. Exit codes: 1 for wrong
numerics, 4 if a process ended or hangs (the message names its rank and op), 6 if too many ops outlasted their
modelled times.)";

struct RunOptions : Options {
  exec::RunRequest how;
  exec::HostScale scale;
  std::string mpirun = exec::MpiLaunch{}.mpirun;
  std::string schedule;                // file to keep the schedule in
  std::vector<std::string> alternate;  // knobs of the plan to switch to; empty: none
};

// Both rows are on the clock of this machine: bounds of modelled time say nothing unless all of it was held.
Seconds bound_on_our_clock(Seconds modelled, const exec::RunResult& run) {
  const bool all_held = run.report.emulated_share > 1 - 1e-9;
  return all_held ? modelled * run.report.dilation : Seconds(std::numeric_limits<double>::quiet_NaN());
}

void add_results(Report& report, const SystemResult& modelled, exec::RunResult run, Backend& backend) {
  SystemResult predicted = modelled;
  predicted.timeline = backend.run(*run.predicted);
  predicted.metrics = metrics(*predicted.schedule, predicted.timeline);
  predicted.plan_bound = plan_bound(*run.predicted);
  predicted.lower_bound = bound_on_our_clock(modelled.lower_bound, run);
  SystemResult measured = predicted;
  measured.backend = run.report.device;
  measured.timeline = std::move(run.timeline);
  measured.metrics = metrics(*measured.schedule, measured.timeline);
  measured.memory = memory_use(*measured.schedule, measured.timeline);
  measured.run = std::move(run.report);
  report.notes.insert(report.notes.end(), run.notes.begin(), run.notes.end());
  report.results = {std::move(predicted), std::move(measured)};
}

// Ctrl-C and --timeout wait for the poll: processes and files of the run go first.
exec::RunResult execute_over_mpi(const ScheduleFile& file, const exec::RunOptions& how, const RunOptions& options) {
  const Writing writing;
  return exec::run_over_mpi(file, how,
                            {options.mpirun, options.how.hostfile, how.patience, options.how.nccl(), Writing::poll});
}

exec::RunResult execute_on_gpu(const ScheduleFile& file, const exec::RunOptions& how, bool nccl) {
  const Writing writing;
  return gpu_service().run(file, how, nccl);
}

// A thread that does not look up would keep this program waiting; temporary files exist only before and after a run.
void end_stuck(const std::string& why) {
  say(fmt::format("dovetail: run: {}\n", why));
  std::_Exit(static_cast<int>(Exit::MissingDevice));
}

// `alternating`: also by turns with another plan, if any.
exec::RunResult execute(const ScheduleFile& file, const std::string& system, const RunOptions& options,
                        const std::optional<exec::SchedulePair>& alternating) {
  ProgressLine progress("run", 1, options.talk());
  progress.begin(system);
  exec::RunOptions how = exec::run_options(options.how);
  how.seed = static_cast<std::uint64_t>(options.seed);
  how.stuck = end_stuck;
  if (options.how.processes()) return execute_over_mpi(file, how, options);
  if (options.how.cuda()) return execute_on_gpu(file, how, options.how.nccl());
  exec::RunResult run = exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
  if (!alternating) return run;
  run.report.switching = exec::alternate_on_host(file.experiment, *alternating, how);
  run.report.switching->settings = options.alternate;
  return run;
}

// Wrong outputs count for more than times that are no use.
Exit verdict(const RunReport& run, const RunOptions& options) {
  if (!options.how.no_check && !run.numerics_ok) {
    say(fmt::format("dovetail: outputs or gradients differ from the reference (error {:.1e} and {:.1e})\n",
                    run.output_error, run.gradient_error));
    return Exit::Failure;
  }
  if (run.training && !run.training->ok) {
    say(fmt::format("dovetail: losses of the training differ from the reference's (error {:.1e})\n",
                    run.training->loss_error));
    return Exit::Failure;
  }
  if (run.switching && !run.switching->ok) {
    say(
        fmt::format("dovetail: steps of two plans by turns differ from the reference's (outputs {:.1e}, gradients "
                    "{:.1e}, weights {:.1e})\n",
                    run.switching->output_error, run.switching->gradient_error, run.switching->weight_error));
    return Exit::Failure;
  }
  if (run.valid) return Exit::Ok;
  say("dovetail: the run is not valid: too many ops outlasted their modelled times; see its notes\n");
  return Exit::NotValid;
}

Exit run(const RunOptions& options, const std::vector<std::string>& command_line) {
  check_options(options);
  stop_after(options.timeout);
  exec::validate(options.how);
  exec::require_parts(options.how, exec::parts_of_this_build());
  if (!options.alternate.empty()) require_alternation(options.how);
  if (options.systems.size() + options.plans.size() != 1 && !has_whole_plan(options.request))
    throw InputError("run takes one --system NAME or one --plan FILE; see dovetail run --help");
  const std::unique_ptr<Backend> backend = make_backend(options.backend, options.platform);
  if (find_backend(options.backend)->links_alone)
    throw InputError(
        fmt::format("--backend {}: a run holds ops to their modelled times, which it does not use", options.backend));
  Question question = load_question(options);
  scale_down(question, options.scale, options.seed, options.how.cuda());
  const Outputs outputs(options, question.files, {{{"--save-schedule", options.schedule}}, {options.how.hostfile}});
  const Candidate& candidate = question.candidates.front();
  Evaluation evaluation(question, *backend);
  const SystemResult modelled = evaluation.evaluate(candidate, evaluation.choose(candidate));
  const ScheduleFile file{question.experiment, modelled.plan, price(modelled.schedule, question.experiment)};
  std::optional<exec::SchedulePair> alternating;
  if (!options.alternate.empty()) alternating = alternating_plans(question.experiment, modelled, options.alternate);
  // Before the run: a run that fails is one to look at with its schedule.
  if (!options.schedule.empty())
    write_all({{options.schedule, [&](std::ostream& out) { out << to_json(file).dump(1) << '\n'; }}});
  Report report{"run", question.experiment, {}, {}, {}, question.notes};
  add_results(report, modelled, execute(file, modelled.system, options, alternating), *backend);
  add_figures(report);
  report.provenance = provenance(command_line, question.files, options.seed);
  outputs.write(report);
  return verdict(*report.results.back().run, options);
}

const std::string group = "Execution";

// The device, the transport, and how much of either the exchanges and products take.
void add_device_options(CLI::App& app, RunOptions& options) {
  exec::RunRequest& o = options.how;
  add_choice(app,
             {"--device", "host|cuda",
              "what computes: CPUs, or one GPU that all ranks share. With --emulate-links one rank on a GPU stands for "
              "all; with "
              "--transport nccl a GPU for each rank [host]",
              group},
             exec::run_device_names, o.device);
  add_choice(
      app,
      {"--transport", "inproc|mpi|nccl|nccl-mpi",
       "how ranks exchange data: as threads of this process (inproc), as processes (mpi), or by NCCL between the "
       "GPUs of this process (nccl) or of several processes (nccl-mpi) [inproc]",
       group},
      exec::run_transport_names, o.transport);
  add_scale_options(app, group.c_str(), options.scale);
  add_flag(app,
           {"--emulate-links", "",
            "hold communication to its modelled time, stretched so that the real work fits; hold compute too if there "
            "are more ranks than free cores",
            group},
           o.emulate_links);
  add_flag(app,
           {"--one-rank", "",
            "with --emulate-links on the host: one rank stands for all, and what it sends comes back to it, so that "
            "one core runs a rank of any group",
            group},
           o.one_rank);
  add_integer(app,
              {"--exchange-blocks", "COUNT",
               "with --device cuda --emulate-links: multiprocessors that each exchange takes; NCCL takes about 16 on a "
               "node of 8 GPUs, libraries made for experts fewer [16]",
               group},
              o.exchange_blocks, 1, 1024);
  add_integer(
      app,
      {"--gemm-multiprocessors", "COUNT",
       "with --device cuda: multiprocessors that matrix products are made for, to leave the others to exchanges "
       "[all; with --emulate-links those that an exchange leaves]",
       group},
      o.gemm_multiprocessors, 1, 1024);
}

// How long to measure, what to compare with, and where processes run.
void add_measuring_options(CLI::App& app, RunOptions& options) {
  exec::RunRequest& o = options.how;
  add_integer(
      app,
      {"--train", "STEPS",
       "after measuring, train as many steps of Adam on a language that the seed makes up (in double on CPUs), and "
       "compare each loss with that of the reference; needs --set workload.extent=model [0]",
       group},
      o.train, 0, 1'000'000);
  add_repeatable(
      app,
      {"--alternate", "plan.KNOB=VALUE",
       "after measuring, switch between the plan and the same plan with this knob from step to step, on the same "
       "weights and optimizer states, and time that; needs --set workload.extent=model; may be repeated for more knobs",
       group},
      options.alternate);
  add_flag(app, {"--no-check", "", "do not compare with the reference, which takes long if tensors are large", group},
           o.no_check);
  add_text(app,
           {"--hostfile", "FILE", "with mpi or nccl-mpi: Open MPI's list of machines [this one, or Slurm's allocation]",
            group},
           o.hostfile);
  add_text(app, {"--mpirun", "PROGRAM", "with mpi or nccl-mpi: the program that starts the processes [mpirun]", group},
           options.mpirun);
  add_number(
      app,
      {"--hang-time", "SECONDS",
       "end the run if no operation finishes for this time and for twice the time of the longest operation [8]", group},
      o.hang_time, .1, 1e6);
  add_number(app, {"--measure-time", "SECONDS", "longest time to measure [15]", group}, o.measure_time, .01, 1e6);
}

}  // namespace

Action declare_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  add_experiment_options(app, *options);
  add_system_options(app, *options, Systems::One);
  add_backend_option(app, *options);
  add_device_options(app, *options);
  add_measuring_options(app, *options);
  add_output_options(app, *options);
  add_text(app, {"--save-schedule", "FILE", "write the schedule, for dovetail-exec and other executors", "Results"},
           options->schedule);
  add_general_options(app, *options);
  app.footer(run_examples);
  return [options](const std::vector<std::string>& command_line) { return run(*options, command_line); };
}

}  // namespace dovetail::bench
