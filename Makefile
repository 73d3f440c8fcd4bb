# Each target is one thin line over cargo; what they do is in the crates they name.
CLUSTER = cargo run --quiet --package berth-cluster --bin cluster --

.PHONY: test test-full demo bench lint images prerequisites

# Everything but the two suites that install the chart and kill the controller at every write: they are in test-full.
test: prerequisites
	cargo test --workspace --exclude berth-e2e --exclude berth-faults && cargo test --package berth-e2e --lib

test-full: prerequisites
	cargo test --workspace

demo: prerequisites
	cargo run --package berth-e2e --bin demo

bench: prerequisites
	cargo run --package berth-bench

lint:
	cargo fmt --all --check && cargo clippy --workspace --all-targets -- --deny warnings

images:
	cargo run --package berth-e2e --bin images -- --registry "$(REGISTRY)"

prerequisites:
	command -v cc >/dev/null || (apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev)
	$(CLUSTER) install-prerequisites
	$(CLUSTER) build
