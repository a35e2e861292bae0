# SPDX-License-Identifier: Apache-2.0
# Bash completion of dovetail: commands, a command's options and their choices, and the names of shipped files.
# All is asked of the program itself, so nothing here needs to follow its options.

_dovetail_names() {  # PROGRAM FOLDER...: names of the files in data/FOLDER
  local program=$1 data folder file
  shift
  data=$("$program" doctor 2>/dev/null | sed -n 's/^  folder  *//p')
  for folder in "$@"; do
    for file in "$data/$folder"/*.json; do
      [ -e "$file" ] && basename "$file" .json
    done
  done
}

_dovetail_settings() {  # PROGRAM: all that --set takes, as KEY=VALUE|VALUE or KEY=
  "$1" plan --settings 2>/dev/null | sed -n 's/^  \([a-z][a-z0-9_.]*=[^ ]*\)$/\1/p'
}

_dovetail_values() {  # PROGRAM KEY: the named values of a key
  _dovetail_settings "$1" | sed -n "s/^${2//./\\.}=//p" | tr '|' ' '
}

_dovetail() {
  local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-} current=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]} words= key=
  # Bash takes KEY=VALUE for three words.
  if [ "$current" = = ]; then
    key=$previous current=
  elif [ "$previous" = = ]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [ -n "$key" ]; then
    words=$(_dovetail_values "$program" "$key")
  elif [ "$COMP_CWORD" -eq 1 ]; then
    words="$("$program" --help | sed -n '/^Commands/,$ s/^  \([a-z]\+\) .*/\1/p') --help --version"
  else
    case $previous in
      --cluster) words=$(_dovetail_names "$program" clusters) ;;
      --model) words=$(_dovetail_names "$program" models) ;;
      --calibration) words=$(_dovetail_names "$program" calibrations) ;;
      --set) words=$(_dovetail_settings "$program" | sed 's/=.*/=/') ;;
      --steps) words=$(_dovetail_names "$program" steps) ;;
      --operators) words=$(_dovetail_names "$program" operators) ;;
      --system | --systems) words=$(_dovetail_names "$program" systems) ;;
      --*) words=$("$program" "$command" --help 2>/dev/null | sed -n "s/^  ${previous} \([a-z]\+|[a-z|]*\) .*/\1/p" | tr '|' ' ') ;;
    esac
    [ "$command" = reproduce ] && [ -z "$words" ] && words="$(_dovetail_names "$program" published) steps operators"
    case $current in
      -*) words=$("$program" "$command" --help 2>/dev/null | sed -n 's/^  \(-[-a-zA-Z,]*\).*/\1/p' | tr ',' ' ') ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [ "${#COMPREPLY[@]}" -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

complete -o filenames -F _dovetail dovetail
