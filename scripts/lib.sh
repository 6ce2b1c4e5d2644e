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

# databases prints the flags that tell `stack` where the services' databases are.
databases() {
  if [ "$(mode)" = compose ]; then
    echo --order-db postgres://order_service:order_service@127.0.0.1:5433/order_service
    echo --notification-db postgres://notification_service:notification_service@127.0.0.1:5434/notification_service
  fi
}
