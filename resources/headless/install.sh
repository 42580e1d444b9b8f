#!/bin/sh
# Installs Covey without a window as a service of this system (systemd or launchd), or takes it away again.
#
#   ./install.sh controller [--lend]     lead a covey
#   ./install.sh worker                  lend this machine; the join string is read from standard input:
#                                        echo "$JOIN_STRING" | sudo ./install.sh worker
#   ./install.sh uninstall [--purge]     remove the service and the program; --purge: its data too
#
# As root it serves the whole machine: program in /opt/covey, data in /var/lib/covey, a user of its own.
# As somebody else it serves them alone: program in ~/.local/opt/covey, data in the usual place.
set -eu

say() { printf 'covey: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

usage() { sed -n '3,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

source_directory=$(cd "$(dirname "$0")" && pwd -P)
action=${1:-}
[ -n "$action" ] || usage
shift
lend= purge=
for argument in "$@"; do
  case $argument in
    --lend) lend=--lend ;;
    --purge) purge=yes ;;
    *) usage ;;
  esac
done

system=$(uname -s)
if [ "$(id -u)" = 0 ]; then
  everyone=yes program=/opt/covey data=/var/lib/covey link=/usr/local/bin/covey
else
  everyone= program=$HOME/.local/opt/covey link=$HOME/.local/bin/covey
  case $system in
    Darwin) data="$HOME/Library/Application Support/Covey" ;;
    *) data=${XDG_DATA_HOME:-$HOME/.local/share}/covey ;;
  esac
fi
case $system in
  Linux)
    command -v systemctl >/dev/null 2>&1 || fail 'systemd is not here: start "bin/covey worker" by what starts your services.'
    if [ -n "$everyone" ]; then
      unit=/etc/systemd/system/covey.service control='systemctl' target=multi-user.target
    else
      unit=$HOME/.config/systemd/user/covey.service control='systemctl --user' target=default.target
    fi
    ;;
  Darwin)
    label=org.covey.service
    if [ -n "$everyone" ]; then
      unit=/Library/LaunchDaemons/$label.plist domain=system
      data='/Library/Application Support/Covey'
    else
      unit=$HOME/Library/LaunchAgents/$label.plist domain=gui/$(id -u)
    fi
    ;;
  *) fail "this script knows Linux and macOS; on Windows use install.ps1." ;;
esac

stop_service() {
  if [ "$system" = Linux ]; then
    [ -e "$unit" ] && $control disable --now covey.service >/dev/null 2>&1 || true
  else
    launchctl bootout "$domain/$label" >/dev/null 2>&1 || true
  fi
}

uninstall() {
  stop_service
  rm -f "$unit"
  [ "$system" = Linux ] && { $control daemon-reload || true; }
  case $(readlink "$link" 2>/dev/null || true) in "$program"/*) rm -f "$link" ;; esac
  rm -rf "$program"
  if [ -n "$purge" ]; then
    rm -rf "$data"
    if [ -n "$everyone" ] && [ "$system" = Linux ] && id covey >/dev/null 2>&1; then userdel covey || true; fi
    say 'removed, with its data.'
  else
    say "removed. What it knew and its models are still in $data."
  fi
}

place_program() {
  [ -x "$source_directory/bin/node" ] || fail "run this from the unpacked archive: $source_directory/bin/node is missing."
  "$source_directory/bin/covey" --version >/dev/null || fail 'the program does not run on this system.'
  if [ "$source_directory" != "$program" ]; then
    rm -rf "$program.new"
    mkdir -p "$program.new"
    cp -R "$source_directory/." "$program.new/"
    rm -rf "$program"
    mv "$program.new" "$program"
  fi
  mkdir -p "$(dirname "$link")" "$(dirname "$unit")"
  ln -sf "$program/bin/covey" "$link"
  if [ -n "$everyone" ] && [ "$system" = Linux ]; then
    id covey >/dev/null 2>&1 || useradd --system --home-dir "$data" --shell /usr/sbin/nologin covey
    for group in video render; do
      getent group "$group" >/dev/null 2>&1 && usermod -aG "$group" covey || true
    done
    mkdir -p "$data"
    chown covey: "$data"
  else
    mkdir -p "$data"
  fi
  chmod 700 "$data"
}

# The join string works once, so the worker joins here, before the service starts. It stands in no argument list.
join_once() {
  string=
  if [ ! -t 0 ]; then IFS= read -r string || true; fi
  [ -n "$string" ] || { say 'no join string on standard input: run "covey join" here when it is up.'; return 0; }
  log=$(mktemp) ready=$(mktemp -u)
  run_as=
  if [ -n "$everyone" ] && [ "$system" = Linux ]; then run_as='runuser -u covey --'; ready=$data/ready.json; fi
  printf '%s\n' "$string" | $run_as "$program/bin/covey" worker --data "$data" --join - --api none \
    --no-discovery --ready-file "$ready" >"$log" 2>&1 &
  joining=$!
  waited=0
  while [ ! -e "$ready" ] && kill -0 "$joining" 2>/dev/null && [ "$waited" -lt 60 ]; do
    sleep 1
    waited=$((waited + 1))
  done
  if [ -e "$ready" ]; then
    kill "$joining" 2>/dev/null || true
    wait "$joining" 2>/dev/null || true
    rm -f "$ready" "$log"
    say 'joined.'
  else
    kill "$joining" 2>/dev/null || true
    sed -n '/^covey:/p' "$log" >&2
    rm -f "$log"
    fail 'this machine could not join.'
  fi
}

write_systemd() {
  {
    printf '[Unit]\nDescription=Covey %s\nWants=network-online.target\nAfter=network-online.target\n\n' "$action"
    printf '[Service]\nExecStart=%s/bin/covey %s --data %s\n' "$program" "$arguments" "$data"
    printf 'Restart=on-failure\nRestartSec=5\nTimeoutStopSec=20\nKillMode=mixed\nUMask=0077\n'
    if [ -n "$everyone" ]; then
      printf 'User=covey\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nReadWritePaths=%s\n' "$data"
    fi
    printf '\n[Install]\nWantedBy=%s\n' "$target"
  } >"$unit"
  $control daemon-reload
  $control enable --now covey.service
  if [ -z "$everyone" ]; then
    say 'it runs while you are logged in; "loginctl enable-linger" keeps it running.'
  fi
}

write_launchd() {
  {
    printf '<?xml version="1.0" encoding="UTF-8"?>\n'
    printf '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n'
    printf '<plist version="1.0"><dict>\n<key>Label</key><string>%s</string>\n<key>ProgramArguments</key><array>' "$label"
    for word in "$program/bin/covey" $arguments --data "$data"; do printf '<string>%s</string>' "$word"; done
    printf '</array>\n<key>RunAtLoad</key><true/>\n<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n'
    printf '<key>StandardErrorPath</key><string>%s/covey.log</string>\n</dict></plist>\n' "$data"
  } >"$unit"
  launchctl bootstrap "$domain" "$unit"
}

case $action in
  controller) arguments="controller${lend:+ $lend}" ;;
  worker) arguments=worker ;;
  uninstall) uninstall; exit 0 ;;
  *) usage ;;
esac
stop_service
place_program
[ "$action" = worker ] && join_once
if [ "$system" = Linux ]; then write_systemd; else write_launchd; fi
say "the $action is installed and runs. \"covey status\" tells how it is; \"$program/install.sh uninstall\" removes it."
