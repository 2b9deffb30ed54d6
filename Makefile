# `make demo` shows the whole path; `make test` passes every test. Both set up what they need; Go is all that must be there.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   ?= $(shell git rev-parse --short HEAD 2>/dev/null)
# The npm registry that the binary falls back to is the building machine's; no address is kept in this repository.
REGISTRY ?= $(shell npm config get registry 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X agentserver/provision.DefaultRegistry=$(REGISTRY)
TOOL     := $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 20s

.PHONY: build demo test check fmt vet lint tidy race e2e e2e-acp fuzz bench release clean

build: ## build bin/agent-server, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/agent-server ./cmd/agent-server

demo: build ## run the main job: real CLI, real WebSocket, no key needed
	$(GO) run ./internal/demo -server bin/agent-server

test: ## pass every test, those with the real CLIs included
	$(GO) test -timeout 20m ./...

check: fmt vet lint tidy test race ## what CI runs

fmt:
	@files=$$(gofmt -l cmd docs protocol engine harness client provision internal tools); \
	if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...

lint:
	$(TOOL) staticcheck ./...

tidy:
	$(GO) mod tidy -diff
	$(GO) mod verify

# The end-to-end tests start a binary that is built without the detector, so they run in `test` only.
race: ## the tests under the race detector; the long ones with real CLIs run once, in `test`
	$(GO) test -race -short -timeout 30m $$($(GO) list ./... | grep -v /internal/e2e)

e2e: ## only the end-to-end tests with the real CLIs
	$(GO) test -count=1 -timeout 20m ./internal/e2e/... ./cmd/...
	$(GO) test -count=1 -timeout 20m -run 'E2E|Real' ./harness/... ./provision/...

e2e-acp: ## the end-to-end tests with all six ACP agents from npm
	AGENT_SERVER_TEST_ACP=all $(GO) test -count=1 -timeout 30m -run Real ./harness/acp/...

fuzz: ## fuzz every target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

bench: ## ratios against a floor taken in the same run, and the micro-benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./protocol/... ./engine/... ./client/... ./harness/...
	$(GO) run ./internal/bench

release: ## static binaries for linux and darwin, amd64 and arm64, with checksums, in dist/
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' REGISTRY='$(REGISTRY)' sh tools/release.sh

clean:
	rm -rf bin dist
