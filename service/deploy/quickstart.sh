#!/usr/bin/env bash
# The main job, from nothing: sets up, builds what it needs, starts honed,
# tunes a layer, stores the winners, serves them and prints the table.
#
#   bash service/deploy/quickstart.sh [N K]     a W4A16 group-128 layer,
#                                               8192 x 8192 unless given
#
# On a machine without a GPU the device is modelled (an H200) and every number
# says so; with one, the GPU is measured. Results stay in build/quickstart.
# HONE_BIN names a folder of programs that are built already, such as bin of an
# unpacked bundle on a GPU node that has nothing but CUDA; nothing is installed
# or built then. HONE_BUDGET is the tuning time, 120s unless given.
set -euo pipefail
cd "$(dirname "$0")/../.."
n=${1:-8192}
k=${2:-8192}

bin=${HONE_BIN:-build/quickstart/bin}
if [ -z "${HONE_BIN:-}" ]; then
  bash .ci/setup
  cmake --preset host -DHONE_TESTS=OFF -B build/quickstart >/dev/null
  cmake --build build/quickstart --target honed hone hone-worker hone-compiler
fi

state=$PWD/build/quickstart/state
mkdir -p "$state"
chmod 700 "$state"
device=auto
budget=${HONE_BUDGET:-120s}
if ! [ -e /dev/nvidiactl ]; then
  echo "No NVIDIA GPU here: modelling an H200. Its numbers are MODELLED."
  device=model:h200
fi
export HONE_ADDRESS=$state/honed.sock
"$bin/honed" --device=$device --listen="$HONE_ADDRESS" \
  --db="$state/hone.db" --cache="$state/cache" 2>"$state/honed.log" &
honed=$!
trap 'kill $honed 2>/dev/null; wait $honed 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  [ -S "$HONE_ADDRESS" ] && break
  kill -0 $honed 2>/dev/null || { cat "$state/honed.log" >&2; exit 1; }
  sleep 0.1
done

layer=(--n "$n" --k "$k" --b int4 --group 128)
echo "== tune"
"$bin/hone" tune "${layer[@]}" --budget "$budget" --max-kernels 12
echo "== look up M = 16"
"$bin/hone" get "${layer[@]}" --m 16
echo "== every M against the fastest possible, and lookups over a warm channel"
"$bin/hone" bench "${layer[@]}" --plot
echo "== why M = 16 takes as long as it does"
"$bin/hone" explain "${layer[@]}" --m 16
echo "== export"
"$bin/hone" export --out "$state/tables.jsonl"
