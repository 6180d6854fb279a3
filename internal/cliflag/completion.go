package cliflag

import (
	"fmt"
	"strings"
)

// Shells are the shells that [Program.Completion] has scripts for.
func Shells() []Candidate {
	return []Candidate{{"bash", "For ~/.bashrc"}, {"zsh", "For a folder of $fpath"}, {"fish", "For ~/.config/fish/completions"}}
}

// Completion returns the completion script of a program for bash, zsh or fish, or an error for another shell. The script calls the program with
// [CompleteCommand], without input, and hides its errors.
func (p *Program) Completion(shell string) (string, error) {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[shell]
	if script == "" {
		var names []string
		for _, s := range Shells() {
			names = append(names, s.Value)
		}
		meant := didYouMean("", shell, names)
		if meant == "" {
			meant = ": want " + Or(names)
		}
		return "", fmt.Errorf("unknown shell %q%s", shell, meant)
	}
	return strings.NewReplacer("FUNCTION", functionOf(p.Name), "PROGRAM", quote(shell, p.Name), "COMPLETE", CompleteCommand).Replace(script), nil
}

// functionOf returns the name of the shell function for a program.
func functionOf(program string) string {
	return "_kopf_" + strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, program)
}

// quote returns a text as a shell word, quoted if necessary.
func quote(shell, text string) string {
	if shell == "fish" {
		return Quoted(text, `\'`)
	}
	return Quoted(text, `'\''`)
}

// Quoted returns a text as a shell word, in single quotes if necessary. The second argument replaces single quotes in the text.
func Quoted(text, quote string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+:@%,", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", quote) + "'"
}

// bashScript joins the words that bash has split at characters such as "=" and ":", and passes them to the program. Bash replaces only the last part, so the
// script removes the earlier parts from the candidates. In bash 3.2, which has no compopt, file names become plain words.
const bashScript = `FUNCTION() {
  local rest="${COMP_LINE:0:COMP_POINT}" program="${COMP_WORDS[0]/#\~/$HOME}"
  local tab=$'\t' i n=0 part last='' line value files='' words=()
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    part="${COMP_WORDS[i]}"
    if [[ $i -eq 0 || $rest == [[:blank:]]* ]]; then
      n=${#words[@]}
      words[n]=''
    fi
    rest="${rest#"${rest%%[![:blank:]]*}"}"
    if [[ ${#part} -gt ${#rest} ]]; then part="$rest"; fi
    rest="${rest#"$part"}"
    last="$part"
    words[n]="${words[n]}${part//[\"\'\\]/}"
  done
  if [[ $last == [=:@] ]]; then last=''; fi
  last="${last//[\"\'\\]/}"
  local prefix="${words[n]%"$last"}"
  while IFS= read -r line; do
    case "$line" in
      :files) files=yes ;;
      :) ;;
      *)
        value="${line%%"$tab"*}"
        printf -v value %q "${value#"$prefix"}"
        COMPREPLY[${#COMPREPLY[@]}]="$value"
        ;;
    esac
  done < <("$program" COMPLETE "${words[@]:1}" </dev/null 2>/dev/null)
  if [[ -n $files ]] && ! compopt -o default 2>/dev/null; then
    while IFS= read -r line; do
      COMPREPLY[${#COMPREPLY[@]}]="$line"
    done < <(compgen -f -- "$last")
  fi
}
complete -F FUNCTION PROGRAM
`

// zshScript works in a folder of $fpath, as the body of the function, and when sourced.
const zshScript = `#compdef PROGRAM
FUNCTION() {
  local tab=$'\t' line value program="${${(Q)words[1]}/#\~/$HOME}"
  local -a offered before
  local files=''
  if (( CURRENT > 2 )); then before=("${(@Q)words[2,CURRENT-1]}"); fi
  while IFS= read -r line; do
    case "$line" in
      :files) files=yes ;;
      :) ;;
      *)
        value=${line%%$tab*}
        value=${value//:/\\:}
        if [[ $line == *$tab* ]]; then value="$value:${line#*$tab}"; fi
        offered+=("$value")
        ;;
    esac
  done < <("$program" COMPLETE "${before[@]}" "${(Q)PREFIX}" </dev/null 2>/dev/null)
  if (( ${#offered} )); then _describe -V 'values' offered; fi
  if [[ -n $files ]]; then
    if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
    _files
  fi
}
if [[ "${funcstack[1]}" == _PROGRAM ]]; then
  FUNCTION "$@"
else
  compdef FUNCTION PROGRAM
fi
`

const fishScript = `function FUNCTION
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r -- '^~(?=/)' "$HOME" $words[1])
    set -e words[1]
    for line in ($program COMPLETE $words "$current" </dev/null 2>/dev/null)
        switch $line
            case :files
                set -l prefix (string match -r -- '^--[^=]*=' $current; or echo '')
                for file in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current"))
                    echo "$prefix$file"
                end
            case :
            case '*'
                echo $line
        end
    end
end
complete -c PROGRAM -f -a '(FUNCTION)'
`
