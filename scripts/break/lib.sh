# shellcheck shell=bash
# What the scripts here share: they place orders in the running system, reach its databases and its
# services, as containers or as processes, and wait for what must happen. At the end, also after an
# error or Ctrl-C, what they have broken is mended.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

case "${1:-}" in
  "") ;;
  -h | --help) sed -n '2,/^\. /s/^# \{0,1\}//p' "$0"; exit ;;
  *) die "$0 takes no arguments: -h says what it does." ;;
esac

readonly api=http://localhost:4000 patience=120 # seconds
running=$(mode)
[ -n "$running" ] || die "Nothing is running. Start the system: docker compose up --build --wait, or make demo."
curl -fsS -o /dev/null "$api/products" || die "order-service does not answer at $api."
[ "$running" = compose ] || program stack stack

step() { printf '%s\n' "* $*"; }
shown() { printf '    %s\n' "$*"; }

# sql runs a statement in the database of orders or of notifications, as a user that may do all.
sql() { # sql orders|notifications STATEMENT
  case "$running/$1" in
    compose/orders) docker compose exec -T order-db psql -XqAt -v ON_ERROR_STOP=1 -U postgres order_service -c "$2" ;;
    compose/*) docker compose exec -T notification-db psql -XqAt -v ON_ERROR_STOP=1 -U postgres notification_service -c "$2" ;;
    *) psql -XqAt -v ON_ERROR_STOP=1 "$(build/bin/stack databases | sed -n "/^--${1%s}-db\$/{n;p;}")" -c "$2" ;;
  esac
}

# service kills, stops or starts a service or RabbitMQ. command runs a command of a service.
service() { # service kill|stop|start NAME
  local said=''
  if [ "$running" = compose ]; then said=$(docker compose "$@" 2>&1); else said=$(build/bin/stack "$@" 2>&1); fi ||
    { say "$said"; return 1; }
}
run() { # run SERVICE ARGUMENT..., without its log
  { if [ "$running" = compose ]; then docker compose exec -T "$1" /service "${@:2}"; else build/bin/stack run "$@"; fi; } 2> >(grep -v '^{' >&2)
}

orders='' # the ids of the orders that this script has placed
place() { # place N
  local answer
  for _ in $(seq "$1"); do
    answer=$(curl -fsS -H "Content-Type: application/json" -d '{"product_id":"sku123","quantity":1}' "$api/orders")
    order=$(sed -nE 's/.*"order":\{"id":"([^"]+)".*/\1/p' <<<"$answer")
    orders+=${orders:+,}$order
  done
}

# count counts rows about the orders of this script in the view outbox_status.
count() { # count orders|notifications CONDITION
  sql "$1" "SELECT count(*) FROM outbox_status WHERE aggregate = 'order' AND aggregate_id = ANY ('{$orders}') AND $2"
}

await() { # await WHAT COMMAND...: until the command succeeds
  local end=$((SECONDS + patience))
  until "${@:2}"; do
    [ "$SECONDS" -lt "$end" ] || die "Not within $patience s: $1"
    sleep 0.5
  done
}
is() { [ "$("${@:2}")" = "$1" ]; }          # is VALUE COMMAND...
at_least() { [ "$("${@:2}")" -ge "$1" ]; }   # at_least NUMBER COMMAND...

emailed() { # emailed N: waits until so many e-mails about the orders are sent
  await "$1 e-mails are sent" is "$1" count notifications "status = 'published'"
}

verify() { # verify WHAT WANT COMMAND...
  local got
  got=$("${@:3}")
  printf '    %-44s %s\n' "$1" "$got"
  [ "$got" = "$2" ] || die "BROKEN: $1 is $got, want $2"
}

# metric adds up a metric of all replicas of notification-service.
metric() { # metric NAME
  local address addresses=127.0.0.1:4101
  [ "$running" != compose ] || addresses=$(docker compose ps --quiet notification-service | xargs -n 1 -I {} docker port {} 4101/tcp)
  for address in $addresses; do curl -fsS "http://$address/metrics"; done | awk -v name="$1" '$1 == name { n += $2 } END { print n + 0 }'
}

# hold runs statements in a transaction that stays open until release, in the background.
hold() { # hold orders|notifications STATEMENTS
  sql "$1" "BEGIN; SET application_name = 'break'; $2; SELECT pg_sleep(600)" >/dev/null 2>&1 &
  held=$1
  mend release
  await "the lock is held" is 1 sql "$1" "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'break' AND wait_event = 'PgSleep'"
}
release() {
  [ -n "${held:-}" ] || return 0
  sql "$held" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'break'" >/dev/null
  held=''
}

# kill_before_the_mark places an order, and kills a service when the destination has taken what it has sent,
# and the mark of that waits for a lock.
kill_before_the_mark() { # kill_before_the_mark orders|notifications SERVICE
  step "hold the lock of the table of marks, outbox_published, and place an order"
  hold "$1" "LOCK TABLE outbox_published IN SHARE ROW EXCLUSIVE MODE"
  place 1
  await "the customer has the e-mail" is 1 emails
  await "the mark waits for the lock" at_least 1 sql "$1" "SELECT count(*) FROM pg_stat_activity WHERE $waits"
  step "kill -9 $2, release the lock, and start $2 again"
  mend service start "$2"
  service kill "$2"
  sql "$1" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $waits" >/dev/null # it outlives its client
  release
  verify "events marked" 0 count "$1" "status = 'published'"
  service start "$2"
}
readonly waits="wait_event_type = 'Lock' AND query LIKE '%outbox_published%' AND datname = current_database()"

messages() { sql orders "SELECT string_agg(id::text, '$1') FROM outbox_status WHERE aggregate_id = ANY ('{$orders}')"; }
inbox() { sql notifications "SELECT count(*) FROM inbox_messages WHERE message_id = ANY ('{$(messages ,)}')"; }

# emails counts what has arrived at Mailpit; without a mail server, what notification-service has logged.
emails() {
  local ids
  ids=$(messages '|')
  if [ "$running" = compose ]; then
    curl -fsS "http://localhost:8025/api/v1/messages?limit=500" | grep -oE "\"MessageID\": ?\"<?($ids)@" | wc -l
  else
    grep -F '"e-mail written to the log only"' .stack/notification-service.log | grep -cE "$ids" || true
  fi
}

mends=()
mend() { mends+=("$*"); } # mend COMMAND...: runs it at the end
mend_all() {
  local code=$? command
  for command in "${mends[@]}"; do $command || true; done
  exit "$code"
}
trap mend_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
