#!/usr/bin/env bash
# Installs what building quire needs and this machine lacks (Debian 12, Ubuntu 24.04). Does nothing, quickly, the second time.
#   scripts/setup.sh             the build's needs
#   scripts/setup.sh --test      the tests' too
#   scripts/setup.sh --develop   those of make format, tidy and fuzz
set -euo pipefail
cd "$(dirname "$0")/.."

# Bump when the lists change.
version=4
packages=(g++ cmake ninja-build pkg-config ca-certificates python3 python3-pip python3-venv unzip
          nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev prometheus-cpp-dev libxxhash-dev zlib1g-dev libssl-dev)
test_packages=(libgtest-dev libgmock-dev qemu-user binutils openmpi-bin libopenmpi-dev iproute2)
develop_packages=(clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev)
case "${1:-}" in
  --test) packages+=("${test_packages[@]}") ;;
  --develop) packages+=("${develop_packages[@]}") ;;
esac

# scripts/build.sh configures again after a new one: what was not found then may be there now.
stamp="build/.setup-$version${1:-}"
[ -e "$stamp" ] && exit 0

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
# A name that other packages merely refer to is known to apt, too, but has no candidate.
available() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[0-9]* ]]; }
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# Boost.Beast with C++20 coroutines: Debian 12 has 1.81 beside its default, Ubuntu 24.04 has 1.83.
boost_found=no
for boost in libboost1.81-dev libboost1.83-dev libboost1.88-dev; do
  installed "$boost" && boost_found=yes
done

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done

# Rust 1.80 or newer: what is on the path, else Debian's cargo-web, else Ubuntu's in a folder of its own, else the
# distribution's own. cmake/QuireRust.cmake looks in the same places.
cargo_is_new_enough() {
  local cargo
  for cargo in "$(command -v cargo || true)" "$HOME/.cargo/bin/cargo" /usr/lib/rust-*/bin/cargo; do
    [ -n "$cargo" ] && [ -x "$cargo" ] || continue
    local minor
    minor=$("$cargo" --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge 80 ] && return 0
  done
  return 1
}
need_rust=no
cargo_is_new_enough || need_rust=yes

if [ ${#missing[@]} -gt 0 ] || [ $boost_found = no ] || [ $need_rust = yes ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: this system has no apt-get; install by hand: ${missing[*]:-} Boost >= 1.81 and Rust >= 1.80" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]:-} $([ $boost_found = no ] && echo boost) $([ $need_rust = yes ] && echo rust)"
  as_root apt-get update -qq
  if [ $boost_found = no ]; then
    for boost in libboost1.81-dev libboost1.83-dev libboost1.88-dev; do
      if available "$boost"; then missing+=("$boost"); break; fi
    done
  fi
  if [ $need_rust = yes ]; then
    if available cargo-web; then missing+=(cargo-web rustc-web)
    elif available cargo-1.80; then missing+=(cargo-1.80 rustc-1.80)
    else missing+=(cargo rustc); fi
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

mkdir -p build
touch "$stamp"
