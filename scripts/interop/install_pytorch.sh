#!/usr/bin/env bash
# Installs PyTorch from PyPI into a virtual environment (6 GB, because on x86-64 it brings CUDA's libraries). What is
# there already is kept.
#   scripts/interop/install_pytorch.sh FOLDER VERSION [PACKAGES]     VERSION may be empty: the newest
# Leaves nothing elsewhere, and needs no root. PYTHON names the Python to use; default: python3.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 2
fi
folder=$1
version=${2:+==$2}
shift 2
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
# --no-compile: Python compiles what is imported, a small part of 6,000 files.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile "torch$version" "$@"
