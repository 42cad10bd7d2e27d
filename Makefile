# Two commands do everything: `go run ./cmd/lockcheck run` shows what this is
# for and needs only Go; `make test` installs what is missing and runs every
# check of every module.

SHELL := bash
GO    ?= go
# Tools run at a version of their own: the modules require none of them.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
NESTED  := chaos/toxiproxy containers containers/docker reference/backends cmd/lockcheck
MODULES := . $(NESTED)
# The race detector needs cgo and a C compiler.
RACE := $(shell command -v gcc >/dev/null && echo -race)

.PHONY: test full lint needs build tidy soak docs backends bench speed drivers

test: needs lint ## everything that CI runs
	$(GO) test $(RACE) -timeout 20m work
	$(MAKE) drivers

full: needs lint ## what is too long for every change
	LOCKCHECK_FULL=1 $(GO) test $(RACE) -timeout 60m work
	cd examples/speed && GOWORK=off $(GO) vet . && GOWORK=off $(GO) test .

needs: ## install what the tests need, where it is missing and root is at hand
	@.ci/needs

lint:
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "gofmt would change: $$files" >&2; exit 1; }
	$(GO) vet work
	for m in $(MODULES); do (cd $$m && $(GO) run $(STATICCHECK) ./...) || exit 1; done

build: ## dist/lockcheck
	$(GO) build -o dist/lockcheck ./cmd/lockcheck

# A module of this repository that requires another at v0.0.0 cannot be tidied
# where it stands: a copy of its go.mod gets the replacements that go.work has.
PATH_OF := github.com/lockcheck/lockcheck
tidy:
	$(GO) mod tidy
	@root=$$PWD; for m in $(NESTED); do (cd $$m && cp go.mod tidy.mod && (cp go.sum tidy.sum 2>/dev/null || true) \
	  && export GOWORK=off && $(GO) mod edit -replace $(PATH_OF)=$$root tidy.mod \
	  && for n in $(NESTED); do $(GO) mod edit -replace $(PATH_OF)/$$n=$$root/$$n tidy.mod; done \
	  && $(GO) mod tidy -modfile=tidy.mod && $(GO) mod edit -dropreplace $(PATH_OF) tidy.mod \
	  && for n in $(NESTED); do $(GO) mod edit -dropreplace $(PATH_OF)/$$n tidy.mod; done \
	  && sed -i 's/ v0.0.0-00010101000000-000000000000/ v0.0.0/' tidy.mod && mv tidy.mod go.mod && (mv tidy.sum go.sum 2>/dev/null || true)) || exit 1; done

soak: ## N more of NAME, added to docs/soak.tsv
	@.ci/soak "$(NAME)" "$(N)"

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./checker/... ./reference/...

drivers: needs ## what docs/findings.md says about the libraries of others, again
	for m in . redsync etcd; do (cd examples/drivers/$$m && GOWORK=off $(GO) vet .) || exit 1; done
	cd examples/drivers && GOWORK=off $(GO) test -count=1 -timeout 10m .

docs: ## the pages that come from tables
	$(GO) run ./cmd/lockcheck list cases --markdown > docs/cases.md

# A page of figures: every built-in lock that a run starts itself, run on this
# machine, one after the other. What is undecided is told, and stands there too.
backends: needs build
	@rm -rf dist/backends
	@for t in embedded $$(dist/lockcheck list targets --json | sed -n 's/.*"\(up:[a-z]*\)".*/\1/p'); do \
	  echo "== $$t" >&2; dist/lockcheck run $$t --runs dist/backends >/dev/null || test $$? = 2 || exit 1; done
	dist/lockcheck list backends --markdown dist/backends/2* > docs/backends.md

speed: needs ## what the engine costs, beside bare commands and other libraries
	cd examples/speed && GOWORK=off $(GO) run .
