.DEFAULT_GOAL := help
.PHONY: help demo up replicas down order logs watch test docs bench fuzz chaos chaos-mutants lint

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

watch: ## show how many orders are at each stage, once a second
	@scripts/watch

test: ## run every test, on PostgreSQL and RabbitMQ that are found or started
	@scripts/test

docs: ## run the commands of the README and the chapters, and compare the output
	@go run ./test/docs/execute

# These are built, because `go run` does not pass on a SIGTERM. ARGS=help lists their settings.
bench: ## measure the speed, compared with what the machine can do
	@go build -o build/bench ./test/bench && exec build/bench $(ARGS)

fuzz: ## run the fuzz tests of everything that reads input from outside
	@scripts/fuzz

chaos: ## break the servers, the network and the processes, and check every promise
	@go build -o build/chaos ./test/chaos && exec build/chaos $(ARGS)

chaos-mutants: ## break the services' code, and check that chaos detects it
	@go build -o build/chaos-mutants ./test/chaos/mutants && exec build/chaos-mutants

lint: ## run the linters
	@scripts/lint
