# The same commands that a person types; `make ci` is what is checked before a change lands.

.PHONY: build test race lint fuzz e2e judges chaos cluster bench bench-children demo site release ci

build:
	go build ./...

test:
	go test ./...

race:
	go test -race ./...

lint:
	.ci/run format modfiles vet lint

# Everything that parses, each for a while: make fuzz FUZZTIME=5m
FUZZTIME = 30s
fuzz:
	bash .ci/fuzz $(FUZZTIME)

e2e:
	cd e2e && go test -timeout 45m ./...

# The suites of controller-runtime, and a tutorial's operator, on a real API server and on the one in memory; and half an hour of a contest
# of several libraries' electors for one Lease, under faults: make judges RIVALS=2h
# And controller-gen on the definitions of structs, Helm on the charts, Prometheus on the metrics, the dashboard and the alerts, and a browser on the live page and on the site of the documentation.
RIVALS = 30m
judges:
	cd e2e/judges && go test -v -timeout 0 ./... -judges.rivals $(RIVALS)
	cd e2e/judges/definitions && go test ./...
	cd e2e/judges/helm && go test ./...
	cd e2e/judges/prometheus && go test ./...
	e2e/browser/run.sh
	site/browser/run.sh

# Faults of all kinds, for each seed so many minutes: make chaos SEED=1 SEEDS=10 MINUTES=3
# Of some kinds only: make chaos ONLY=definitions,refusals
# With several replicas of the operator, and what happens to those: make chaos REPLICAS=3
SEED = 1
SEEDS = 1
MINUTES = 3
PARALLEL = 1
REPLICAS = 1
WRITE =
ONLY =
chaos:
	cd e2e && go run ./chaos/cmd -seed $(SEED) -seeds $(SEEDS) -minutes $(MINUTES) -parallel $(PARALLEL) -replicas $(REPLICAS) -write "$(WRITE)" -only "$(ONLY)"

# A real API server to try things with; it runs until Ctrl+C.
cluster:
	cd e2e && go run ./cluster/cmd -controllers

# What operators cost, beside those of controller-runtime: three quarters of an hour, which rewrites docs/performance.md.
bench:
	cd bench && go run . -rounds 1 -write ../docs

# What operators cost that make other objects, on a real API server: ten minutes and more.
bench-children:
	cd bench && go run . -websites

# The picture of the README, drawn from a run of the first example.
demo:
	cd e2e && go run ./demo ../docs/demo.svg

# The documentation as a site, with the versions that are in public/ already. To look at it: cd site && go run . -serve 127.0.0.1:8000
site:
	cd site && go run . -out ../public

# The checks of a release, which take hours: make release VERSION=0.1.0
release:
	.ci/release $(VERSION)

ci:
	.ci/run
