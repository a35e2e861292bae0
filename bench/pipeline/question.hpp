// SPDX-License-Identifier: Apache-2.0
// A question of the user: an experiment, and the systems or plans to compare on it.
#pragma once
#include <string>
#include <vector>

#include "bench/cli/options.hpp"
#include "models/files/load.hpp"
#include "models/plan/system.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::bench {

// A system, or a plan as a system of the planner "fixed" that is named after its file: a plan file, or an experiment
// file that sets every knob, which leaves no system a say.
struct Candidate {
  System system;
  std::string file;     // that the user gave; empty: a shipped system
  std::string pointer;  // of the plan in it
  bool plan_file = false;
};

// The files and settings that the options name, loaded and checked.
struct Question {
  Experiment experiment;
  ExperimentRequest request;
  std::vector<Candidate> candidates;
  std::vector<std::string> notes;
  FilesRead files;
  bool repeats_for_system = false;  // the experiment is as its only system runs it (as_run_by())
};

// Notes which systems repeat tokens, or would. The experiment of a single system becomes the one that it runs.
void add_repeated_tokens(Question& question);

// Sets the knobs that the user has fixed, in the experiment file or by --set plan.x=y; empty where none are.
std::function<void(Plan&)> fixed_knobs(const Question& question);

// Notes: the systems that send padded messages where the question has routed ones, and grouped kernels of theirs.
void add_message_sizes(Question& question);

// Candidates: those of --system and --plan; without either all shipped systems, those that overlap nothing first. An
// experiment file that sets every knob is the only candidate.
Question load_question(const Options& options);

// Throws InputError where the system names no planner, at its place where `name` is a file.
void require_planner(const std::string& name, const System& system);

}  // namespace dovetail::bench
