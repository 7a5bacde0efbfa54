#!/usr/bin/env bash
# Builds the documentation as a site (scripts/docs.sh site, where mkdocs finds every broken link and anchor), and checks
# that it works from disk: no page loads anything from another host, the reference has every function of the header, and
# the search finds something, in a browser if there is one.
#   site_test.sh SOURCE_DIR      status 77: mkdocs cannot be had
set -euo pipefail
cd "$1"
scripts/docs.sh site >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $*" && failed=1; }

! grep -rlE '<(script|img|iframe)[^>]*src="https?:|<link[^>]*rel="stylesheet"[^>]*href="https?:|url\(https?:' build/site --include='*.html' --include='*.css' >"$work/remote" ||
  fail "pages that load something from another host: $(head -n 3 "$work/remote")"
tr '\n' ' ' <include/tutti/tutti.h | grep -oE 'TUTTI_API [^;(]*\(' | grep -oE 'tutti[A-Za-z]+\($' | tr -d '(' | sort -u >"$work/declared"
[ -s "$work/declared" ] || fail "no function found in the header"
while read -r function; do
  grep -q "<h3 [^>]*>[^<]*\b$function\b" build/site/reference_c.html || fail "reference_c.html has no heading for $function"
done <"$work/declared"
python3 - <<'PYTHON' || fail "the search index lacks pages"
import json
pages = {entry["location"].split("#")[0] for entry in json.load(open("build/site/search/search_index.json"))["docs"]}
assert {"index.html", "reference_c.html", "reference_python.html", "troubleshooting.html"} <= pages, pages
PYTHON
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -n "$browser" ]; then
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --virtual-time-budget=8000 \
    --dump-dom "file://$PWD/build/site/index.html?q=deterministic" >"$work/page" 2>/dev/null || fail "the browser ended with $?"
  grep -qE '[0-9]+ matching documents' "$work/page" || fail "a search from disk finds nothing"
fi
[ "$failed" = 0 ] && echo "the site works from disk"
exit "$failed"
