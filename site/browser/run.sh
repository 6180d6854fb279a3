#!/usr/bin/env bash
# Has a browser judge the site of the documentation. It installs Chromium from Debian's packages, if there is none. Arguments are those of go test.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the judge of the site needs chromium"
    exit 1
  fi
  apt-get update -q && apt-get install -qy --no-install-recommends chromium
fi
exec go test ./... "$@"
