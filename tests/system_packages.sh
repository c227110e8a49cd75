#!/bin/sh
# Installs the system packages that the tests need, through apt-get where that is allowed.
# Usage: system_packages.sh "parts to leave out"   |   system_packages.sh --venv PYTHON   |   system_packages.sh --compiler PYTHON   |   system_packages.sh --slurm
set -u

install() {  # install PACKAGE WHY
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"; } >/dev/null 2>&1 && return 0
  fi
  echo "The system package '$1' is missing ($2): install it, e.g. with: sudo apt-get install $1${3:+, or leave that part out with LEAVE_OUT=$3}" >&2
  exit 1
}

if [ "${1:-}" = "--venv" ]; then
  version=$("$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  install "python$version-venv" "$2 cannot make virtual environments"
  exit 0
fi

if [ "${1:-}" = "--compiler" ]; then
  "$2" -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || {
    echo "ALFWorld is left out: its packages need Python 3.11 or 3.12, and this is $("$2" --version)." >&2
    exit 0
  }
  command -v g++ >/dev/null 2>&1 && command -v make >/dev/null 2>&1 || install build-essential "ALFWorld's planner is built from source" compiler
  exit 0
fi

if [ "${1:-}" = "--slurm" ]; then
  PATH="$PATH:/usr/sbin"
  for part in munged:munge sbatch:slurm-client slurmctld:slurmctld slurmd:slurmd slurmdbd:slurmdbd mariadbd:mariadb-server-core my_print_defaults:mariadb-client-core; do
    command -v "${part%:*}" >/dev/null 2>&1 || install "${part#*:}" "tests of Slurm"
  done
  exit 0
fi

case " ${1:-} " in
  *" terminal "*) ;;
  *) command -v tmux >/dev/null 2>&1 || install tmux "tests of the terminal play" terminal ;;
esac
case " ${1:-} " in
  *" browser "*) ;;
  *)
    command -v chromedriver >/dev/null 2>&1 || {
      install chromium "tests of pages in a browser" browser
      install chromium-driver "tests of pages in a browser" browser
    }
    ;;
esac
