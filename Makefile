# Every task of the repository. CI runs the same targets as people do.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# rustup puts cargo here; Debian keeps nginx and haproxy there; scripts/prepare builds tools into the
# last one.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin:$(CURDIR)/target/tools/bin
# Scenarios run against the binary that was built for them, and do not build it again.
DEBUG_BINARY := $(CURDIR)/target/debug/tidegate
RELEASE_BINARY := $(CURDIR)/target/release/tidegate
REFERENCE := docs/reference

# Arguments, such as: make bench BENCH="hello --peers nginx --connections 1,100"
BENCH ?=
# Tidegate compared with itself.
ROWS ?= filters routes connections --peers baseline --rounds 6
SOAK ?=
# Which figures of the policies: consumers, limit, shares, mirror; all unless set.
POLICIES ?=
# Which filters, as rows of `tidegate bench filter`; all unless set.
FILTERS ?=
# Which figures of a fleet: changes, purges, limit, faults, start, watchers; all unless set.
FLEET_BARS ?=
# Arguments of tests/perf/fleet.
FLEET ?=
# Which figures of Lua programs: tls, mysql, cluster, json, protobuf, lines, memory; all unless set.
LUA_BARS ?=
# Which figures of Python applications: broadcast, memory; all unless set.
PYTHON_BARS ?=
# Which figures of observability: console, tracing, log; all unless set.
OBSERVABILITY ?=
# The run behind docs/benchmarks.md.
REPORT ?= hello gateway filters routes files tls-hello tls-handshake tls-file tls-proxied h2-hello h2-proxied grpc-unary connections --peers nginx,haproxy,h2o,caddy --connections 1,100,512 --rounds 6
# How often `make stress` runs the tests.
RUNS ?= 20
# Seconds that `make run` may take in a fresh clone.
FIRST_RUN ?= 180
# How long each fuzz target runs in `make fuzz`.
FUZZ_SECONDS ?= 300

# The crates that are built without a Python, with the features that the wheel gives them: so
# `make test-python` finds them built. scripts/stress has the same.
TESTED := --workspace --exclude python --exclude wheel --features net/loaded_late
# `-D warnings` as cargo clippy writes it.
WARNINGS_DENIED := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' \
	  | awk -F'|' '{ printf "  make %-22s %s\n", $$1, $$2 }'

.PHONY: run
run: prepare-build ## build a binary without optimisation and start the demo
	cargo build --profile demo --package tidegate
	exec target/demo/tidegate demo

.PHONY: fleet
fleet: prepare-test ## start three nodes, three etcd, Redis, load and a status page, until Ctrl-C (FLEET="--seconds 60")
	cargo build --profile demo --package tidegate
	@exec tests/perf/fleet --tidegate target/demo/tidegate $(FLEET)

.PHONY: build
build: prepare-build ## build the release binary
	cargo build --release --package tidegate

# One build serves lints, documentation and tests (scripts/rustc-checked); other programs that tests
# need are built next to it. The Python tests and the benchmarks run next to the Rust tests, because
# all wait for part of their time. The output of each follows when it has ended.
.PHONY: test
test: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/rustc-checked
test: export CLIPPY_ARGS := $(WARNINGS_DENIED)
test: prepare-test ## everything: format, lints, all tests, generated files
	@$(MAKE) --jobs=2 format-check lint-python
	@$(MAKE) --jobs=4 build-tested prepare-programs deny check-console
	@$(MAKE) --jobs=4 --output-sync=target test-rust test-python perf-smoke check-generated

.PHONY: check
check: prepare-build ## the quick half of `make test`: format, lints, rustdoc, the architecture rules
	@$(MAKE) format-check deny lint rustdoc
	cargo test --quiet --package architecture

.PHONY: test-python
test-python: export MAKEFLAGS :=
test-python: ## build the wheel into an environment of each CPython here, and test it (PYTHONS="3.13" PYTEST="-k name")
	@scripts/python test

.PHONY: stress
stress: prepare-test prepare-programs build-debug ## run the Rust tests 20 times next to two busy loops; prints a table of the failures (RUNS=…)
	@TIDEGATE_BINARY=$(DEBUG_BINARY) scripts/stress $(RUNS)

.PHONY: deny
deny: ## check licences, sources and banned crates of the dependencies
	@scripts/deny

# With the environment of `make lint`: cargo then finds all crates checked, and runs rustdoc only.
.PHONY: rustdoc
rustdoc: ## build the documentation of our crates; a warning is an error
	@RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" \
	  CLIPPY_ARGS=$(WARNINGS_DENIED) \
	  RUSTDOCFLAGS="-D warnings" cargo doc --quiet $(TESTED) --no-deps

.PHONY: wheel
wheel: prepare-build ## build a release wheel for each CPython here, into dist/ (PYTHONS=3.13 WHEEL_PROFILE=local: sooner, and slower)
	@scripts/python wheel

.PHONY: fmt
fmt: ## format everything
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo fmt --manifest-path tests/perf/h2/Cargo.toml

.PHONY: bench
bench: prepare-bench ## what a request costs here, compared with nginx and haproxy (BENCH="…" for tidegate bench)
	cargo build --release --package tidegate
	$(RELEASE_BINARY) bench $(BENCH)

.PHONY: bench-report
bench-report: prepare-bench ## write docs/benchmarks.md from a run of half an hour (REPORT="…")
	cargo build --release --package tidegate
	$(RELEASE_BINARY) bench $(REPORT) --out bench-results/report --page docs/benchmarks.md

.PHONY: bench-peers
bench-peers: prepare-peers ## install the servers to compare with: packages, and those of Python with our wheel (WHEEL=no: without)
	@scripts/python-peers

.PHONY: bench-generator
bench-generator: prepare-bench ## our load generator compared with wrk, h2load, openssl s_time and redis-benchmark (GENERATOR="SECONDS TURNS")
	cargo run --release --package bench --example generator -- $(GENERATOR)

.PHONY: bench-generator-check
bench-generator-check: prepare-bench ## the same, and fail when the figures differ by more than 5 %, or the cost is above 1.1 × wrk's
	cargo run --release --package bench --example generator -- check $(GENERATOR)

.PHONY: bench-rows
bench-rows: prepare-bench ## Tidegate compared with itself: filters, 5000 routes, idle connections (ROWS="…" for tidegate bench)
	cargo build --release --package tidegate
	$(RELEASE_BINARY) bench $(ROWS) --out bench-results/rows

.PHONY: bench-policies
bench-policies: prepare-bench ## limits, shares, a hanging mirror and 100 000 consumers against their bars: two minutes on an idle machine (POLICIES="limit")
	cargo build --release --package tidegate
	tests/perf/policies --tidegate $(RELEASE_BINARY) $(POLICIES)

.PHONY: bench-filters
bench-filters: prepare-bench ## what each filter adds, in instructions under valgrind, against its bar: five minutes, also on a busy machine (FILTERS="filter-waf")
	cargo build --release --package tidegate
	tests/perf/filter-instructions --tidegate $(RELEASE_BINARY) $(FILTERS)

.PHONY: bench-fleet
bench-fleet: prepare-test ## changes, purges, limits and faults of three nodes, etcd and Redis against their bars: half an hour on an idle machine (FLEET_BARS="purges")
	cargo build --release --package tidegate
	cargo build --release --package etcd --example watchers
	tests/perf/fleet_bars --tidegate $(RELEASE_BINARY) \
	  --watchers target/release/examples/watchers $(FLEET_BARS)

.PHONY: first-run
first-run: ## how long `make run` takes in a fresh clone, on an idle machine (FIRST_RUN=SECONDS that it may take)
	scripts/first-run $(FIRST_RUN)

.PHONY: bench-lua
bench-lua: prepare-bench ## TLS, MySQL, cluster, JSON, Protobuf, buffers and coroutines of Lua programs against their bars: three minutes on an idle machine (LUA_BARS="tls --silly=PATH")
	cargo build --release --package tidegate
	tests/perf/lua-bars --tidegate $(RELEASE_BINARY) $(LUA_BARS)

.PHONY: bench-python
bench-python: bench-peers ## a message to 5000 WebSocket clients, memory of Django's workers, against uvicorn and gunicorn: two minutes on an idle machine (PYTHON_BARS="memory")
	tests/perf/python-bars $(PYTHON_BARS)

.PHONY: bench-observability
bench-observability: prepare-bench ## the console, tracing and the live log against their bars: four minutes on an idle machine (OBSERVABILITY="tracing")
	cargo build --release --package tidegate
	tests/perf/observability --tidegate $(RELEASE_BINARY) $(OBSERVABILITY)

.PHONY: bench-console
bench-console: prepare-bench ## the first view of the console, and its list of 5000 routes, against their bars, in Chromium
	cargo build --release --package tidegate
	TIDEGATE_BINARY=$(RELEASE_BINARY) CONSOLE_BARS=1 \
	  cargo test --package scenarios --test interop the_console_is_fast -- --nocapture

.PHONY: soak
soak: prepare-bench ## load and reloads, two Lua programs, a full cache, for ten minutes each, a million requests to Python: no error, no growth (SOAK="…" for tests/perf/soak)
	cargo build --release --package tidegate
	tests/perf/soak --tidegate $(RELEASE_BINARY) $(SOAK)
	TIDEGATE_BINARY=$(RELEASE_BINARY) LUA_SOAK_SECONDS=600 \
	  cargo test --package scenarios --test scenarios lua_soak -- --nocapture
	TIDEGATE_BINARY=$(RELEASE_BINARY) CACHE_SOAK_SECONDS=600 \
	  cargo test --package scenarios --test scenarios cache_soak -- --nocapture
	CACHE_OBJECTS=1000000 cargo test --package cache --test memory -- --nocapture
	TIDEGATE_SOAK_REQUESTS=1000000 SECONDS_MAX=3600 PYTEST="test_faults_clients.py -k memory -s -o faulthandler_timeout=0" scripts/python test

.PHONY: fuzz
fuzz: prepare-fuzz ## run every fuzz target in libFuzzer for five minutes
	scripts/fuzz $(FUZZ_SECONDS)

.PHONY: generate
generate: build-debug ## write the generated pages of docs/reference, and the lock file of the fuzz targets
	cargo update --quiet --workspace --manifest-path fuzz/Cargo.toml
	mkdir -p $(REFERENCE)
	$(DEBUG_BINARY) schema > $(REFERENCE)/schema.json
	$(DEBUG_BINARY) schema --markdown > $(REFERENCE)/configuration.md
	$(DEBUG_BINARY) schema --markdown=metrics > $(REFERENCE)/metrics.md
	$(DEBUG_BINARY) schema --markdown=admin > $(REFERENCE)/admin.md
	rm -rf $(REFERENCE)/lua-types
	$(DEBUG_BINARY) new lua-types $(REFERENCE)/lua-types

.PHONY: check-generated
check-generated: build-debug ## check that these files are what `make generate` writes
	@cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null \
	  || { echo "fuzz/Cargo.lock is stale: make generate"; exit 1; }
	@$(DEBUG_BINARY) schema | diff -u $(REFERENCE)/schema.json - \
	  || { echo "$(REFERENCE)/schema.json is stale: make generate"; exit 1; }
	@rm -rf target/lua-types && $(DEBUG_BINARY) new lua-types target/lua-types > /dev/null
	@diff -ru $(REFERENCE)/lua-types target/lua-types \
	  || { echo "$(REFERENCE)/lua-types is stale: make generate"; exit 1; }
	@for page in configuration metrics admin; do \
	  $(DEBUG_BINARY) schema --markdown=$$page | diff -u $(REFERENCE)/$$page.md - \
	    || { echo "$(REFERENCE)/$$page.md is stale: make generate"; exit 1; }; \
	done

# npm installs what the lock file names; the bundle depends on nothing else of the machine.
CONSOLE_BUNDLE := crates/admin/src/console

.PHONY: console
console: ## write the bundle of the console from console/ (needs npm)
	cd console && npm ci --silent --no-fund --no-audit
	cd console && npm run --silent types && node build.mjs ../$(CONSOLE_BUNDLE)

.PHONY: console-pictures
console-pictures: ## write the pictures of the console in the guide (needs npm and Chromium)
	cargo build --profile demo --package tidegate
	scripts/console-pictures target/demo/tidegate docs/guide/console

.PHONY: check-console
check-console: ## check that the bundle of the console is what `make console` writes
	@scripts/check-console $(CONSOLE_BUNDLE)

# Steps of the above.

.PHONY: prepare-build prepare-test prepare-programs prepare-bench prepare-peers prepare-fuzz
prepare-build prepare-test prepare-programs prepare-bench prepare-peers prepare-fuzz: prepare-%:
	@scripts/prepare $*

# What `cargo test` builds, so that one build serves both, and the benches.
.PHONY: build-debug
build-debug: export MAKEFLAGS :=
build-debug:
	cargo build $(TESTED) --all-targets

# The same, and the crates of the wheel, in one command of cargo.
.PHONY: build-tested
build-tested: export MAKEFLAGS :=
build-tested:
	@scripts/python build

.PHONY: format-check
format-check:
	cargo fmt --all -- --check
	cargo fmt --manifest-path fuzz/Cargo.toml -- --check
	cargo fmt --manifest-path tests/perf/h2/Cargo.toml -- --check

.PHONY: lint
lint: lint-python
	@scripts/python cargo clippy --quiet --all-targets -- -D warnings

.PHONY: lint-python
lint-python:
	@scripts/python lint

.PHONY: test-rust
test-rust: export MAKEFLAGS :=
test-rust: build-debug
	TIDEGATE_BINARY=$(DEBUG_BINARY) scripts/rust $(TESTED)

# Checks that `bench` works; the figures of a debug binary mean nothing. Fails if a request failed.
.PHONY: perf-smoke
perf-smoke: build-debug
	@$(DEBUG_BINARY) bench hello filters routes --peers nginx,haproxy --against $(DEBUG_BINARY) \
	  --connections 16 --seconds 0.2 --rounds 2 --slack 60 --placement unpinned \
	  --out target/perf-smoke
