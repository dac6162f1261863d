# refeed: every command that people and CI use. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv-test
BIN := $(VENV)/bin
WHEELS := target/wheels-test
PYTHON_SOURCES := python tests/python benches/python docs/examples
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export RUSTDOCFLAGS = -D warnings

.PHONY: help demo test fmt lint test-rust test-isa wheel test-python typecheck docs check loom tsan asan codegen \
	bench bench-python clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Install into .venv and decode the shipped model with its state kept
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet .
	.venv/bin/refeed demo

test: fmt lint test-rust test-python typecheck docs loom ## Everything that CI checks

fmt: ## Check the formatting of the Rust code
	cargo fmt --all --check

lint: ## Clippy with warnings denied
	cargo clippy --locked --workspace --all-targets --features refeed-python/testing -- -D warnings

test-rust: ## Rust unit, integration and doc tests
	cargo test --locked --features refeed-tests/default

test-isa: ## The kernel tests once per instruction set of this machine
	for isa in scalar avx2 avx512; do REFEED_ISA=$$isa cargo test --locked -p refeed-kernels -p refeed-tests || exit 1; done

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

docs: ## Build the API documentation with warnings denied
	cargo doc --locked --no-deps --workspace --exclude refeed-python --exclude refeed-tests --exclude refeed-benches

codegen: ## Generate the wire structs from proto/ again
	cargo run --locked -p refeed-xtask -- codegen

bench: ## Kernel and state benchmarks (criterion)
	cargo bench --locked -p refeed-benches

clean: ## Remove what builds and tests made
	rm -rf target $(VENV) .venv
