# What can be done with a fresh checkout on Debian 12: make help

CARGO   ?= cargo
TRIPLE  := x86_64-unknown-linux-gnu
XWEAVE  := target/release/xweave
KERNELS ?= 6.12 6.1
SECONDS ?= 60

.PHONY: help setup build demo test unit lab-test fuzz lint fmt clean

help:
	@echo 'make demo      set up, build, and follow packets between two virtual machines'
	@echo 'make test      set up, build, and run all tests, those in the lab included'
	@echo 'make build     build target/release/xweave: one static program'
	@echo 'make lint      formatting and clippy, warnings are errors'
	@echo 'make unit      the tests that need no lab'
	@echo 'make lab-test  the tests in the lab (KERNELS="6.12 6.1")'
	@echo 'make fuzz      look for inputs that parsers cannot stand (TARGET=image SECONDS=60)'
	@echo 'make setup     install the Debian packages that are missing'

setup:
	@scripts/setup

build: setup
	$(CARGO) build --release --package xweave-cli
	@mkdir -p target/release
	@cp -f target/$(TRIPLE)/release/xweave $(XWEAVE)

demo: build
	@scripts/demo $(XWEAVE)

test: build
	@scripts/test $(XWEAVE) $(KERNELS)

unit: setup
	$(CARGO) test --release --workspace

lab-test: build
	@scripts/test --lab-only $(XWEAVE) $(KERNELS)

# TARGET: one of fuzz/fuzz_targets; without it all of them, as many at a time as there are processors.
fuzz: setup
	@scripts/fuzz $(SECONDS) $(TARGET)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml

clean:
	$(CARGO) clean
