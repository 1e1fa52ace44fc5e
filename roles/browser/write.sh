# Puts one policy file in its place, whole. Arguments: path, text. Runs as root.
path=$1 text=$2
folder=$(dirname "$path")
umask 022
mkdir -p "$folder"
draft=$(mktemp "$(dirname "$folder")/paddock.XXXXXX")
printf '%s' "$text" >"$draft"
chmod 0644 "$draft"
mv -fT "$draft" "$path"
