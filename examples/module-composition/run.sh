#!/usr/bin/env bash
# One program of three modules: link what is at hand, keep it as bytecode, and finish it later.
#
#   run.sh OUTDIR               for example: run.sh /tmp/out
#
# Every command is printed before it runs. OUTDIR then holds:
#
#   symbols.txt     the symbols of the three modules
#   partial.loombc  root and layer, with @scale declared and not defined
#   partial.loom    the same program as text
#   plan.txt        why each symbol is in the closed program
#   schema.json     the configuration that the closed program has
#   closed.loom     the whole program with its configuration bound
#   closed.loombc   the same program as bytecode
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: run.sh OUTDIR" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

run loom-format --check root.loom layer.loom kernels.loom settings.loom

run loom-link root.loom --library=layer.loom --library=kernels.loom --list-symbols --output="$out/symbols.txt"

# Only the layer is there. What it declares stays declared, so the result stands alone and can be
# linked on, by another process and without layer.loom.
run loom-link root.loom --library=layer.loom --mode=link --root=@entry --include-input-tests --allow-unresolved \
  --output="$out/partial.loombc"
run loom-format "$out/partial.loombc" --output="$out/partial.loom"

# The kernel library closes the program: from here on nothing may be left open.
run loom-link "$out/partial.loombc" --library=kernels.loom --mode=link --root=@entry --print-plan --output="$out/plan.txt"
run loom-link "$out/partial.loombc" --library=kernels.loom --mode=link --root=@entry --print-config-schema \
  --output="$out/schema.json"
run loom-link "$out/partial.loombc" --library=kernels.loom --library=settings.loom --mode=link --root=@entry \
  --include-input-tests --require-resolved-config --output="$out/closed.loom"
run loom-format "$out/closed.loom" --to=bytecode --output="$out/closed.loombc"

run loom-check "$out/closed.loombc" --device=reference
