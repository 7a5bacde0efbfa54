# shellcheck shell=bash
# What the scripts in this folder share that try another project in FOLDER; they source it, and use what it sets.
# shellcheck disable=SC2034
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# take_folder FOLDER [ONE [ANOTHER]]: makes FOLDER, and sets `folder` and `python`, that of its virtual environment. With
# another number of arguments it prints the script's head, and ends it with status 2.
take_folder() {
  if [ $# -lt 1 ] || [ $# -gt 3 ]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 2
  fi
  mkdir -p "$1"
  folder=$(cd "$1" && pwd)
  python=$folder/python/bin/python
}
