#!/bin/sh
# Installs Covey without a window as a service of this system (systemd or launchd), or takes it away again.
#
#   ./install.sh controller [--lend]             lead a covey; --lend: this machine computes too
#   ./install.sh worker                          lend this machine; "covey join" says to whom, when it is up
#   ./install.sh worker --join -                 by the join string on standard input ("covey invite" prints one)
#   ./install.sh worker --controller HOST[:PORT] ask this controller, and compare the number that both show;
#                                                with --join -: try this address before those of the string
#   ./install.sh uninstall [--keep-data|--purge] remove the service and the program; on a terminal it asks
#                                                whether identity, settings and models go too
#
# As root it serves the whole machine: program in /opt/covey, data in /var/lib/covey, a user of its own.
# As somebody else it serves them alone: program in ~/.local/opt/covey, data in the usual place.
set -eu

say() { printf 'covey: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() {
  [ $# -eq 0 ] || say "$*"
  sed -n '2,/^set -eu$/{/^set -eu$/d;s/^# \{0,1\}//p;}' "$0" >&2
  exit 2
}

source_directory=$(cd "$(dirname "$0")" && pwd -P)
action=${1:-}
case $action in
  controller | worker | uninstall) shift ;;
  '' | -h | --help) usage ;;
  *) usage "there is no \"$action\" here." ;;
esac
lend='' join='' controller='' data_wish=''
while [ $# -gt 0 ]; do
  case $action:$1 in
    controller:--lend) lend=--lend ;;
    worker:--join)
      [ "${2:-}" = - ] || fail '--join takes "-" only: a join string among the arguments is seen by everybody here. It is read from standard input.'
      join=yes
      shift
      ;;
    worker:--controller)
      controller=${2:-}
      case $controller in
        '' | -* | *[!A-Za-z0-9.:_%\[\]-]*) fail '--controller must be HOST or HOST:PORT.' ;;
      esac
      shift
      ;;
    uninstall:--keep-data) data_wish=keep ;;
    uninstall:--purge) data_wish=purge ;;
    *) usage "\"$1\" is not for \"$action\"." ;;
  esac
  shift
done

system=$(uname -s)
if [ "$(id -u)" = 0 ]; then
  everyone=yes program=/opt/covey link=/usr/local/bin/covey
else
  everyone='' program=$HOME/.local/opt/covey link=$HOME/.local/bin/covey
fi
# Whom the service runs as, where that is somebody else than who runs this script.
owner=''
case $system in
  Linux)
    if [ -n "$everyone" ]; then
      data=/var/lib/covey owner=covey
      unit=/etc/systemd/system/covey.service target=multi-user.target
    else
      data=${XDG_DATA_HOME:-$HOME/.local/share}/covey
      unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/covey.service target=default.target
    fi
    ;;
  Darwin)
    label=org.covey.service
    if [ -n "$everyone" ]; then
      data='/Library/Application Support/Covey' owner=${SUDO_USER:-}
      unit=/Library/LaunchDaemons/$label.plist domain=system
    else
      data="$HOME/Library/Application Support/Covey"
      unit=$HOME/Library/LaunchAgents/$label.plist domain=gui/$(id -u)
    fi
    ;;
  *) fail 'this script knows Linux and macOS; on Windows use install.ps1.' ;;
esac

control() {
  if [ -n "$everyone" ]; then systemctl "$@"; else systemctl --user "$@"; fi
}

# Whether there is a systemd to talk to: in containers, and in sessions without one, there is only its command or not
# even that.
manager_runs() {
  command -v systemctl >/dev/null 2>&1 && control daemon-reload >/dev/null 2>&1
}

stop_service() {
  [ -e "$unit" ] || return 0
  if [ "$system" = Darwin ]; then
    launchctl bootout "$domain/$label" >/dev/null 2>&1 || true
  elif manager_runs; then
    control disable --now covey.service >/dev/null 2>&1 || true
  fi
}

uninstall() {
  if [ -z "$data_wish" ] && [ -t 0 ] && [ -d "$data" ]; then
    printf 'Remove its data too: identity, settings and models in %s? [y/N] ' "$data" >&2
    answer=''
    IFS= read -r answer || true
    case $answer in [yY] | [yY][eE][sS]) data_wish=purge ;; esac
  fi
  stop_service
  rm -f "$unit"
  if [ "$system" = Linux ]; then manager_runs || true; fi
  case $(readlink "$link" 2>/dev/null || true) in "$program"/*) rm -f "$link" ;; esac
  rm -rf "$program" "$program.new"
  if [ "$data_wish" = purge ]; then
    rm -rf "$data"
    if [ "$owner" = covey ] && id covey >/dev/null 2>&1; then userdel covey || true; fi
    say 'removed, with its data.'
  else
    say "removed. What it knew and its models are still in $data; \"uninstall --purge\" removes them."
  fi
}

check_source() {
  [ -x "$source_directory/bin/node" ] || fail "run this from the unpacked archive: $source_directory/bin/node is missing."
  "$source_directory/bin/covey" --version >/dev/null || fail 'the program does not run on this system.'
}

place_program() {
  if [ "$source_directory" != "$program" ]; then
    rm -rf "$program.new"
    mkdir -p "$program.new"
    cp -R "$source_directory/." "$program.new/"
    rm -rf "$program"
    mv "$program.new" "$program"
  fi
  mkdir -p "$(dirname "$link")" "$(dirname "$unit")" "$data"
  ln -sf "$program/bin/covey" "$link"
  if [ "$owner" = covey ]; then
    id covey >/dev/null 2>&1 || useradd --system --home-dir "$data" --shell /usr/sbin/nologin covey
    for group in video render; do
      if getent group "$group" >/dev/null 2>&1; then usermod -aG "$group" covey || true; fi
    done
  fi
  if [ -n "$owner" ]; then chown "$owner:" "$data"; fi
  chmod 700 "$data"
}

# The join string works once, so the worker joins here, before the service starts. It stands in no argument list.
join_once() {
  if [ -t 0 ]; then printf 'Join string: ' >&2; fi
  string=''
  IFS= read -r string || true
  [ -n "$string" ] || fail 'no join string came on standard input.'
  log=$(mktemp)
  # In the data directory: who joins must be able to write it.
  ready=$data/ready.json
  rm -f "$ready"
  set -- "$program/bin/covey" worker --data "$data" --join - --api none --no-discovery --ready-file "$ready"
  if [ -n "$controller" ]; then set -- "$@" --controller "$controller"; fi
  if [ -n "$owner" ]; then
    if [ "$system" = Linux ]; then set -- runuser -u "$owner" -- "$@"; else set -- sudo -u "$owner" -- "$@"; fi
  fi
  printf '%s\n' "$string" | "$@" >"$log" 2>&1 &
  joining=$!
  waited=0
  while [ ! -e "$ready" ] && kill -0 "$joining" 2>/dev/null && [ "$waited" -lt 60 ]; do
    sleep 1
    waited=$((waited + 1))
  done
  if [ -e "$ready" ]; then
    # The worker itself: what was started may be a shell around it.
    pid=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$ready")
    kill "$pid" 2>/dev/null || true
    wait "$joining" 2>/dev/null || true
    rm -f "$ready" "$log"
    say 'joined.'
  else
    kill "$joining" 2>/dev/null || true
    sed -n -e '/^covey:/p' -e '/^error:/p' "$log" >&2
    rm -f "$log"
    fail 'this machine could not join. What was installed stays; "uninstall" removes it.'
  fi
}

# In quotes, with what systemd would take for its own escaped (systemd.syntax(7), systemd.unit(5)).
for_systemd() {
  case $1 in
    *[!A-Za-z0-9./_-]*) printf '"%s"' "$(printf '%s' "$1" | sed 's/["\\]/\\&/g; s/%/%%/g; s/\$/$$/g')" ;;
    *) printf '%s' "$1" ;;
  esac
}

write_systemd() {
  {
    printf '[Unit]\nDescription=Covey %s\nWants=network-online.target\nAfter=network-online.target\n\n[Service]\nExecStart=' "$action"
    # systemd takes no quotes in the name of what it starts; `env` takes any.
    case $program in *[!A-Za-z0-9./_-]*) printf '/usr/bin/env ' ;; esac
    for_systemd "$program/bin/covey"
    printf ' %s --data ' "$arguments"
    for_systemd "$data"
    printf '\nRestart=on-failure\nRestartSec=5\nTimeoutStopSec=20\nKillMode=mixed\nUMask=0077\n'
    if [ -n "$owner" ]; then
      printf 'User=%s\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nReadWritePaths=%s\n' "$owner" "$data"
    fi
    printf '\n[Install]\nWantedBy=%s\n' "$target"
  } >"$unit"
  if ! manager_runs; then
    say "systemd does not run here, so nothing was started. The unit is $unit; without systemd, this runs it:"
    say "  $program/bin/covey $arguments --data $data"
    return 1
  fi
  control enable --now covey.service
  if [ -z "$everyone" ]; then
    say 'it runs while you are logged in; "loginctl enable-linger" keeps it running.'
  fi
}

for_xml() { printf '%s' "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'; }

write_launchd() {
  {
    printf '<?xml version="1.0" encoding="UTF-8"?>\n'
    printf '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n'
    printf '<plist version="1.0"><dict>\n<key>Label</key><string>%s</string>\n<key>ProgramArguments</key><array>' "$label"
    # The role's words hold no space.
    for word in "$program/bin/covey" $arguments --data "$data"; do
      printf '<string>%s</string>' "$(for_xml "$word")"
    done
    printf '</array>\n<key>RunAtLoad</key><true/>\n<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n'
    if [ -n "$owner" ]; then printf '<key>UserName</key><string>%s</string>\n' "$(for_xml "$owner")"; fi
    printf '<key>Umask</key><integer>63</integer>\n'
    printf '<key>StandardErrorPath</key><string>%s/covey.log</string>\n</dict></plist>\n' "$(for_xml "$data")"
  } >"$unit"
  launchctl bootstrap "$domain" "$unit"
}

# By the number that both sides show: people are needed for it, here too.
join_by_number() {
  if [ ! -t 0 ]; then
    say "to join, run here: covey join $controller --data \"$data\""
    return 0
  fi
  waited=0
  until "$program/bin/covey" status --data "$data" >/dev/null 2>&1 || [ "$waited" -ge 30 ]; do
    sleep 1
    waited=$((waited + 1))
  done
  "$program/bin/covey" join "$controller" --data "$data" || say "not joined. To try again, run here: covey join $controller --data \"$data\""
}

if [ "$action" = uninstall ]; then
  uninstall
  exit 0
fi
arguments=$action${lend:+ $lend}
check_source
stop_service
place_program
if [ -n "$join" ]; then join_once; fi
runs=yes
if [ "$system" = Linux ]; then write_systemd || runs=''; else write_launchd; fi
if [ -z "$runs" ]; then
  say "the $action is installed, and does not run yet. \"$program/install.sh uninstall\" removes it."
  exit 0
fi
say "the $action is installed and runs. \"covey status --data '$data'\" tells how it is; \"$program/install.sh uninstall\" removes it."
if [ "$action" = worker ] && [ -z "$join" ]; then
  if [ -n "$controller" ]; then
    join_by_number
  else
    say "it belongs to no covey yet, unless it did before: run \"covey join --data '$data'\" here."
  fi
fi
