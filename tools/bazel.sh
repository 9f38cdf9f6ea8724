#!/usr/bin/env bash
# Runs Bazel (Debian's bazel-bootstrap with bazel-platforms, bazel-rules-java and
# bazel-rules-proto works) on this workspace without a network: bazel.sh build //:all
set -euo pipefail
cd "$(dirname "$0")/.."
options=()
debian=/usr/share/bazel
for repository in platforms:platforms rules_java:rules/java rules_proto:rules/proto; do
  if [ -d "$debian/${repository#*:}" ]; then
    options+=("--override_repository=${repository%%:*}=$debian/${repository#*:}")
  fi
done
verb=$1
shift
exec bazel "$verb" "${options[@]}" "$@"
