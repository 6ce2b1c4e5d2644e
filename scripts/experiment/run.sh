# shellcheck shell=bash
# What the scripts in scripts/break share: each sources this file with the name of its
# experiment, and what it was called with.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# Built, and not by `go run`, which would keep a SIGTERM and the exit status from them.
go build -o build/bin/ ./scripts/experiment ./scripts/stack

where=
case "$(mode)" in
  compose) where=$(databases) ;;
  processes) where=$(build/bin/stack databases) ;;
esac
# shellcheck disable=SC2086 # one word for each flag and value
exec build/bin/experiment --mode "$(mode)" $where "$@"
