# Each target is one thin line over cargo; the crates that it names do the work. Programs are built
# with the features of the whole workspace (`cargo run` would take those of one package), so that
# nothing is built twice.
BUILT = $${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu
CLUSTER = cargo build --quiet --workspace --bin cluster && $(BUILT)/debug/cluster

.PHONY: test test-full demo plugin bench lint images fuzz audit mutants prerequisites \
	test-prerequisites

# KUBERNETES=1.34|1.35|1.36|1.37 and CONTAINERD=1.6|2.4 choose the versions that clusters run, here
# and for the demo. The newest is the default.
test: test-prerequisites
	cargo test --workspace

# The same with every plan of faults instead of a choice of them (the controller is killed at each
# write, refused the write, or cut off after it), ten million steps of each model, 100,000 calls of
# host-local, and the slow cluster tests; then the cluster tests on the oldest Kubernetes and on the
# oldest containerd.
test-full: test-prerequisites
	BERTH_MODEL_STEPS=10000000 cargo test --release --package berth-kinds --lib late_views -- --nocapture
	BERTH_BUDGET_STEPS=10000000 cargo test --release --package berth-kinds --package berth-workload --lib -- never_let each_interleaving --nocapture
	PROPTEST_RNG_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') BERTH_MODEL_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') BERTH_ON_CLUSTER=all BERTH_FAULTS_STRIDE=1 BERTH_CRASH_CALLS=100000 cargo test --workspace
	KUBERNETES=1.34 CONTAINERD=2.4 BERTH_ON_CLUSTER=all cargo test --workspace --test on_cluster
	KUBERNETES=1.37 CONTAINERD=1.6 BERTH_ON_CLUSTER=all cargo test --workspace --test on_cluster

# The demo and the benchmarks run the programs that users install: all in one profile, so that they
# are built once.
demo: prerequisites
	cargo build --workspace --release --bin demo && $(BUILT)/release/demo

# kubectl finds plugins in PATH by their names, and what completes their words; OpenKruise's name
# runs the same program.
plugin:
	cargo build --workspace --release --bin kubectl-berth
	for name in kubectl-kruise kubectl_complete-berth kubectl_complete-kruise; do ln --symbolic --force kubectl-berth $(BUILT)/release/$$name; done
	@echo 'Put it into your PATH, for example: cp --no-dereference $(BUILT)/release/kubectl[-_]* /usr/local/bin/'
	@echo 'Then: kubectl berth --help'

bench: prerequisites
	cargo build --workspace --release --bin berth-bench && $(BUILT)/release/berth-bench phases $(PHASES) && $(BUILT)/release/berth-bench sidecars && $(BUILT)/release/berth-bench daemonsets && $(BUILT)/release/berth-bench budgets && $(BUILT)/release/berth-bench nodes && $(BUILT)/release/berth-bench policies

# Format, lints, and what `controller/kinds/tests/sources` refuses: words, long lines, rings of
# imports, large files and folders.
lint: prerequisites
	(cargo fmt --version && cargo clippy --version) >/dev/null || rustup component add rustfmt clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	cargo test --workspace --test sources

# Each target of tests/fuzz for FUZZ_SECONDS. Needs a nightly compiler and cargo-fuzz. Keep an input
# that makes a target fail in its corpus.
fuzz:
	for target in $$(ls tests/fuzz/corpus); do cargo +nightly fuzz run --fuzz-dir tests/fuzz/libfuzzer --sanitizer none $$target $$(mktemp -d) tests/fuzz/corpus/$$target -- -max_total_time=$${FUZZ_SECONDS:-60} -timeout=10 -max_len=65536 || exit 1; done

# Checks the licenses and sources of the dependencies, also of the programs of `make fuzz`, and
# advisories if their database on github.com can be reached. Without optimisation, cargo-deny is
# built in two minutes; it stays in ~/.cargo/bin.
audit: prerequisites
	cargo deny --version || cargo install --locked --debug --version 0.20.2 cargo-deny
	cargo deny fetch db && checks="advisories bans licenses sources" || { checks="bans licenses sources"; echo "make audit: advisories are NOT checked, because their database cannot be fetched"; }; \
	for manifest in Cargo.toml tests/fuzz/libfuzzer/Cargo.toml; do cargo deny --locked --manifest-path $$manifest --config .deny.toml check --hide-inclusion-graph $$checks || exit 1; done

# Are decisions tested? Needs cargo-mutants; MUTANTS="--shard 0/8" takes an eighth of them.
mutants:
	cargo mutants --package berth-workload --package berth-kinds --test-package berth-workload --test-package berth-kinds $(MUTANTS)

images:
	cargo build --workspace --release --bin images && $(BUILT)/release/images --registry "$(REGISTRY)"

prerequisites:
	command -v cc >/dev/null || (apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev)
	$(CLUSTER) install-prerequisites
	$(CLUSTER) build

# Only tests need a browser.
test-prerequisites: prerequisites
	$(CLUSTER) install-prerequisites --for-tests
