.DEFAULT_GOAL := help
.PHONY: help demo down order test verify lint docs exercise chaos bench compare

# As in scripts/lib.sh.
export GOWORK = off

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run the whole system, place an order, and show its way through every layer
	@scripts/demo

down: ## stop what demo has started, and keep the data
	@scripts/down

order: ## place one order
	@curl -sS --noproxy '*' --fail-with-body -X POST -H "Content-Type: application/json" \
	  -d '{"product_id":"sku123","quantity":1}' http://localhost:4000/orders
	@echo

test: ## before a commit: test what ships, on real servers; FUZZ=30s fuzzes instead what reads input from outside
	@scripts/test

verify: ## before a release: all other proof; ARGS="chaos docs" runs these parts, ARGS=-h lists them
	@scripts/verify $(ARGS)

lint: ## run the linters
	@scripts/lint

docs: ## run the commands of the README and the chapters, and compare the output
	@go build -C test -o ../build/execute ./docs/execute && exec build/execute

exercise: ## find a mistake in a copy of the code: N=5 for chapter 5; without N, the list
	@scripts/mistakes exercise $(N)

# These are built, because `go run` does not pass on a SIGTERM. ARGS=help lists their settings.
chaos: ## break the servers, the network and the processes, and check every promise
	@scripts/chaos $(ARGS)

bench: ## measure speed and CPU time, with and without the services; BASE=main compares two trees
	@go build -C test -o ../build/bench ./bench && exec build/bench $(ARGS)

compare: ## break other designs with the same faults, and show what each of them loses
	@go build -C test -buildvcs=false -o ../build/compare ./compare && exec build/compare $(ARGS)
