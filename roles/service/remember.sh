# Remembers that a service was not good enough. Arguments: the folder of Paddock's data; all services that were taken back,
# by stamp; a line for the history of benchmarks; that file.
printf '%s\n' "$2" > "$1/rejected.json.new"
mv "$1/rejected.json.new" "$1/rejected.json"
history=$HOME${4#"~"}
# A leading line break where the last writer was killed in the middle.
test ! -s "$history" || test -z "$(tail -c 1 "$history")" || echo >> "$history"
printf '%s\n' "$3" >> "$history"
