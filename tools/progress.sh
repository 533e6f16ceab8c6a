# Shows the progress of a command that would otherwise run silently for minutes. Sourced by `run`.
#
# progress LABEL LOG COMMAND…: runs COMMAND with its output in LOG. A terminal shows one line, redrawn each second: the
# label, the last line of the log, the time since the start. Without a terminal a line is printed each 30 seconds. LOG
# is kept; if COMMAND fails, its last 60 lines are printed, and its exit code is returned.
progress() {
  local label=$1 log=$2 begin=$SECONDS code=0 watcher
  shift 2
  mkdir -p "$(dirname "$log")"
  : >"$log"
  [ -t 2 ] || echo "run: $label" >&2
  # The command stays in the foreground, so that Ctrl-C reaches it.
  watch_log "$label" "$log" "$$" &
  watcher=$!
  "$@" >>"$log" 2>&1 </dev/null || code=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [ -t 2 ] && printf '\r\033[K' >&2
  if [ "$code" -ne 0 ]; then
    tail -n 60 "$log" >&2
    echo "run: $label: failed after $(clock_text $((SECONDS - begin))); the whole log is $log" >&2
    return "$code"
  fi
  echo "run: $label: done in $(clock_text $((SECONDS - begin)))" >&2
}

# clock_text SECONDS: such as 1:05.
clock_text() {
  printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

# watch_log LABEL LOG PARENT: shows the last line of LOG until it is killed or PARENT has ended.
watch_log() {
  local label=$1 log=$2 parent=$3 begin=$SECONDS pause=30 sleeper line width
  # A shell that waits for a child handles a signal at once.
  trap 'kill "$sleeper" 2>/dev/null; exit 0' TERM
  [ -t 2 ] && pause=1
  while true; do
    sleep "$pause" &
    sleeper=$!
    wait "$sleeper"
    kill -0 "$parent" 2>/dev/null || return
    # Removes the common prefix of Ninja's lines and all control characters.
    line=$(tail -c 2000 "$log" | tr '\r' '\n' | tr -cd '[:print:]\n' | grep -v '^ *$' | tail -n 1 |
      sed -E 's/Building [A-Z]+ object //; s,CMakeFiles/([^/]*)\.dir/,\1: ,; s/^\[([0-9]+\/[0-9]+)\]/\1/')
    if [ "$pause" -eq 1 ]; then
      width=$(tput cols 2>/dev/null || echo 80)
      printf '\r\033[K%s' "$(cut -c "1-$((width - 1))" <<<"run: $label, $(clock_text $((SECONDS - begin))): $line")" >&2
    else
      echo "run: $label, $(clock_text $((SECONDS - begin))): $line" >&2
    fi
  done
}
