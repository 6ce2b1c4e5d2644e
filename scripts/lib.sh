# shellcheck shell=bash
# What the scripts share. Each one sources this file and then stands in the
# repository's root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v go >/dev/null || die "This needs Go $(sed -n 's/^go //p' go.mod) or newer: install it, or put it on the PATH."

# Where `up` writes how it started the system: compose or processes.
readonly mode_file=.stack/mode

stack() { go run ./scripts/stack "$@"; }

mode() { cat "$mode_file" 2>/dev/null || true; }

# databases prints the flags that tell `stack` where the services' databases are, as those
# who own them.
databases() {
  if [ "$(mode)" = compose ]; then
    echo --order-db "$(sed 's/@order-db:5432/@127.0.0.1:5433/' secrets/order-owner-database-url)"
    echo --notification-db "$(sed 's/@notification-db:5432/@127.0.0.1:5434/' secrets/notification-owner-database-url)"
  fi
}

# find_prometheus puts promtool and prometheus on the PATH: the machine's, else Debian's,
# unpacked below build/. Installed, the package would run a server, now and at each boot.
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
    # Lists of packages may be missing, or too old; only root can get new ones.
    apt-get download -q -o APT::Sandbox::User=root "$package" ||
      { apt-get update -q && apt-get download -q -o APT::Sandbox::User=root "$package"; }
    dpkg-deb -x ./*.deb .
    rm ./*.deb
  ) >&2
  rm -rf "$folder"
  mv "$new" "$folder" # all of it or nothing
}
