#!/usr/bin/env bash
# scripts/release.sh empties only a folder that is a version's, and looks for it where it is called. It runs in a tree that
# has nothing else, so it ends right after that.
#   release_folder_test.sh SOURCE_DIR
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/scripts/release" "$work/tree/docs" "$work/docs"
cp "$1/scripts/release.sh" "$work/tree/scripts"
cp "$1/scripts/release/shared.sh" "$work/tree/scripts/release"
touch "$work/tree/docs/kept" "$work/docs/of_last_version"

# release FOLDER: called from the folder outside the tree; sets `status`.
release() {
  status=0
  (cd "$work" && bash tree/scripts/release.sh "$1") >"$work/out" 2>&1 || status=$?
}
fail() {
  echo "FAILED: $*, after status $status and"
  cat "$work/out"
  exit 1
}

for folder in tree/docs docs "$work/tree/docs" tree; do
  release "$folder"
  [ "$status" -eq 2 ] || fail "$folder was not refused"
  grep -q "has other files than a version's" "$work/out" || fail "no reason is told for $folder"
done
touch "$work/docs/SHA256SUMS"
release docs
[ ! -e "$work/docs/of_last_version" ] || fail "the last version's folder was not emptied"
[ -e "$work/tree/docs/kept" ] || fail "the tree's folder of this name was emptied"
release new
[ -d "$work/new" ] || fail "a new folder was not made"
echo "only folders of versions are emptied"
