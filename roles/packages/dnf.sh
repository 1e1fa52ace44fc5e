# Installs packages, upgrades none. Runs as root. Arguments: in one word the names that may be missing; all others.
optional=$1
shift
wanted=
for name; do
    # With best=True, as on RHEL and in dnf 5, what is there and old would be upgraded.
    rpm -q --whatprovides "$name" >/dev/null 2>&1 || wanted="$wanted $name"
done
if test -n "$wanted"; then
    status=0
    said=$(dnf -y install $wanted 2>&1) || status=$?
    printf '%s\n' "$said"
    unknown=$(printf '%s\n' "$said" | sed -n 's/^No match for argument: //p' | sort -u | tr '\n' ' ')
    test $status = 0 || test -z "$unknown" ||
        fail "dnf knows no package ${unknown% }; enable the repository that has it (RHEL and its kin: CRB, EPEL)" \
            "and run again"
    test $status = 0
fi
for name in $optional; do
    dnf -y install "$name" || echo "paddock-without $name"
done
