# The usual commands for development. `make ci` runs all checks of a change.

.PHONY: build test race lint fuzz e2e judges chaos proof cluster bench bench-children demo site release ci

build:
	go build ./...

test:
	go test ./...

race:
	go test -race ./...

lint:
	.ci/run format modfiles vet lint

# All fuzz targets, each for some time: make fuzz FUZZTIME=5m
FUZZTIME = 30s
fuzz:
	bash .ci/fuzz $(FUZZTIME)

e2e:
	cd e2e && go test -timeout 45m ./...

# Tests with third-party software. The suites of controller-runtime, and the operator of a tutorial, run on a real and on the in-memory API server.
# Electors of several libraries compete for one Lease for half an hour, with faults: make judges RIVALS=2h
# controller-gen checks CRDs, Helm charts, Prometheus metrics, the dashboard and alerts, and a browser the live page and the documentation site.
RIVALS = 30m
judges:
	cd e2e/judges && go test -v -timeout 0 ./... -judges.rivals $(RIVALS)
	cd e2e/judges/definitions && go test ./...
	cd e2e/judges/helm && go test ./...
	cd e2e/judges/prometheus && go test ./...
	e2e/browser/run.sh
	site/browser/run.sh

# Faults of all kinds, for some minutes with each seed: make chaos SEED=1 SEEDS=10 MINUTES=3
# Only some kinds of faults: make chaos ONLY=definitions,refusals
# With several replicas of the operator, and their faults: make chaos REPLICAS=3
SEED = 1
SEEDS = 1
MINUTES = 3
PARALLEL = 1
REPLICAS = 1
WRITE =
ONLY =
chaos:
	cd e2e && go run ./chaos/cmd -seed $(SEED) -seeds $(SEEDS) -minutes $(MINUTES) -parallel $(PARALLEL) -replicas $(REPLICAS) -write "$(WRITE)" -only "$(ONLY)"

# All random, stress, chaos and fuzz tests with many rounds, and all platforms. This takes more than an hour.
# Only some sections: make proof SECTIONS="unit race"
SECTIONS =
proof:
	.ci/proof $(SECTIONS)

# A real API server for manual tests. It runs until Ctrl+C.
cluster:
	cd e2e && go run ./cluster/cmd -controllers

# The costs of operators, compared with controller-runtime. This takes 45 minutes, and rewrites docs/performance.md.
bench:
	cd bench && go run . -rounds 1 -write ../docs

# The costs of operators that create other objects, on a real API server. This takes at least ten minutes.
bench-children:
	cd bench && go run . -websites

# The picture in the README, from a run of the first example.
demo:
	cd e2e && go run ./demo ../docs/demo.svg

# The site of the documentation, in addition to the versions in public/. To view it: cd site && go run . -serve 127.0.0.1:8000
site:
	cd site && go run . -out ../public

# The checks of a release, which take hours: make release VERSION=0.1.0
release:
	.ci/release $(VERSION)

ci:
	.ci/run
