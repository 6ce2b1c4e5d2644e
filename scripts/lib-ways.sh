# shellcheck shell=bash
# Functions for make demo-nats and demo-pubsub, which show other ways to publish. Such a script
# sources this file and calls ways_begin. When the script ends, also after an error or
# Ctrl-C, ways_end stops all processes that it has started, and drops its databases.
#
#   ways_begin NAME            builds order-service, finds or starts the servers, and migrates a new
#                              database. Exports DATABASE_URL (its owner) and AMQP_URL.
#   ways_database NAME         creates an empty database, and puts its URL into $ways_url
#   ways_start LABEL CMD...    starts a process; its log is build/ways-NAME/LABEL.log
#   ways_stop LABEL            ends it with a SIGTERM, and fails if it does not exit with 0
#   ways_kill LABEL            ends it with a SIGKILL, as a crash would
#   ways_ended LABEL           waits until it has ended by itself
#   ways_log_has LABEL TEXT    waits until the process has logged the text
#   ways_api                   starts `order-service api` on a free port; its address is $ways_api
#   ways_orders N              places N orders, and adds their ids to ${ways_ids[@]}
#   ways_query SQL [URL]       runs a query, by default in the database of the orders
#   ways_await WHAT EXPECTED SQL [URL]   repeats a query until its result is EXPECTED
#   ways_step TEXT             prints what the demo does next
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly ways_timeout=60 # seconds, for each wait
ways_ids=()
ways_databases=()
ways_processes=() # LABEL:PID
ways_steps=0

ways_begin() {
  ways_folder=build/ways-$1
  rm -rf "$ways_folder"
  mkdir -p "$ways_folder" .stack
  ways_name=$1
  trap ways_end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  lock
  command -v curl >/dev/null || die "This needs curl: install it."
  ways_servers
  command -v psql >/dev/null || die "This needs psql: install PostgreSQL's client."
  say "building order-service"
  go build -o build/bin/order-service ./order-service
  ways_database orders
  export DATABASE_URL=$ways_url AMQP_URL=$TEST_AMQP_URL APP_ENV=demo
  build/bin/order-service migrate >"$ways_folder/migrate.log" 2>&1 || ways_fail "order-service migrate failed"
}

# ways_servers sets TEST_DATABASE_URL and TEST_AMQP_URL. Servers of an earlier `make up` keep
# running.
ways_servers() {
  local before servers
  before=$(cat .stack/state.json 2>/dev/null || true)
  [ -n "$before" ] || ways_stack_down=yes # before the start: it may fail half-way
  servers=$(stack servers 9>&-) # they must not keep the lock
  eval "$servers"
}

ways_database() {
  local name
  name=ways_${ways_name}_$1_$$
  psql -qX "$TEST_DATABASE_URL" -c "CREATE DATABASE $name"
  ways_databases+=("$name")
  # The URL may end with a query: postgres://user@host:port/database?sslmode=disable
  ways_url=$(sed -E "s,^([^:]+://[^/]+)(/[^?]*)?,\1/$name," <<<"$TEST_DATABASE_URL")
}

ways_start() {
  local label=$1
  shift
  "$@" >>"$ways_folder/$label.log" 2>&1 9>&- &
  ways_processes+=("$label:$!")
}

ways_pid() {
  local p pid=
  for p in "${ways_processes[@]}"; do
    [ "${p%%:*}" != "$1" ] || pid=${p##*:} # the last one of this label
  done
  echo "$pid"
}

ways_stop() {
  local pid
  pid=$(ways_pid "$1")
  kill -TERM "$pid"
  wait "$pid" || ways_fail "$1 did not end with exit code 0 after a SIGTERM"
}

ways_kill() {
  local pid
  pid=$(ways_pid "$1")
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
}

ways_ended() {
  local pid end=$((SECONDS + ways_timeout))
  pid=$(ways_pid "$1")
  while jobs -rp | grep -qx "$pid"; do
    [ "$SECONDS" -lt "$end" ] || ways_fail "$1 did not end"
    sleep 0.1
  done
}

ways_log_has() {
  local end=$((SECONDS + ways_timeout))
  until grep -qF -- "$2" "$ways_folder/$1.log"; do
    [ "$SECONDS" -lt "$end" ] || ways_fail "$1 did not log: $2"
    sleep 0.1
  done
}

ways_api() {
  ways_start api env HTTP_ADDR=127.0.0.1:0 OPS_ADDR=127.0.0.1:0 build/bin/order-service api
  ways_log_has api '"taking orders"'
  ways_api=$(sed -nE 's/.*"taking orders".*"address":"([^"]+)".*/\1/p' "$ways_folder/api.log")
}

ways_orders() {
  local answer i
  for ((i = 0; i < $1; i++)); do
    answer=$(curl -sS --fail-with-body -X POST -H "Content-Type: application/json" \
      -d '{"product_id":"sku123","quantity":1}' "http://$ways_api/orders") || ways_fail "POST /orders: $answer"
    ways_ids+=("$(sed -nE 's/.*"order":\{"id":"([^"]+)".*/\1/p' <<<"$answer")")
    echo "   201 Created: order ${ways_ids[${#ways_ids[@]} - 1]}"
  done
}

ways_query() { psql -qAtX "${2:-$DATABASE_URL}" -c "$1"; }

ways_await() {
  local end=$((SECONDS + ways_timeout)) got
  until got=$(ways_query "$3" "${4:-$DATABASE_URL}") && [ "$got" = "$2" ]; do
    [ "$SECONDS" -lt "$end" ] || ways_fail "$1: expected $2, got $got"
    sleep 0.1
  done
  echo "   $1: $got"
}

ways_step() {
  ways_steps=$((ways_steps + 1))
  echo
  echo "$ways_steps. $1"
}

# ways_fail ends the demo, with the end of each log.
ways_fail() {
  say "FAILED: $1"
  tail -n 15 "$ways_folder"/*.log >&2 || true
  exit 1
}

# ways_end stops only processes of this script. `jobs` does not list ended ones, whose pid may
# belong to another program by now.
ways_end() {
  local code=$? pid end=$((SECONDS + 30)) name
  trap - EXIT INT TERM
  for pid in $(jobs -rp); do kill -TERM "$pid" 2>/dev/null || true; done
  while [ -n "$(jobs -rp)" ] && [ "$SECONDS" -lt "$end" ]; do sleep 0.1; done
  for pid in $(jobs -rp); do kill -KILL "$pid" 2>/dev/null || true; done
  for name in ${ways_databases[@]+"${ways_databases[@]}"}; do
    psql -qX "$TEST_DATABASE_URL" -c "DROP DATABASE $name WITH (FORCE)" || code=1
  done
  [ -z "${ways_stack_down:-}" ] || stack down || code=1
  exit "$code"
}
