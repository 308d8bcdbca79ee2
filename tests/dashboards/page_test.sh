#!/usr/bin/env bash
# The page that honed serves: the committed bundle is what its sources give and
# small enough, and the page shows, in a real browser, what the API says of the
# trials of an H200.
#   page_test.sh SOURCE_DIR HONED WORK_DIR
set -euo pipefail
source_dir=$1
honed=$2
work=$3

mkdir -p "$work/web"
cp -r "$source_dir"/dashboards/web/. "$work/web/"
if ! [ -d "$work/web/node_modules" ] ||
  ! cmp -s "$work/web/package-lock.json" "$work/installed-lock.json"; then
  (cd "$work/web" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  cp "$work/web/package-lock.json" "$work/installed-lock.json"
fi
(cd "$work/web" && npm run --silent check-dist && npm run --silent check-size)

gunzip -c "$source_dir/tests/bench/results/h200/2026-12-03-tunes.db.gz" \
  >"$work/h200.db"
exec node "$source_dir/tests/dashboards/run.mjs" --honed="$honed" \
  --db="$work/h200.db" --work="$work/playwright" \
  --screenshots="$work/screenshots"
