# Goes to the last good service, and remembers that the present one was not good enough. Arguments: paddock-switch; why;
# the folder of Paddock's data; all services that were taken back, by stamp; a line for the history of benchmarks; that
# file.
"$1" rollback "$2"
printf '%s\n' "$4" > "$3/rejected.json.new"
mv "$3/rejected.json.new" "$3/rejected.json"
history=$HOME${6#"~"}
# A leading line break where the last writer was killed in the middle.
test ! -s "$history" || test -z "$(tail -c 1 "$history")" || echo >> "$history"
printf '%s\n' "$5" >> "$history"
