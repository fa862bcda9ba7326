# The developer's commands. Each installs what it needs and is missing (scripts/packages), so that a clean
# clone on a machine with a Rust toolchain and a C compiler needs no other step.

SHELL := /bin/sh
# rustup puts cargo here; a shell that never sourced ~/.cargo/env does not know.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: help run release test test-long schedules lint fmt doc-config deny bench-core bench-instructions bench-scale bench-balance bench-numbers bench-lab fuzz hostile-table

# Real programs that the tests use, and what makes those of them fail that pass without theirs when cargo is called by hand.
TEST_PROGRAMS := cc nginx haproxy curl wrk openssl script taskset socat hatop prometheus-haproxy-exporter chromium prometheus prometheus_client valgrind python3
ALL_THERE := WEIR_CHROMIUM=required WEIR_PROMETHEUS=required

# A scheduling policy before that of all other programs, where the user may set it. A kernel thread that ran for 4 ms once a second (the
# memory monitor of a virtual machine) made the longest of 1,000 waits of 60 ms up to 9 % longer.
FIRST_IN_LINE := $(shell chrt --rr 1 true 2>/dev/null && echo chrt --rr 1)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: ## the demonstration: origins, the proxy on :8080 and :8443, some requests; stays up
	@scripts/packages cc
	cargo build --release -p weir
	@exec "$$(scripts/target-directory)/release/weir" demo

test: ## everything that has to pass before a commit
	@scripts/packages $(TEST_PROGRAMS)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/structure
	scripts/status
	scripts/links
	$(ALL_THERE) cargo test --workspace
	@$(MAKE) --no-print-directory schedules
	@$(MAKE) --no-print-directory deny

test-long: ## the same tests with more seeds, more cases and the ignored ones; minutes to hours
	@scripts/packages $(TEST_PROGRAMS)
	$(ALL_THERE) WEIR_SEEDS=$${WEIR_SEEDS:-10000} PROPTEST_CASES=$${PROPTEST_CASES:-20000} WEIR_SCHEDULES=$${WEIR_SCHEDULES:-1000000} \
		cargo test --release --workspace --no-fail-fast -- --include-ignored --skip alone_on_the_machine
	cargo test --release -p weir --test e2e --no-run
	$(FIRST_IN_LINE) cargo test --release -p weir --test e2e -- --ignored --nocapture --test-threads=1 alone_on_the_machine
	cargo test --release -p weir-simnet --test longest_poll -- --ignored --nocapture no_poll_takes_long
	@WEIR_SCHEDULES=$${WEIR_SCHEDULES:-1000000} $(MAKE) --no-print-directory schedules RELEASE=--release

hostile-table: ## the hostile patterns against Weir, nginx and haproxy; ten minutes; writes the table in docs/security.md
	@scripts/packages cc nginx haproxy openssl taskset
	cargo test --release -p weir --test hostile -- --ignored --nocapture the_table_alone_on_the_machine

schedules: ## the queue under chosen schedules of its threads; 10,000 of each kind, or WEIR_SCHEDULES
	SHUTTLE_SILENCE_WARNINGS=1 cargo test $(RELEASE) -p weir-balance --features shuttle --test shuttle

# TARGETS="requests chunked" chooses some; all are listed in crates/weir-fuzz/README.md.
MINUTES ?= 10
fuzz: ## looks for inputs that break a parser or the whole data plane, for MINUTES in all (10); libFuzzer
	@scripts/packages cc g++ python3
	@scripts/fuzz --minutes $(MINUTES) $(TARGETS)

lint: ## formatting, clippy, structure, docs/status.md, links between pages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/structure
	scripts/status
	scripts/links

fmt: ## formats the source
	cargo fmt --all

doc-config: ## writes docs/configuration.md and the other generated files again
	WEIR_BLESS=1 cargo test -p weir-config

release: ## the binary to hand out, built for the way that a load takes through it; prints where it is
	@scripts/packages cc openssl python3
	@scripts/profiled-build

deny: ## licences and banned crates, where cargo-deny is installed
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and bans not checked"; fi

# ARGS="--quick --only plain" goes to the script.
bench-core: ## CPU per request and memory of the binary to hand out against nginx and haproxy; writes benches/core.md
	@scripts/packages cc nginx haproxy wrk ab openssl python3
	weir="$$(scripts/profiled-build)" && python3 benches/core.py --weir "$$weir" --build "make release" $(ARGS)

# ARGS="--before BINARY" goes to the script.
bench-instructions: ## instructions of one plain request by stage, counted by callgrind; writes benches/instructions.md
	@scripts/packages cc nginx wrk openssl python3 valgrind
	cargo build --profile bench-release -p weir
	python3 benches/instructions.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)

# ARGS="--only routes --rounds 3" goes to the script.
bench-scale: ## CPU per request with 10,000 routes, servers, certificates beside few; writes benches/scale.md
	@scripts/packages cc nginx wrk openssl python3
	cargo build --release -p weir
	python3 benches/scale.py --weir "$$(scripts/target-directory)/release/weir" --build "cargo build --release" $(ARGS)

# benches/balance.md has the figures of one run.
bench-balance: ## what it costs to be dispatched, to wait and to leave: criterion
	cargo bench -p weir-balance --bench dispatch --bench policies -- $(ARGS)

# benches/numbers.md has the figures of one run.
bench-numbers: ## what it costs to count an exchange: criterion
	cargo bench -p weir-stats --bench numbers -- $(ARGS)

bench-lab: ## CPU per request of the test origin beside nginx and of the generator beside wrk; writes benches/lab.md
	@scripts/packages cc nginx wrk openssl python3
	cargo build --profile bench-release -p weir
	python3 benches/lab.py --weir "$$(scripts/target-directory)/bench-release/weir" $(ARGS)
