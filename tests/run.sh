#!/usr/bin/env bash
# Sets up, builds everything and runs all tests that need no GPU.
#   bash tests/run.sh            the unit, fuzz, soak and bench tiers
#   bash tests/run.sh --gpu      the tests that need a GPU; fails without one
set -euo pipefail
cd "$(dirname "$0")/.."
bash .ci/setup --tests
# Sampled tests take another sample with each commit; a seed given repeats one.
if [ -z "${HONE_TEST_SEED:-}" ]; then
  commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1)
  export HONE_TEST_SEED=$((16#$commit))
fi
echo "HONE_TEST_SEED=$HONE_TEST_SEED"
cmake --preset host >/dev/null
cmake --build --preset host
if [ "${1:-}" = --gpu ]; then
  exec ctest --preset gpu
fi
exec ctest --preset host
