#!/usr/bin/env bash
# What generic gRPC tools see: the schema passes buf's lint, and buf curl finds
# health, reflection and errors on a running honed.
#   buf_test.sh SOURCE_DIR BIN_DIR WORK_DIR
set -euo pipefail
source_dir=$1
bin=$2
work=$3
mkdir -p "$work"
cp "$source_dir/tests/e2e/package.json" "$source_dir/tests/e2e/package-lock.json" "$work/"
if ! [ -x "$work/node_modules/.bin/buf" ] ||
  ! cmp -s "$work/package-lock.json" "$work/installed-lock.json"; then
  (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  cp "$work/package-lock.json" "$work/installed-lock.json"
fi
export BUF_CACHE_DIR=$work/buf-cache
buf=$work/node_modules/.bin/buf

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
expect() { # text pattern what
  grep -q -- "$2" <<<"$1" || fail "$3: no '$2' in: $1"
}

"$buf" lint "$source_dir/proto" || fail "buf lint"

run=$(mktemp -d /tmp/hone-buf-XXXXXX)
"$bin/honed" --device=model:h200 --listen="$run/honed.sock" \
  --db="$run/hone.db" --cache="$run/cache" 2>"$run/log" &
honed=$!
trap 'kill $honed 2>/dev/null || true; wait $honed 2>/dev/null || true; rm -rf "$run"' EXIT
for _ in $(seq 300); do
  grep -q '"event":"serving"' "$run/log" && break
  kill -0 $honed 2>/dev/null || fail "honed ended: $(cat "$run/log")"
  sleep 0.1
done

call() { # method json
  "$buf" curl --protocol grpc --http2-prior-knowledge \
    --unix-socket "$run/honed.sock" --reflect-protocol grpc-v1alpha \
    -d "$2" "http://localhost/$1"
}

health=$(call grpc.health.v1.Health/Check '{"service":"hone.v1.TuningService"}')
expect "$health" SERVING "health of the service"
expect "$(call grpc.health.v1.Health/Check '{}')" SERVING "health of the server"
methods=$("$buf" curl --http2-prior-knowledge --protocol grpc \
  --unix-socket "$run/honed.sock" --reflect-protocol grpc-v1alpha \
  --list-methods http://localhost)
expect "$methods" hone.v1.TuningService/TuneLayer "reflection"
expect "$methods" hone.v1.StudyService/Suggest "reflection of studies"
expect "$(call hone.v1.TuningService/GetDevice '{}')" '"modelled": *true' "device"
config=$(call hone.v1.TuningService/GetConfig \
  '{"problem":{"layer":{"n":4096,"k":4096,"bScale":"SCALE_GRANULARITY_GROUP","bGroup":128}},"m":16}')
expect "$config" MATCH_KIND_HEURISTIC "lookup"

# Errors are google.rpc details, with one ErrorInfo and the fields.
if error=$(call hone.v1.TuningService/GetConfig \
  '{"problem":{"layer":{"n":4096,"k":4096,"bScale":"SCALE_GRANULARITY_GROUP","bGroup":48}},"m":0}' 2>&1); then
  fail "a bad request was accepted: $error"
fi
expect "$error" invalid_argument "code of a bad request"
# buf prints each detail's bytes in base64.
details=$(node -e 'for (const detail of JSON.parse(require("fs").readFileSync(0)).details)
  console.log(detail.type, Buffer.from(detail.value, "base64").toString("latin1").replace(/[^ -~]+/g, " "))' <<<"$error")
expect "$details" "google.rpc.ErrorInfo.*INVALID_FIELD" "reason of a bad request"
expect "$details" "google.rpc.BadRequest.*problem.layer.b_group" "field of a bad request"
[ "$(grep -o google.rpc.ErrorInfo <<<"$error" | wc -l)" = 1 ] || fail "not one ErrorInfo: $error"

kill -TERM $honed
wait $honed || fail "honed did not end cleanly: $(cat "$run/log")"
echo "passed"
