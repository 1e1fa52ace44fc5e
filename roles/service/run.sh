# Writes the unit, restarts it, and proves what came up; otherwise the last unit that was proved comes back. Arguments:
# unit, its text, its stamp, release, URL, what systemd must hold of it (NAME=VALUE, a line each), context, seconds to
# wait for the model, whether it starts at boot (yes or no), file of API keys (or nothing).
unit=$1 text=$2 stamp=$3 release=$4 url=$5 held=$6 context=$7 seconds=$8 autostart=$9
shift 9
keys=$1
folder=$HOME/.config/systemd/user data=$HOME/.local/share/paddock
umask 022
mkdir -p "$folder" "$data"
# A controller may be gone while its script still waits here: two of them must not write over each other.
exec 8>"$data/service.lock"
flock -w "$seconds" 8 || fail "another run has been waiting for the service for $seconds s"
proved=$(cat "$data/proved" 2>/dev/null || true)
if test -n "$proved" && grep -qs "PADDOCK_STAMP=$proved\$" "$folder/$unit"; then cp "$folder/$unit" "$data/last-good"; fi
was_disabled=no
if test -s "$data/last-good" && test "$(systemctl --user is-enabled "$unit" 2>/dev/null)" = disabled; then was_disabled=yes; fi
if test "$(cat "$folder/$unit" 2>/dev/null; echo .)" != "$text."; then
    printf '%s' "$text" >"$folder/.$unit.new"
    mv -fT "$folder/.$unit.new" "$folder/$unit"
fi
show() { systemctl --user show --property="$1" --value "$unit"; }
still_ours() {
    grep -qs "PADDOCK_STAMP=$stamp\$" "$folder/$unit" || fail "another run has replaced the unit meanwhile"
}
complain() {
    said=$(journalctl --user --unit "$unit" --since "$began" --output cat --no-pager 2>/dev/null |
        grep -iE 'error|fail|unable|invalid|what\(\)' | head -n 1 | cut -c 1-300)
    back=
    still_ours
    # What worked before goes on working: the last unit that was seen to answer, unless it is this very one.
    if test -s "$data/last-good" && ! cmp -s "$data/last-good" "$folder/$unit"; then
        mv -fT "$data/last-good" "$folder/$unit"
        systemctl --user daemon-reload
        systemctl --user reset-failed "$unit" 2>/dev/null || true
        systemctl --user restart "$unit" && back="; the former service was started again"
    fi
    fail "$1${said:+: $said} (journalctl --user -u $unit)$back"
}
# On standard input: the key shows up in no process list. Never through a proxy: the server is on this machine.
ask() {
    printf 'header = "Authorization: Bearer %s"\n' "$key" |
        curl --config - --noproxy '*' --fail --silent --show-error "$@"
}
key=none
if test -n "$keys"; then key=$(grep -v -e '^[[:space:]]*#' -e '^[[:space:]]*$' -e '["\\]' "$keys" | head -n 1); fi
systemctl --user daemon-reload
# One that somebody disabled runs until the next boot, as they want it.
case $autostart/$was_disabled in
yes/no) systemctl --user enable --quiet "$unit" ;;
no/*) systemctl --user disable --quiet "$unit" ;;
esac
systemctl --user reset-failed "$unit" 2>/dev/null || true
began=$(date '+%Y-%m-%d %H:%M:%S')
systemctl --user restart "$unit" || complain "llama-server could not be started"
# The user's own drop-in has the last word.
if ! show DropInPaths | grep -q "/$unit\.d/"; then
    other=$(printf '%s\n' "$held" | while IFS='=' read -r name value; do
        test "$(show "$name")" = "$value" || { echo "systemd holds $name=$(show "$name") and not $value"; break; }
    done)
    test -z "$other" || complain "$other"
fi
deadline=$(($(date +%s) + seconds))
until ask --max-time 5 --output /dev/null "$url/health" 2>/dev/null; do
    case $(show ActiveState) in failed | inactive) complain "llama-server stopped ($(show Result))" ;; esac
    test "$(show NRestarts)" -lt 3 || complain "llama-server stops again and again"
    test "$(date +%s)" -lt $deadline || complain "llama-server did not answer within $seconds s"
    touch -c "$data/run.lock"
    sleep 0.5
done
answer=$(ask --max-time 300 --header 'Content-Type: application/json' \
    --data '{"prompt": "Hello", "n_predict": 4, "temperature": 0}' "$url/completion") || complain "no completion"
case $answer in *'"tokens_predicted":'[1-9]*) ;; *) complain "the completion came back empty" ;; esac
if test -n "$keys"; then
    code=$(curl --noproxy '*' --silent --max-time 30 --output /dev/null --write-out '%{http_code}' "$url/props") || true
    test "$code" = 401 || complain "llama-server answers without a key (HTTP $code)"
fi
served=$(ask --max-time 30 "$url/props" | python3 -c '
import json, sys
print(json.load(sys.stdin)["default_generation_settings"]["n_ctx"])') || complain "/props does not tell the context"
test "$served" -ge "$context" || complain "llama-server serves a context of $served and not $context tokens: the model knows no more"
still_ours
# Only now is it what was wanted: a run that dies before this line leaves a service that the next run proves again.
printf '%s\n' "$stamp" >"$data/.proved.new"
mv -fT "$data/.proved.new" "$data/proved"
ln -sfn "releases/$release" "$data/current"
