# shellcheck shell=bash
# What the scripts share. Each script sources this file, which changes to the repository's
# root.

set -euo pipefail

case "${1:-}" in
  -h | --help) grep -q -- '--help)' "$0" || { sed -n '2,/^\. /s/^# \{0,1\}//p' "$0"; exit; } ;; # a script that has no other help
esac
unset CDPATH # cd would go elsewhere
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Where `demo` writes how it started the system: compose or processes.
readonly mode_file=.stack/mode

# Each module is built with the versions of its own go.mod. go.work, which is for editors, would raise
# them to those of the tests.
export GOWORK=off

# program builds a program of test/ into build/bin. It runs here, in the repository's root: `go run`
# needs the folder of its module, and passes on neither a SIGTERM nor the exit status.
program() {
  command -v go >/dev/null || die "This needs Go $(sed -n 's/^go //p' go.mod) or newer: install it, or put it on the PATH."
  go build -C test -buildvcs=false -o "../build/bin/$1" "./$2"
}

stack() { program stack stack && build/bin/stack "$@"; }

# lock waits for the end of other runs of the tests and the demos in this checkout, because each
# stops the servers that it has started.
lock() {
  mkdir -p .stack
  command -v flock >/dev/null || return 0
  exec 9>.stack/test.lock
  flock -n 9 || { say "Another make test or demo is running in this checkout: waiting for its end"; flock 9; }
}

# finish is for a trap of EXIT: it runs a command, and the script keeps its exit status.
finish() {
  local code=$?
  "$@" || true
  exit "$code"
}

# use_servers finds PostgreSQL and RabbitMQ for tests, or starts them. Those that it has started are
# stopped at the script's end. Those of a demo keep running. The race detector needs a C compiler.
use_servers() { # use_servers [race]
  local servers compiler=""
  lock
  [ -s .stack/state.json ] || trap 'finish stack down' EXIT # before the start: it may fail half-way
  [ -z "${1:-}" ] || [ "$(go env CGO_ENABLED)" != 0 ] || { say "The race detector needs a C compiler"; compiler="gcc libc6-dev"; }
  # shellcheck disable=SC2086 # one word for each package
  servers=$(stack servers $compiler 9>&-) # they must not keep the lock
  eval "$servers"
}

# modules prints the folders of the Go modules besides the root: the library, the tests and the
# examples. What they need is not in the root's go.mod. Those of test/kubernetes are left out: their
# libraries take minutes to compile. `scripts/verify proof kubernetes` runs them.
modules() { find outbox test examples -name go.mod -not -path 'test/kubernetes/*' -exec dirname {} \; | sort; }

# mode prints how the system runs: compose, however it was started; processes; or nothing.
mode() {
  if [ -n "$(docker compose ps --all --quiet order-service 2>/dev/null)" ]; then
    echo compose
  else
    grep -sx processes "$mode_file" || true
  fi
}

# databases prints the flags with the URLs of the services' databases, as their owners.
databases() {
  if [ "$(mode)" = compose ]; then
    echo --order-db "$(sed 's/@order-db:5432/@127.0.0.1:5433/' deploy/secrets/order-owner-database-url)"
    echo --notification-db "$(sed 's/@notification-db:5432/@127.0.0.1:5434/' deploy/secrets/notification-owner-database-url)"
  fi
}

# find_prometheus puts promtool and prometheus on the PATH: the machine's, or else those of
# Debian's package, unpacked below build/. Installing it would run a server at each boot.
find_prometheus() {
  local folder=$PWD/build/tools/prometheus
  PATH=$PATH:$folder/usr/bin
  if command -v prometheus && command -v promtool; then return; fi >/dev/null
  command -v apt-get >/dev/null || die "The tests need prometheus and promtool: install Prometheus (with Homebrew: brew install prometheus)."
  say "unpacking prometheus from its Debian package"
  unpack prometheus "$folder"
}

# find_pgbouncer puts pgbouncer on the PATH: the machine's, or else that of Debian's package, unpacked
# below build/ with the libraries that a machine without the package may lack.
find_pgbouncer() {
  local folder=$PWD/build/tools/pgbouncer libraries
  PATH=$PATH:/usr/sbin:$folder/usr/sbin
  if command -v pgbouncer >/dev/null && pgbouncer --version >/dev/null 2>&1; then return; fi
  command -v apt-get >/dev/null || die "This needs pgbouncer: install it (with Homebrew: brew install pgbouncer)."
  if [ ! -e "$folder" ]; then
    say "unpacking pgbouncer from its Debian package"
    unpack pgbouncer "$folder" libc-ares2 libevent-2.1-7
  fi
  libraries=$(dirname "$(find "$folder/usr/lib" -name 'libcares.so.*' -print -quit)")
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# unpack gets the files of Debian packages without installing them, which needs no root. It
# unpacks the first and the last ones into one folder.
unpack() {
  local packages=("$1" "${@:3}") folder=$2 new
  mkdir -p build/tools
  new=$(mktemp -d build/tools/unpacking-XXXXXX)
  (
    cd "$new"
    # The lists of packages may be missing or too old. Only root can update them.
    apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" ||
      { apt-get update -q && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}"; }
    for deb in ./*.deb; do dpkg-deb -x "$deb" .; done
    rm ./*.deb
  ) >&2
  rm -rf "$folder"
  mv "$new" "$folder" # all of it or nothing
}
