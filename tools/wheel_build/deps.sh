#!/usr/bin/env bash
# Builds the static libraries inside a wheel, with g++-11 and -fPIC, from the Debian sources of sources.txt, into
# build/wheel/deps. A library that exists already, from the same source and by the same recipe, is not built again.
#
# g++-11, because the static libstdc++ of g++ 12 calls functions of a glibc later than 2.34. Debian's own archives of
# these libraries are compiled by g++ 12, and most of them are not position-independent.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)/build/wheel
sources=$root/sources prefix=$root/deps
jobs=${STEPWATCH_JOBS:-$(nproc)}
mkdir -p "$sources" "$prefix/lib" "$prefix/include" "$root/objects"

# The machine's apt sources, with deb-src entries; only files in build/wheel change.
apt_options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$root/apt/sources"
  -o Dir::State::Lists="$root/apt/lists" -o APT::Sandbox::User=root)
set_up_apt() {
  mkdir -p "$root/apt/sources" "$root/apt/lists/partial"
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -s "$file" ] || continue
    sed -E 's/^Types:.*/Types: deb-src/; s/^deb(-src)? /deb-src /' "$file" >"$root/apt/sources/$(basename "$file")"
  done
  apt-get "${apt_options[@]}" update -qq
}

# fetch PACKAGE VERSION SHA256: the unpacked source at $sources/PACKAGE.
fetch() {
  local package=$1 version=$2 sha256=$3 dsc
  dsc=$sources/${package}_${version#*:}.dsc
  [ -d "$root/apt/lists/partial" ] || set_up_apt
  if ! (cd "$sources" && apt-get "${apt_options[@]}" source -qq --download-only "$package=$version"); then
    echo "wheel: Debian's mirror does not have $package $version (any more); put a version that it has, and the SHA-256" >&2
    echo "  of its .dsc, into tools/wheel_build/sources.txt: apt-cache showsrc $package" >&2
    exit 1
  fi
  echo "$sha256  $dsc" | sha256sum --check --quiet || { echo "wheel: $dsc is not the file that was pinned" >&2; exit 1; }
  rm -rf "${sources:?}/$package"
  # dpkg-source compares every file with the .dsc; its signature is not checked, since the hash is stronger.
  dpkg-source --no-check -x "$dsc" "$sources/$package" >/dev/null
}

launcher=$(command -v ccache || true)
export CC="${launcher:+$launcher }gcc-11" CXX="${launcher:+$launcher }g++-11"
export CFLAGS="-O2 -g0 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections" CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CXXFLAGS=$CFLAGS

# with_cmake PACKAGE FOLDER TARGET OPTION…: configures FOLDER of the source and builds TARGET.
with_cmake() {
  local package=$1 folder=$2 target=$3
  shift 3
  rm -rf "${root:?}/objects/$package"
  cmake -S "$sources/$package/$folder" -B "$root/objects/$package" -G Ninja -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_COMPILER=gcc-11 -DCMAKE_CXX_COMPILER=g++-11 \
    -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$@"
  ninja -C "$root/objects/$package" -j "$jobs" "$target"
}

# with_make PACKAGE: copies the source to the build directory.
with_make() {
  rm -rf "${root:?}/objects/$1"
  cp -r "$sources/$1" "$root/objects/$1"
  cd "$root/objects/$1"
}

build_fmtlib() { with_cmake fmtlib . install -DFMT_TEST=OFF -DFMT_DOC=OFF; }

build_spdlog() { with_cmake spdlog . install -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF; }

build_highway() { with_cmake highway . install -DHWY_ENABLE_CONTRIB=OFF -DHWY_ENABLE_EXAMPLES=OFF -DBUILD_TESTING=OFF; }

build_protobuf() {
  with_cmake protobuf . libprotobuf-lite -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_WITH_ZLIB=OFF
  install -D -m 644 -t "$prefix/lib" "$root/objects/protobuf/libprotobuf-lite.a"
  cd "$sources/protobuf/src"
  find google/protobuf -name '*.h' -o -name '*.inc' | xargs cp --parents -t "$prefix/include"
}

build_re2() {  # Debian ships its tables of characters in the package unicode-data
  with_make re2
  make -j "$jobs" REBUILD_TABLES=1 CXX="$CXX" CXXFLAGS="$CXXFLAGS -std=c++11 -pthread" obj/libre2.a
  install -D -m 644 -t "$prefix/lib" obj/libre2.a
  install -D -m 644 -t "$prefix/include/re2" re2/{filtered_re2,re2,set,stringpiece}.h
}

build_sqlite3() {  # one C file, which its build generates with tclsh
  with_make sqlite3
  ./configure --disable-tcl --disable-readline
  make -j 1 sqlite3.c
  # shellcheck disable=SC2086  # several words each
  $CC $CFLAGS -DNDEBUG -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c -o sqlite3.o
  ar crs "$prefix/lib/libsqlite3.a" sqlite3.o
  install -D -m 644 -t "$prefix/include" sqlite3.h
}

build_zlib() {
  with_make zlib
  ./configure --static
  make -j "$jobs" libz.a
  install -D -m 644 -t "$prefix/lib" libz.a
  install -D -m 644 -t "$prefix/include" zlib.h zconf.h
}

build_libpng1.6() {
  with_cmake libpng1.6 . png_static -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF
  install -D -m 644 -t "$prefix/lib" "$root/objects/libpng1.6/libpng16.a"
  install -D -m 644 -t "$prefix/include" "$sources/libpng1.6/"png{,conf}.h "$root/objects/libpng1.6/pnglibconf.h"
}

# build PACKAGE VERSION SHA256: skipped if the stamp of an earlier build names the same source and recipe.
build() {
  local stamp="$prefix/$1.built" log="$root/$1.log" recipe
  recipe="$2 $3 $(declare -f "build_$1" with_cmake with_make | sha256sum) $CFLAGS $(g++-11 -dumpfullversion)"
  [ "$(cat "$stamp" 2>/dev/null)" = "$recipe" ] && return
  echo "wheel: building $1 $2"
  # A separate process: in a function called before || a failing command does not end it.
  "$here/deps.sh" one "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "wheel: see $log" >&2; exit 1; }
  echo "$recipe" >"$stamp"
}

if [ "${1:-}" = one ]; then
  shift
  fetch "$@"
  "build_$1"
  exit
fi

# Libraries before those that use them: fmt before spdlog, zlib before libpng.
for package in fmtlib spdlog highway re2 zlib libpng1.6 protobuf sqlite3; do
  read -r version sha256 < <(awk -v name="$package" '$1 == name { print $2, $3 }' "$here/sources.txt")
  build "$package" "$version" "$sha256"
done
