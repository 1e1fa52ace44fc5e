# Stops a service of the system's for the seconds of a plan, and starts it again; whatever happens to this run, a timer of
# systemd's does that too. Runs as root. Argument: stop or start.
unit=paddock-llama-server.service timer=paddock-resume
case $1 in
stop)
    systemctl -q is-active "$unit" || exit 0
    systemctl -q is-active "$timer.timer" ||
        systemd-run --quiet --collect --unit="$timer" --on-active=300 systemctl start "$unit"
    systemctl stop "$unit"
    ;;
start)
    systemctl -q is-active "$timer.timer" || exit 0 # it was not stopped by us
    systemctl start "$unit"
    systemctl stop "$timer.timer"
    ;;
esac
