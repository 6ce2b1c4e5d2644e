.DEFAULT_GOAL := help
.PHONY: help demo up replicas down order logs watch test docs bench fuzz chaos chaos-mutants lint

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run the whole system, place an order and show its way through every layer
	@scripts/demo

up: ## run the whole system: with Docker Compose, or without it as processes
	@scripts/up

replicas: ## run three replicas of each service, with Docker Compose
	@scripts/replicas

down: ## stop what demo or up has started
	@scripts/down

order: ## place one order
	@scripts/order

logs: ## follow the logs of both services
	@scripts/logs

watch: ## watch the orders move through the stages, once a second
	@scripts/watch

test: ## run every test, on PostgreSQL and RabbitMQ that are found or started
	@scripts/test

docs: ## do what the README and the chapters say, and compare what comes out
	@go run ./scripts/readme

bench: ## measure how fast it is, beside what the machine can do
	@scripts/bench

fuzz: ## feed what comes from outside with inputs that nobody thought of
	@scripts/fuzz

chaos: ## break everything they stand on, and check that the services keep their promises
	@scripts/chaos

chaos-mutants: ## break the services' code, and check that chaos sees it
	@scripts/chaos-mutants

lint: ## run the linters
	@scripts/lint
