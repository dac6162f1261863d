# refeed: every command that people and CI use. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv-test
BIN := $(VENV)/bin
TARGET := x86_64-unknown-linux-gnu
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export RUSTDOCFLAGS = -D warnings

# One profile and one target folder serve the Rust tests and the wheels that the Python tests install.
MATURIN := $(BIN)/maturin build --quiet --locked --profile dev --interpreter $(BIN)/python

.PHONY: help demo test fmt lint test-rust test-isa test-python test-faults typecheck docs loom tsan tsan-states asan message-machine mutants histories races kills soak caches \
	capsules exits interrupts tokens codegen bench bench-python clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Install into .venv and let the shipped model tell a story with its state kept
	$(PYTHON) -m venv .venv
	@echo "building refeed (some minutes the first time) ..."
	.venv/bin/pip install --quiet '.[text]'
	.venv/bin/refeed demo

test: fmt lint test-rust test-isa test-faults test-python typecheck docs loom tsan asan ## All that CI checks

fmt: ## Check the formatting of the Rust code
	cargo fmt --all --check

lint: ## Clippy with warnings denied
	cargo clippy --quiet --locked --workspace --all-targets --features refeed-python/testing -- -D warnings

test-rust: ## Rust unit, integration and doc tests
	cargo test --quiet --locked

# The same packages as test-rust, so that nothing is built again.
test-isa: ## The unit and integration tests once more in portable code and with AVX2
	for isa in scalar avx2; do REFEED_ISA=$$isa cargo test --quiet --locked --lib || exit 1; done

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet 'maturin>=1.9.4,<2'
	touch $@

# The wheel with planted failures differs from the released one by a feature, and is tested first: the ordinary wheel
# that takes its place afterwards is checked to be without it.
test-faults: $(VENV)/ready ## A failure planted at every place of a step, through Python
	rm -rf target/wheels-testing
	$(MATURIN) --features testing --out target/wheels-testing
	$(BIN)/pip install --quiet --force-reinstall "$$(echo target/wheels-testing/*.whl)[test]"
	$(BIN)/python -m pytest tests/python/test_fault_injection.py

test-python: $(VENV)/ready ## Python tests on the ordinary wheel
	rm -rf target/wheels-test
	$(MATURIN) --out target/wheels-test
	$(BIN)/pip install --quiet --force-reinstall "$$(echo target/wheels-test/*.whl)[test]"
	$(BIN)/python -m pytest tests/python --ignore tests/python/test_fault_injection.py

typecheck: ## ruff, mypy and stubtest (after test-python)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest refeed --mypy-config-file pyproject.toml --allowlist tests/python/stubtest_allowed.txt

docs: ## Build the API documentation with warnings denied
	cargo doc --quiet --locked --no-deps --workspace --exclude refeed-python --exclude refeed-tests --exclude refeed-benches

loom: ## Every interleaving of appends, cancellations and life cycles, with planted faults
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet --locked -p refeed-values --release --lib loom_

TSAN := TSAN_OPTIONS="suppressions=$(CURDIR)/crates/values/tsan.supp" RUSTC_BOOTSTRAP=1 \
	RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
	cargo test --quiet --locked --target $(TARGET)

tsan: ## Appending and reading forks under ThreadSanitizer
	$(TSAN) -p refeed-values --test threads

tsan-states: ## States that append, are read, forked and cancelled on threads, under ThreadSanitizer; builds every crate again
	$(TSAN) -p refeed-tests --lib -- forks completion operations_of_one_state

# With a sanitizer, optimised kernels take most of the build and gain nothing.
PLAIN_KERNELS := --config 'profile.dev.package.refeed-kernels.opt-level=1'

asan: ## The memory crate and the states' tests under AddressSanitizer
	ASAN_OPTIONS=allocator_may_return_null=1 RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" \
	CARGO_TARGET_DIR=target/asan cargo test --quiet --locked -p refeed-values --lib --tests --target $(TARGET)
	ASAN_OPTIONS=allocator_may_return_null=1 RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" \
	CARGO_TARGET_DIR=target/asan cargo test --quiet --locked $(PLAIN_KERNELS) -p refeed-tests --lib --target $(TARGET) -- \
	faults forks state_model feedback appends tails

message-machine: ## 100,000 random edits beside official messages (after test-python)
	REFEED_MESSAGE_STEPS=100000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_message_machine.py

mutants: ## 20,000 mutated models, each opened in every way (after test-python)
	REFEED_MUTANTS=20000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_hostile_files.py

histories: ## 100,000 random histories of states beside a state that copies (after test-python)
	REFEED_HISTORIES=100000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_histories.py

races: ## 1,000,000 races of a publication with a cancellation (after test-python)
	REFEED_RACES=1000000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_completion.py

kills: ## 200 processes killed while they save a state (after test-python)
	REFEED_KILLS=200 $(BIN)/python -m pytest --timeout 7200 tests/python/test_state_files.py

caches: ## 20,000 valid caches with one fault each (after test-python)
	REFEED_CACHES=20000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_paged_cache_rules.py

soak: ## 100,000 steps of a state and 10,000 failures of a kernel with flat memory (after test-python)
	REFEED_SOAK=100000 REFEED_RAISES=10000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_state_processes.py \
		tests/python/test_misbehaving_kernels.py

capsules: ## 100,000 DLPack imports and exports on four threads (after test-python)
	REFEED_CAPSULES=100000 $(BIN)/python -m pytest --timeout 7200 tests/python/test_hostile_capsules.py

exits: ## 24 programs that fork or end while states run, 50 times each (after test-python)
	REFEED_EXITS=50 $(BIN)/python -m pytest --timeout 7200 tests/python/test_process_life.py

interrupts: ## 200 interrupts of a generation at random moments (after test-python)
	REFEED_INTERRUPTS=200 $(BIN)/python -m pytest -s --timeout 7200 tests/python/test_generation_endurance.py -k interrupts

tokens: ## 1,000,000 generated tokens with flat memory and rate (after test-python)
	REFEED_TOKENS=1000000 $(BIN)/python -m pytest -s --timeout 7200 tests/python/test_generation_endurance.py -k memory

codegen: ## Generate the wire structs from proto/ again
	cargo run --quiet --locked -p refeed-xtask -- codegen

bench: ## Kernel and state benchmarks (criterion)
	cargo bench --locked -p refeed-benches

bench-python: $(VENV)/ready ## Calls, loading, decoding and attention beside onnxruntime, on a release build
	$(BIN)/pip install --quiet --force-reinstall ".[test]"
	$(BIN)/python benches/python/bench_call_overhead.py
	$(BIN)/python benches/python/bench_load.py
	$(BIN)/python benches/python/bench_decode.py
	$(BIN)/python benches/python/bench_attention.py
	$(BIN)/python benches/python/bench_messages.py
	$(BIN)/python benches/bench_persistent_feedback.py

clean: ## Remove what builds and tests made
	rm -rf target $(VENV) .venv
