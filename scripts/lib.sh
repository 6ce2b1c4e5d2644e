# shellcheck shell=bash
# What the scripts share. Each script sources this file, which changes to the repository's
# root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "This needs Go $(sed -n 's/^go //p' go.mod) or newer: install it, or put it on the PATH."

# Where `up` writes how it started the system: compose or processes.
readonly mode_file=.stack/mode

stack() { go run ./test/stack "$@"; }

mode() { cat "$mode_file" 2>/dev/null || true; }

# page_url prints how a browser reaches a page: ORDER_PAGE_URL or NOTIFICATION_PAGE_URL. Processes
# always have the ports that .env has in the repository.
page_url() {
  case "$(mode)/$1" in
    processes/ORDER_PAGE_URL) echo http://localhost:4100/ ;;
    processes/NOTIFICATION_PAGE_URL) echo http://localhost:4101/ ;;
    *) echo "${!1:-$(sed -n "s/^$1=//p" .env)}" ;; # the environment goes first, as in Compose
  esac
}

# databases prints the flags with the URLs of the services' databases, as their owners.
databases() {
  if [ "$(mode)" = compose ]; then
    echo --order-db "$(sed 's/@order-db:5432/@127.0.0.1:5433/' deploy/secrets/order-owner-database-url)"
    echo --notification-db "$(sed 's/@notification-db:5432/@127.0.0.1:5434/' deploy/secrets/notification-owner-database-url)"
  fi
}

# experiment runs one experiment of test/break on the running system. The programs are built
# first, because `go run` passes on neither a SIGTERM nor the exit status.
experiment() {
  go build -o build/bin/experiment ./test/break
  go build -o build/bin/stack ./test/stack
  local where=
  case "$(mode)" in
    compose) where=$(databases) ;;
    processes) where=$(build/bin/stack databases) ;;
  esac
  # shellcheck disable=SC2086 # one word for each flag and value
  exec build/bin/experiment --mode "$(mode)" $where "$@"
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

# unpack gets a Debian package's files without installing it, which needs no root.
unpack() {
  local package=$1 folder=$2 new
  mkdir -p build/tools
  new=$(mktemp -d build/tools/unpacking-XXXXXX)
  (
    cd "$new"
    # The lists of packages may be missing or too old. Only root can update them.
    apt-get download -q -o APT::Sandbox::User=root "$package" ||
      { apt-get update -q && apt-get download -q -o APT::Sandbox::User=root "$package"; }
    dpkg-deb -x ./*.deb .
    rm ./*.deb
  ) >&2
  rm -rf "$folder"
  mv "$new" "$folder" # all of it or nothing
}
