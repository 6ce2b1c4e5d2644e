# shellcheck shell=bash
# What the scripts here share: they place orders in the running system, reach its databases and its
# services, as containers or as processes, and wait for what must happen. At the end, also after an
# error or Ctrl-C, they mend what they have broken.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[ $# = 0 ] || die "${0##*/} takes no arguments: --help says what it does."

readonly api=http://localhost:4000 patience=120 # seconds
running=$(mode)
[ -n "$running" ] || {
  say "Nothing is running, or your user does not reach Docker: docker compose ps tells."
  die "Start the system: docker compose up --build --wait, or make demo."
}
for needed in curl $([ "$running" = compose ] || echo psql); do
  command -v "$needed" >/dev/null || die "This needs $needed: install it, or put it on the PATH."
done
[ "$running" = compose ] || program stack stack

step() { printf '%s\n' "* $*"; }
shown() { printf '    %s\n' "$*"; }
get() { curl -fsS --noproxy '*' --max-time 20 "$@"; }
get -o /dev/null "$api/products" || die "order-service does not answer at $api."

readonly psql=(psql -XqAt -v ON_ERROR_STOP=1)

# sql runs statements in the database of orders or of notifications, as a superuser.
sql() { # sql orders|notifications STATEMENTS
  local limit="SET statement_timeout = '${sql_timeout:-20s}'"
  case "$running/$1" in
    compose/orders) docker compose exec -T order-db "${psql[@]}" -U postgres order_service -c "$limit" -c "$2" ;;
    compose/*) docker compose exec -T notification-db "${psql[@]}" -U postgres notification_service -c "$limit" -c "$2" ;;
    *) "${psql[@]}" "$(build/bin/stack databases | sed -n "/^--${1%s}-db\$/{n;p;}")" -c "$limit" -c "$2" ;;
  esac </dev/null
}

# service kills, stops or starts a service or RabbitMQ.
service() { # service kill|stop|start NAME
  local said=''
  if [ "$running" = compose ]; then said=$(docker compose "$@" 2>&1); else said=$(build/bin/stack "$@" 2>&1); fi ||
    { local code=$?; say "$said"; return "$code"; }
}

# run runs a command of a service, without its log. command_of prints how a reader runs it.
run() { # run SERVICE ARGUMENT...
  if [ "$running" = compose ]; then set -- docker compose exec -T "$1" /service "${@:2}"; else set -- build/bin/stack run "$@"; fi
  "$@" </dev/null 2> >(grep -v '^{' >&2)
}
command_of() { # command_of SERVICE ARGUMENT...
  if [ "$running" = compose ]; then echo "docker compose exec $1 /service ${*:2}"; else echo "scripts/stack run $*"; fi
}

# place places orders. Their ids are in $orders, and the last one is in $order.
orders=''
place() { # place N
  local answer
  for _ in $(seq "$1"); do
    answer=$(get -H "Content-Type: application/json" -d '{"product_id":"sku123","quantity":1}' "$api/orders")
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
is() { [ "$("${@:2}")" = "$1" ]; }         # is VALUE COMMAND...
at_least() { [ "$("${@:2}")" -ge "$1" ]; } # at_least NUMBER COMMAND...

arrived() { # arrived N: waits until so many events are published, and as many e-mails are sent
  await "$1 events are published" is "$1" count orders "status = 'published'"
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
  [ "$running" != compose ] || addresses=$(docker compose ps --quiet notification-service | xargs -I {} docker port {} 4101/tcp)
  for address in $addresses; do get "http://$address/metrics"; done | awk -v name="$1" '$1 == name { n += $2 } END { print n + 0 }'
}

# hold runs statements in a transaction that stays open until release, in the background.
readonly holder="application_name = 'break $$'"
hold() { # hold orders|notifications STATEMENTS
  held=$1
  mend release
  sql_timeout=10min sql "$1" "BEGIN; SET $holder; $2; SELECT pg_sleep(600)" >/dev/null 2> >(grep ERROR >&2) &
  await "the lock is held" is 1 sql "$1" "SELECT count(*) FROM pg_stat_activity WHERE $holder AND wait_event = 'PgSleep'"
}
release() {
  [ -n "${held:-}" ] || return 0
  until [ -z "$(jobs -r)" ]; do # the session may only just begin
    sql "$held" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $holder" >/dev/null
    sleep 0.2
  done
  held=''
}

# kill_before_the_mark places an order. It waits until the destination has taken the message, and the
# mark waits for a lock. Then it kills the service. A lock of the table outbox_done would also stop
# the claims, so a trigger waits for another lock.
readonly mark_lock="pg_advisory_xact_lock(4000)"
readonly waiting_mark="wait_event_type = 'Lock' AND query LIKE '%outbox_done%' AND datname = current_database()"
free_marks() { # free_marks orders|notifications
  sql "$1" "SET client_min_messages = warning; DROP FUNCTION IF EXISTS wait_for_break CASCADE"
}
kill_before_the_mark() { # kill_before_the_mark orders|notifications SERVICE
  step "hold a lock that marks in outbox_done wait for, and place an order"
  hold "$1" "SELECT $mark_lock"
  mend free_marks "$1"
  sql "$1" "CREATE FUNCTION wait_for_break() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM $mark_lock; RETURN NEW; END';
    CREATE TRIGGER wait_for_break BEFORE INSERT ON outbox_done FOR EACH ROW WHEN (NEW.status = 'published')
    EXECUTE FUNCTION wait_for_break()"
  place 1
  await "the customer has the e-mail" is 1 emails
  await "the mark waits for the lock" at_least 1 sql "$1" "SELECT count(*) FROM pg_stat_activity WHERE $waiting_mark"
  step "kill -9 $2, release the lock, and start $2 again"
  mend service start "$2"
  service kill "$2"
  # The statement goes on in the server after its client is dead.
  sql "$1" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $waiting_mark" >/dev/null
  release
  verify "events marked" 0 count "$1" "status = 'published'"
  service start "$2"
}

messages() { sql orders "SELECT string_agg(id::text, '$1') FROM outbox_status WHERE aggregate_id = ANY ('{$orders}')"; }
inbox() { sql notifications "SELECT count(*) FROM processed_messages WHERE message_id = ANY ('{$(messages ,)}')"; }

# emails counts what has arrived at Mailpit, or else what notification-service has logged.
emails() {
  local ids
  ids=$(messages '|')
  if [ "$running" = compose ]; then
    get "http://localhost:8025/api/v1/messages?limit=500" | tr ',' '\n' | awk -v ids="\"MessageID\": ?\"<?($ids)@" '$0 ~ ids' | awk 'END { print NR }'
  else
    awk -v ids="$ids" '/"e-mail written to the log only"/ && $0 ~ ids { n++ } END { print n + 0 }' .stack/notification-service.log
  fi
}

mends=''
mend() { mends+="$*"$'\n'; } # mend COMMAND...: runs it at the end
mend_all() {
  local code=$? command
  trap '' INT TERM
  [ "$code" = 0 ] || [ -z "$mends" ] || say "Mending what was broken."
  while read -r command; do # its commands must not read the list of the others
    [ -z "$command" ] || $command </dev/null || { say "NOT MENDED: $command"; code=1; }
  done <<<"$mends"
  exit "$code"
}
trap mend_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
