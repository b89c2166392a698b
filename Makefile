# What can be done with a fresh checkout on Debian 12: make help

CARGO   ?= cargo
TRIPLE  := x86_64-unknown-linux-gnu
XWEAVE  := target/release/xweave
KERNELS ?= 6.12 6.1 7.3
SECONDS ?= 60
MINUTES ?= 60
KERNEL  ?= 6.12
CASES   := $(patsubst cases/%/run,%,$(wildcard cases/*/run))
BENCHES := $(patsubst benches/%/run,%,$(wildcard benches/*/run))

.PHONY: help setup build tests-built check kernels page page-test demo test unit coverage lab-test fuzz soak case bench lint fmt clean

help:
	@echo 'make demo      set up, build, and follow packets between two virtual machines (KERNEL=6.12; 6.1, 7.3)'
	@echo 'make test      set up, build, and run all tests, those in the lab included (LAB=no leaves the lab out)'
	@echo 'make build     build target/release/xweave: one static program'
	@echo 'make kernels   fetch the type information of all kernels that the mirror has, and tell in docs/kernels.md what'
	@echo '               works on which'
	@echo 'make page      build the program of the HTML page (web/) anew: only where it changed; needs Node'
	@echo 'make page-test the tests of that page in a browser; they need Node and Chromium'
	@echo 'make check     a minute: formatting, types, circles of files, figures without a command'
	@echo 'make lint      formatting, clippy, circles of files, figures without a command, documentation'
	@echo 'make unit      the tests that need no lab'
	@echo 'make coverage  the same, with line coverage by crate'
	@echo 'make lab-test  all tests in the lab, on each kernel; make test leaves some out (KERNELS="6.12 6.1 7.3")'
	@echo 'make fuzz      look for inputs that parsers cannot stand (TARGET=image SECONDS=60)'
	@echo 'make soak      weave every function of a kernel under load, and find those that harm it'
	@echo '               (MINUTES=60 KERNEL=6.12; goes on where it was; FRESH=1 begins anew; REPORT=1 only tells)'
	@echo 'make case      run a case study: CASE=NAME, one of: $(CASES)'
	@echo 'make bench     measure beside others: all, or BENCH=NAME, one of: $(BENCHES)'
	@echo 'make setup     install the Debian packages that are missing'

setup:
	@scripts/setup

build: setup
	$(CARGO) build --release --package xweave-cli
	@mkdir -p target/release
	@cp -f target/$(TRIPLE)/release/xweave $(XWEAVE)

# One build for all tests and for the program that they run: cargo builds packages alone with other features of their
# dependencies, and so most of them a second time.
tests-built: setup
	$(CARGO) test --release --workspace --no-run
	@mkdir -p target/release
	@cp -f target/$(TRIPLE)/release/xweave $(XWEAVE)

# What is fetched is committed, and what the library is compiled for is among it: hence the two steps.
kernels: setup
	$(CARGO) run --quiet --release --package xweave-kernels -- fetch
	$(CARGO) run --quiet --release --package xweave-kernels -- table

# What is built is committed: make build needs no Node.
page:
	@scripts/page

page-test: build
	@scripts/page-test $(XWEAVE)

demo: build
	@scripts/demo $(XWEAVE) $(KERNEL)

test: tests-built
	@scripts/test $(XWEAVE) $(KERNELS)

unit: setup
	$(CARGO) test --release --workspace

coverage: setup
	@CARGO=$(CARGO) scripts/coverage

lab-test: tests-built
	@scripts/test --lab-only $(XWEAVE) $(KERNELS)

# TARGET: one of fuzz/fuzz_targets; without it all of them, as many at a time as there are processors.
fuzz: setup
	@scripts/fuzz $(SECONDS) $(TARGET)

# MINUTES bounds a run; KERNEL is 6.12 or 6.1; docs/soak.md. SEED, ONLY=FUNCTION,… and BATCH if need be.
# EMULATOR=3 only tests what emulates the kernel, in three boots of ROUNDS=30.
soak: build
	@$(CARGO) build --quiet --release --package xweave-soak
	@target/$(TRIPLE)/release/xweave-soak $(XWEAVE) --kernel $(KERNEL) --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)') $(if $(BATCH),--batch $(BATCH)) \
		$(if $(EMULATOR),--emulator $(EMULATOR) $(if $(ROUNDS),--rounds $(ROUNDS))) $(if $(FRESH),--fresh) $(if $(REPORT),--report) $(if $(JSON),--json)

# ARGS: further arguments of the case's own.
case:
ifeq ($(words $(filter $(CASES),$(CASE))),1)
	@$(MAKE) --no-print-directory build
	@cases/$(CASE)/run $(XWEAVE) $(ARGS)
else
	@echo '$(if $(CASE),There is no case "$(CASE)". )Run one with make case CASE=NAME. The cases:' >&2
	@printf '  %s\n' $(CASES) >&2
	@exit 2
endif

# ARGS: further arguments of the benchmark's own. All are run, whichever fails; then there is a table of all ratios.
bench:
ifeq ($(filter-out $(BENCHES),$(BENCH)),)
	@$(MAKE) --no-print-directory build
	@benches/all $(XWEAVE) '$(or $(BENCH),$(BENCHES))' $(ARGS)
else
	@echo 'There is no benchmark "$(BENCH)". Run all with make bench, or one with make bench BENCH=NAME:' >&2
	@printf '  %s\n' $(BENCHES) >&2
	@exit 2
endif

# For while one works: needs no lab, and nothing that setup installs but the compilers.
check:
	$(CARGO) fmt --all --check
	$(CARGO) check --quiet --release --workspace --all-targets
	scripts/circles
	scripts/suites
	scripts/lab-groups
	scripts/figures
	scripts/claims
	scripts/page --check

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	scripts/circles
	scripts/suites
	scripts/lab-groups
	scripts/figures
	scripts/claims
	scripts/page --check
	$(CARGO) test --quiet --release --package xweave-document
	! git grep -n -e "^<<<<<<< " -e "^>>>>>>> "
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --release --workspace --no-deps --document-private-items

fmt:
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml

clean:
	$(CARGO) clean
