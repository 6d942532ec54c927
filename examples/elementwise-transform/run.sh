#!/usr/bin/env bash
# From source to products: format, link for a target, compile the kernel and the command program.
#
#   run.sh TARGET OUTDIR        for example: run.sh gfx11-generic /tmp/out
#
# TARGET names an AMD GPU processor that loom-plugins lists. Every command is printed before it
# runs. OUTDIR then holds:
#
#   elementwise-transform.loom  the closed module, with the target's provider chosen
#   elementwise-transform.hsaco the kernel's code object
#   commands.json               the manifest of the command programs
#   commands/                   one .loomcmd per command program
#   kernel.low.loom             the kernel in target instructions, before scheduling
#   command.low.loom            the command program as prepared
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: run.sh TARGET OUTDIR" >&2
  exit 2
fi
target="amdgpu:${1#amdgpu:}"
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"

run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

run loom-format --check motif.loom kernel.loom model.loom checks.loom

run loom-link model.loom --library=kernel.loom --library=motif.loom --mode=link \
  --root=@condition_block --target="$target" --to=text --output="$out/elementwise-transform.loom"

run loom-compile "$out/elementwise-transform.loom" --root=@condition_samples_f32 --target="$target" \
  --format=amdgpu-hsaco --output="$out/elementwise-transform.hsaco" \
  --dump-ir-after=source-to-low --dump-ir-output="$out/kernel.low.loom"

run loom-compile "$out/elementwise-transform.loom" --root=@condition_block --format=loom-command \
  --output="$out/commands.json" --emit-command-artifacts="$out/commands" \
  --dump-ir-after=source-to-low --dump-ir-output="$out/command.low.loom"
