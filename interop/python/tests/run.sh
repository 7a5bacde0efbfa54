#!/usr/bin/env bash
# Builds the package's wheel, installs it into a virtual environment, and runs the tests in this file's folder.
#   run.sh PYTHON LIBTUTTI.SO BUILD_FOLDER [PYTEST-ARGS]
# The folder `parallel` has tutti.parallel's tests: as the first of PYTEST-ARGS it is run alone, with Debian's NumPy.
# Exit status 77: something cannot be had from PyPI; the last line says so.
set -euo pipefail
python=$1
library=$(realpath "$2")
mkdir -p "$3"
build=$(cd "$3" && pwd)
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shift 3

BUILD=${library%/*} PYTHON=$python "$tests/../../../scripts/release/wheels.sh" "$build"
# Debian's PyTorch is tested, too, where it is installed. It takes arrays of Debian's NumPy only, which tutti.parallel's
# tests need; the others have the newest NumPy.
case ${1:-} in
  parallel*) environment=$build/parallel_tests packages=(pytest) ;;
  *) environment=$build/tests packages=(pytest numpy ml_dtypes mypy 'pyright[nodejs]') ;;
esac
[ -x "$environment/bin/python" ] || "$python" -m venv --system-site-packages "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" || {
  echo "${packages[*]} cannot be installed from PyPI"
  exit 77
}
[ ${#packages[@]} -eq 1 ] || "$environment/bin/pip" install --quiet --disable-pip-version-check 'ray>=2.56' ||
  echo "Ray cannot be installed from PyPI for this Python: its tests are skipped"
"$environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
  --find-links "$build/wheels" tutti
cd "$tests"
# Where documents_test.py finds the program that starts ranks, and the wheels.
export TUTTI_BUILD="${library%/*}" TUTTI_WHEELS="$build/wheels"
# In a build tree, the folder of libtutti.so also has the fake GPU's driver.
export TUTTI_FAKE_GPU="${TUTTI_FAKE_GPU-$(dirname "$library")/testing/fake_gpu}"
PYTHONDONTWRITEBYTECODE=1 exec "$environment/bin/python" -m pytest -q -p no:cacheprovider "$@"
