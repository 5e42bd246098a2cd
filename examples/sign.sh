#!/usr/bin/env bash
# A signed call with bash, openssl and curl:
#
#   examples/sign.sh <METHOD> <PATH_AND_QUERY> [BODY]
#   examples/sign.sh GET '/custody/get-ledger?limit=5'
#   examples/sign.sh POST /rfq/accept '{"quote_id":"…"}'
#
# RFQ_URL, RFQ_API_KEY_ID and RFQ_SECRET come from the environment. Use it only on your own machine,
# because other users can see the secret among the arguments of openssl while it runs.
set -euo pipefail

if [[ $# -lt 2 || $# -gt 3 ]]; then
  echo "usage: examples/sign.sh <METHOD> <PATH_AND_QUERY> [BODY]" >&2
  exit 2
fi
for name in RFQ_URL RFQ_API_KEY_ID RFQ_SECRET; do
  if [[ -z ${!name-} ]]; then
    echo "Set $name. examples/README.md says how." >&2
    exit 2
  fi
done

method=$1
target=$2
body=${3-}

# Milliseconds. The date of BSD and macOS has none, and whole seconds are exact enough.
timestamp=$(date +%s%3N)
[[ $timestamp =~ ^[0-9]+$ ]] || timestamp="$(date +%s)000"

# Three lines and the body, without a line feed at the end.
signature=$(printf '%s\n%s\n%s\n%s' "$timestamp" "$method" "$target" "$body" |
  openssl dgst -sha256 -hmac "$RFQ_SECRET" -binary |
  openssl base64 -A)

args=(--silent --show-error --fail-with-body --path-as-is --globoff --request "$method")
args+=(--header "APIKEY: $RFQ_API_KEY_ID")
args+=(--header "X-Hmac-Timestamp: $timestamp")
args+=(--header "X-Hmac-Signature: $signature")
if [[ -n $body ]]; then
  args+=(--header 'content-type: application/json' --data-binary "$body")
fi

curl "${args[@]}" "$RFQ_URL$target"
echo
