"""Whether the model is there, whole and verified; if not, how to get it."""

from __future__ import annotations

from roles import job
from roles.host import HOST
from roles.job import Job
from roles.model.observe import MODEL, File, ModelSeen, Sidecar
from roles.observation import Observation
from roles.operation import Decision, Step
from roles.wishes import ModelPin, Wishes

DOWNLOAD_SECONDS = 24 * 3600
DOWNLOAD_MEMORY = 512 << 20  # bytes; curl and sha256sum need a few MB, the rest is page cache
DISK_MARGIN = 1 << 30  # bytes left free beside the model

DOWNLOAD = """
path=$1 url=$2 size=$3 sha256=$4
part=$path.part secret=$XDG_RUNTIME_DIR/paddock-download.secret
header=$(cat "$secret" 2>/dev/null || true)
rm -f "$secret"
mkdir -p "$(dirname "$path")"
try=0
while test "$(stat -c %s "$part" 2>/dev/null || echo 0)" -lt "$size"; do
    try=$((try + 1))
    test $try -le 8 || fail "the download broke off $((try - 1)) times; what has come is kept"
    test $try = 1 || sleep $((try * 2))
    # The token goes to curl on standard input, and curl gives it to no other host than the URL's. A server that
    # ignores the range would start the file anew in its middle; curl then fails with 33 or 36: the part is given up.
    status=0
    printf 'url = "%s"\\n%s\\n' "$url" "$header" | curl --config - --location --fail --silent --show-error \\
        --connect-timeout 30 --speed-limit 1 --speed-time 60 --continue-at - --output "$part" || status=$?
    case $status in
    0 | 18 | 28 | 52 | 55 | 56) ;;
    22) fail "the Hub refuses the file; what it answered is in the log" ;;
    33 | 36) rm -f "$part" ;;
    23) fail "the disk is full or not writable: $part" ;;
    *) echo "curl ended with $status" ;;
    esac
done
found=$(sha256sum "$part" | cut -d' ' -f1)
if test "$found" != "$sha256"; then
    mv -f "$part" "$path.bad"
    fail "the file that came has sha256 $found and not $sha256; it was moved to $path.bad"
fi
chmod 0644 "$part"
mtime_ns=$(python3 -c 'import os, sys; print(os.stat(sys.argv[1]).st_mtime_ns)' "$part")
printf '{"sha256": "%s", "size": %s, "mtime_ns": %s}\\n' "$sha256" "$size" "$mtime_ns" >"$path.json.new"
mv -f "$path.json.new" "$path.json"
mv -f "$part" "$path"
"""


def present(wishes: Wishes, token: str | None, observation: Observation) -> Decision:
    """The model's file is on the host and is the one that was pinned. `token`: for the Hub, where it wants one."""
    seen = observation[MODEL]
    if wishes.model is None:
        return Decision(observation, refusal=_given(seen))
    if seen.verified == wishes.model.sha256:
        return Decision(observation)
    lacking = wishes.model.size - min(seen.part_size, wishes.model.size)
    if seen.disk_free < lacking + DISK_MARGIN:
        return Decision(
            observation,
            refusal=f"{wishes.model.file} needs {_gb(lacking)} more and {_gb(DISK_MARGIN)} to spare, and"
            f" {_gb(seen.disk_free)} are free at {seen.path}",
        )
    if not observation[HOST].commands.get("curl"):
        return Decision(observation, refusal="no curl to download the model with; run the packages role first")
    return _download(wishes.model, token, lacking, observation)


def _download(pin: ModelPin, token: str | None, lacking: int, observation: Observation) -> Decision:
    seen = observation[MODEL]
    download = Job(
        name="download",
        title=pin.file.rsplit("/", 1)[-1],
        text=DOWNLOAD,
        args=(seen.path, pin.url, str(pin.size), pin.sha256),
        seconds=DOWNLOAD_SECONDS,
        memory=DOWNLOAD_MEMORY,
        watch=seen.path + ".part",
        total=pin.size,
        secret=f'header = "Authorization: Bearer {token}"' if token else "",
    )
    why = "it is not what was pinned" if seen.file else "it is not on the host"
    resumed = f", {_gb(lacking)} of it still to come" if seen.part_size else ""
    file = File(kind="file", mode=0o644, uid=observation[HOST].uid, size=pin.size, mtime_ns=0)
    after = observation.replace(
        MODEL, file=file, is_gguf=True, sidecar=Sidecar(sha256=pin.sha256, size=pin.size, mtime_ns=0), part_size=0
    )
    return Decision(
        after,
        reasons=(f"download {pin.file} from {pin.repo} ({_gb(pin.size)}{resumed}): {why}",),
        steps=(Step(f"download {pin.file}", job.follow(download)),),
    )


def _given(seen: ModelSeen) -> str | None:
    """What is wrong with a file that the inventory says is there."""
    if seen.file is None:
        return f"model_path={seen.path!r} does not exist on the host"
    if seen.file.kind != "file":
        return f"model_path={seen.path!r} is not a file"
    if not seen.is_gguf:
        return f"model_path={seen.path!r} is not a GGUF, or cannot be read"
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
