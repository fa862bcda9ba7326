# The developer's commands. Each installs the programs that it needs and that are missing (scripts/packages), so that a
# clean clone on a machine with a Rust toolchain and a C compiler needs no other step.

SHELL := /bin/sh
# rustup installs cargo here; a shell that has not sourced ~/.cargo/env does not have it in PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: help run release test test-long schedules lint fmt doc-config deny bench-core bench-floor bench-instructions bench-scale bench-workers bench-balance bench-numbers bench-lab bench-long-files bench-state bench-tls lab fuzz hostile-table

# Real programs that the tests use. The variables below make tests fail without their program; otherwise they pass without it.
TEST_PROGRAMS := cc nginx nginx-stream haproxy curl h2load wrk openssl script taskset socat hatop prometheus-haproxy-exporter chromium prometheus prometheus_client grpc valgrind python3
ALL_THERE := WEIR_CHROMIUM=required WEIR_PROMETHEUS=required WEIR_H2LOAD=required WEIR_GRPC=required WEIR_H2SPEC_PATH="$$(scripts/h2spec)" WEIR_TONIC_PATH="$$(scripts/tonic)"

# A real-time scheduling policy, where the user may set it. A kernel thread that ran for 4 ms once a second (the
# memory monitor of a virtual machine) made the longest of 1,000 waits of 60 ms up to 9 % longer.
FIRST_IN_LINE := $(shell chrt --rr 1 true 2>/dev/null && echo chrt --rr 1)

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

run: ## build and run the demonstration: three origins and the proxy on :8080 and :8443
	@scripts/packages cc
	cargo build --release -p weir
	@exec "$$(scripts/target-directory)/release/weir" demo

test: ## run everything that has to pass before a commit
	@scripts/packages $(TEST_PROGRAMS)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/structure
	scripts/status
	scripts/links
	$(ALL_THERE) cargo test --workspace
	@$(MAKE) --no-print-directory schedules
	@$(MAKE) --no-print-directory deny

test-long: ## run the same tests with more seeds and cases, and the ignored ones; an hour or more
	@scripts/packages $(TEST_PROGRAMS)
	$(ALL_THERE) WEIR_WRK2_PATH="$$(scripts/wrk2)" WEIR_SEEDS=$${WEIR_SEEDS:-10000} PROPTEST_CASES=$${PROPTEST_CASES:-20000} WEIR_SCHEDULES=$${WEIR_SCHEDULES:-1000000} \
		cargo test --release --workspace --no-fail-fast -- --include-ignored --skip alone_on_the_machine
	cargo test --release -p weir --test e2e --no-run
	$(FIRST_IN_LINE) cargo test --release -p weir --test e2e -- --ignored --nocapture --test-threads=1 alone_on_the_machine
	cargo test --release -p weir-simnet --test longest_poll -- --ignored --nocapture no_poll_takes_long
	@WEIR_SCHEDULES=$${WEIR_SCHEDULES:-1000000} $(MAKE) --no-print-directory schedules RELEASE=--release

hostile-table: ## run the attack patterns against Weir, nginx and haproxy; ten minutes; writes the table in docs/security.md
	@scripts/packages cc nginx haproxy openssl taskset
	cargo test --release -p weir --test hostile -- --ignored --nocapture the_table_alone_on_the_machine

schedules: ## test the queue under controlled thread schedules: 10,000 of each kind, or WEIR_SCHEDULES
	SHUTTLE_SILENCE_WARNINGS=1 cargo test $(RELEASE) -p weir-balance --features shuttle --test shuttle

# TARGETS="requests chunked" chooses some; all are listed in crates/weir-fuzz/README.md.
MINUTES ?= 10
fuzz: ## fuzz the parsers and the data plane with libFuzzer, for MINUTES in all (10)
	@scripts/packages cc g++ python3
	@scripts/fuzz --minutes $(MINUTES) $(TARGETS)

lint: ## check formatting, clippy, structure, docs/status.md and links between pages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/structure
	scripts/status
	scripts/links

fmt: ## format the source
	cargo fmt --all

doc-config: ## regenerate docs/configuration.md and the other generated files
	WEIR_BLESS=1 cargo test -p weir-config

release: ## build the release binary, with a recorded profile if llvm-tools is installed; prints its path
	@scripts/packages cc openssl python3
	@scripts/profiled-build

deny: ## check licences and banned crates, if cargo-deny is installed
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and bans not checked"; fi

# ARGS="--quick --only plain" goes to the script.
bench-core: ## measure CPU per request and memory beside nginx and haproxy; writes benches/core.md
	@scripts/packages cc nginx nginx-stream haproxy wrk ab h2load curl openssl python3
	weir="$$(scripts/profiled-build)" && python3 benches/core.py --weir "$$weir" --build "make release" $(ARGS)

# For a machine with four cores or more. ARGS="--only plain --rounds 1" goes to the script.
bench-workers: ## measure throughput with 1, 2, 4 ... workers beside nginx and haproxy; writes benches/workers.md
	@scripts/packages cc nginx nginx-stream haproxy wrk openssl taskset python3
	cargo build --profile bench-release -p weir
	python3 benches/workers.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)

bench-floor: ## measure a relay that parses nothing beside Weir and nginx; writes benches/floor.md
	@scripts/packages cc nginx wrk openssl taskset python3
	cargo build --profile bench-release -p weir
	python3 benches/floor.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)

# ARGS="--before BINARY" goes to the script.
bench-instructions: ## count the instructions of a plain request by stage, with callgrind; writes benches/instructions.md
	@scripts/packages cc nginx wrk openssl python3 valgrind
	cargo build --profile bench-release -p weir
	python3 benches/instructions.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)

# ARGS="--only routes --rounds 3" goes to the script.
bench-scale: ## measure CPU per request with 10,000 routes, servers, certificates; writes benches/scale.md
	@scripts/packages cc nginx wrk openssl python3
	cargo build --release -p weir
	python3 benches/scale.py --weir "$$(scripts/target-directory)/release/weir" --build "cargo build --release" $(ARGS)

# benches/balance.md has the figures of one run.
bench-balance: ## measure dispatch and the queue, with criterion
	cargo bench -p weir-balance --bench dispatch --bench policies -- $(ARGS)

# benches/numbers.md has the figures of one run.
bench-numbers: ## measure the counting of an exchange, with criterion
	cargo bench -p weir-stats --bench numbers -- $(ARGS)

bench-long-files: ## measure the check of configurations of 100,000 lines beside nginx and haproxy; writes benches/long-files.md
	scripts/packages nginx haproxy
	cargo build --release -p weir
	python3 benches/long_files.py --weir "$$(scripts/target-directory)/release/weir" $(ARGS)

bench-tls: ## compare TLS 1.2 with TLS 1.3, with intervals; writes benches/tls.md
	@scripts/packages cc openssl taskset python3
	cargo build --release -p weir
	python3 benches/tls.py --weir "$$(scripts/target-directory)/release/weir" $(ARGS)

bench-state: ## compare one process of four workers with four processes; writes benches/state.md
	@scripts/packages cc curl taskset python3
	cargo build --release -p weir
	python3 benches/state.py --weir "$$(scripts/target-directory)/release/weir" $(ARGS)

# NAMES="tail-at-saturation" chooses some; ARGS=--resume goes on after an interruption.
lab: ## run the quick forms of experiments/ beside nginx and haproxy; refreshes docs/experiments/results and the README's chart
	@scripts/packages cc nginx haproxy curl openssl python3
	weir="$$(scripts/profiled-build)" && scripts/lab "$$weir" $(NAMES) $(ARGS)

# ARGS="--rounds 3" goes to the script.
bench-lab: ## measure the test origin beside nginx and the load generator beside wrk; writes benches/lab.md
	@scripts/packages cc nginx wrk openssl python3
	cargo build --profile bench-release -p weir
	python3 benches/lab.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)
