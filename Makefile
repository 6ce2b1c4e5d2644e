.DEFAULT_GOAL := help
.PHONY: help demo up replicas down order logs test verify docs bench fuzz chaos compare lint \
  kubernetes exercise

# As in scripts/lib.sh.
export GOWORK = off

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run the whole system, place an order, and show its way through every layer
	@scripts/demo

up: ## run the whole system: with Docker Compose, or as processes without it
	@scripts/up

replicas: ## run three replicas of each service, with Docker Compose
	@scripts/replicas

down: ## stop what demo or up has started
	@scripts/down

order: ## place one order
	@curl -sS --fail-with-body -X POST -H "Content-Type: application/json" \
	  -d '{"product_id":"sku123","quantity":1}' http://localhost:4000/orders
	@echo

logs: ## follow the logs of both services
	@scripts/logs

test: ## before a commit: test what ships, on PostgreSQL and RabbitMQ that are found or started
	@scripts/test

verify: ## before a release: all other proof; ARGS="chaos docs" runs these parts, ARGS=-h lists them
	@scripts/verify $(ARGS)

docs: ## run the commands of the README and the chapters, and compare the output
	@go build -C test -o ../build/execute ./docs/execute && exec build/execute

exercise: ## find a mistake in a copy of the code: N=5 for chapter 5; without N, the list
	@scripts/mistakes exercise $(N)

# These are built, because `go run` does not pass on a SIGTERM. ARGS=help lists their settings.
bench: ## measure the speed, compared with what the machine can do
	@go build -C test -o ../build/bench ./bench && exec build/bench $(ARGS)

fuzz: ## run the fuzz tests of everything that reads input from outside
	@scripts/fuzz

chaos: ## break the servers, the network and the processes, and check every promise; MUTANTS=1 breaks the code
	@scripts/chaos $(ARGS)

# Only its first run takes long: it compiles kube-apiserver.
kubernetes: ## apply deploy/kubernetes to a real API server, which is built from its Go modules
	@cd test/kubernetes/apiserver && go test -count=1 -v -timeout 60m .

compare: ## break other designs with the same faults, and show what each of them loses
	@go build -C test -buildvcs=false -o ../build/compare ./compare && exec build/compare $(ARGS)

lint: ## run the linters
	@scripts/lint
