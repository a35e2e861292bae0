# SPDX-License-Identifier: Apache-2.0
# Shortcuts. Each needs only a clean checkout: packages are installed where that is allowed, else named.
PREFIX ?= /usr/local
JOBS := $(shell nproc)
BIN := build/release/bin
DEMO := build/demo

.DEFAULT_GOAL := help
.PHONY: help demo test bench scale asan tsan format lint install clean release

help: ## this list
	@sed -n 's/^\([a-z ]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: ## build, compare five systems on a simulated cluster, run one of them for real
	@echo "This installs what is missing, builds dovetail, compares five systems on a simulated cluster"
	@echo "and runs one of them for real on this machine."
	@$(MAKE) --no-print-directory release
	@mkdir -p $(DEMO)
	$(BIN)/dovetail compare --cluster fsmoe-testbed-b --model mixtral-8x7b \
	  --systems deepspeed_moe,tutel,tutel_improved,fsmoe_no_iio,fsmoe --backend simgrid \
	  -o $(DEMO)/report.json --html $(DEMO)/report.html --trace $(DEMO)/trace.json
	$(BIN)/dovetail run --device host --transport inproc --ranks 4 --emulate-links \
	  --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe -o $(DEMO)/run.json || [ $$? -eq 6 ]
	@echo
	@echo "$(DEMO)/report.html  the comparison; open it in a browser"
	@echo "$(DEMO)/report.json  the same as data"
	@echo "$(DEMO)/trace.json   every operation in time; open it in ui.perfetto.dev"
	@echo "$(DEMO)/run.json     one system run for real, predicted beside measured"

test: ## build with warnings as errors and run every test
	@.ci/install build test
	@.ci/timed build .ci/build dev
	@.ci/timed tests ctest --preset dev -j $(JOBS)

bench: release ## micro-benchmarks of our own code
	@.ci/install bench
	@.ci/build release bench_micro
	$(BIN)/bench_micro

scale: release ## time and memory of whole questions, and of simulations from 8 to 100,000 GPUs
	@.ci/install bench
	@.ci/build release scale_layer bench_micro
	bench/scale/questions.py -o build/questions.json
	bench/scale/scale.py -o build/scale.json

asan tsan: ## tests under address+undefined (asan) or thread (tsan) sanitizers
	@.ci/install build test
	@.ci/timed build .ci/build $@
	@.ci/timed tests ctest --preset $@ -j $(JOBS)

format: ## format every source file
	@.ci/install lint
	@.ci/format

lint: ## check format, and clang-tidy what changed
	@.ci/install build test lint
	@.ci/format --check
	@.ci/lint

install: release ## install under PREFIX (default /usr/local)
	cmake --install build/release --prefix $(PREFIX)

clean: ## remove everything built
	rm -rf build

release:
	@.ci/install build
	@.ci/build release
