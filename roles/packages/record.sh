# Which packages came by Paddock, for the day when it is removed. Wants: manager, and the folder of the record.
every_package() {
    case $manager in
    apt) dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' | sed -n 's/^installed //p' ;;
    dnf) rpm -qa --qf '%{NAME}.%{ARCH}\n' ;;
    pacman) pacman -Qq ;;
    esac | sort
}

# What a lost connection left at work goes on, and would settle the same list: one after the other. The lock is on the
# folder itself, and what a package starts does not inherit it (9<&-).
alone() {
    exec 9<"$record"
    flock 9
}

# A list that a killed installation left stands: what came since then came by us.
begin_record() {
    alone
    test ! -s "$record/packages.before" || return 0
    every_package >"$record/.before"
    mv -f "$record/.before" "$record/packages.before"
}

settle_record() {
    test -s "$record/packages.before" || return 0
    touch "$record/packages"
    every_package | comm -13 "$record/packages.before" - | sort -u - "$record/packages" >"$record/.packages"
    mv -f "$record/.packages" "$record/packages"
    rm -f "$record/packages.before"
}

erase() {
    case $manager in
    apt) DEBIAN_FRONTEND=noninteractive dpkg --purge "$@" ;;
    dnf) rpm -e "$@" ;;
    pacman) pacman -Rn --noconfirm "$@" ;;
    esac 9<&-
}

# What something else needs by now stays: none of these tools takes it away.
remove_packages() {
    left=$(every_package | comm -12 - "$record/packages" | tr '\n' ' ')
    said=$(test -z "$left" || erase $left 2>&1) && left=
    case $said in *"is locked"* | *"unable to lock"* | *" lock "*) fail "another package manager is at work; run again" ;; esac
    while test -n "$left"; do
        again=
        for name in $left; do erase "$name" >/dev/null 2>&1 || again="$again$name "; done
        test "$again" != "$left" || break
        left=$again
    done
    rm -f "$record/packages"
}
