# Puts one policy file in its place, whole. Arguments: path, text, the record of folders that are ours. Runs as root.
path=$1 text=$2 record=$3
folder=$(dirname "$path")
umask 022
new=$folder
while test ! -d "$new"; do
    echo "$new" >>"$record"
    new=$(dirname "$new")
done
mkdir -p "$folder"
# The browser reads every file in that folder, so the draft is written beside the folder and moved in whole. Under a
# umask of 077 it could not read the policy, and would not say so.
draft=$(mktemp "$(dirname "$folder")/paddock.XXXXXX")
trap 'rm -f "$draft"' EXIT
printf '%s' "$text" >"$draft"
chmod 0644 "$draft"
mv -fT "$draft" "$path"
