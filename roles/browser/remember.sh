# Adds one line to the host's history of what browsers held of the VRAM. Arguments: the record, a JSON object.
folder=$HOME/.local/share/paddock
mkdir -p "$folder"
printf '{"time": "%s", %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${1#\{}" >>"$folder/browser.jsonl"
