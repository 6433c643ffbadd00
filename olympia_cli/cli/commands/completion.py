from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia completion bash > ~/.local/share/bash-completion/completions/olympia",
    "olympia completion zsh > ~/.zfunc/_olympia",
    "olympia completion fish > ~/.config/fish/completions/olympia.fish",
]


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def run(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> None:
    """Print the completion script for a shell.

    Load the script in the shell, or save it in a folder where the shell looks for completions (zsh: one of its fpath).
    Names from the catalog are inserted quoted, so that the shell takes each character literally.
    """
    session, script = Session(ctx), SCRIPTS[shell]
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"shell": shell.value, "script": script})
        return
    with session.out() as out:
        out.write(script)


BASH = r"""# bash completion for olympia

_olympia() {
    local kind line
    COMPREPLY=()
    {
        IFS= read -r kind || return 0
        if [[ $kind == words ]]; then
            # each line is escaped already, and becomes one word
            while IFS= read -r line; do COMPREPLY+=("$line"); done
        elif [[ $kind == files ]]; then
            compopt -o default +o nospace 2>/dev/null
        elif [[ $kind == folders ]]; then
            compopt -o dirnames +o nospace 2>/dev/null
        fi
    } < <(command olympia __complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    return 0
}

complete -o nospace -F _olympia olympia
"""

ZSH = r"""#compdef olympia
# zsh completion for olympia

_olympia() {
    local -a lines words_before finished unfinished finished_shown unfinished_shown
    local line word shown one_a_line
    (( CURRENT > 2 )) && words_before=("${(@Q)words[2,CURRENT-1]}")
    # with the quote closed, quotes are taken off the word as off the others; nothing is expanded
    word=$QIPREFIX$PREFIX$compstate[quote]
    # split at line ends only; compadd quotes what it inserts
    lines=("${(@f)$(command olympia __complete zsh -- "${words_before[@]}" "${(Q)word}" 2>/dev/null)}")
    case $lines[1] in
        files) [[ -n $lines[2] ]] && compset -P "${(b)lines[2]}"; _files; return ;;
        folders) [[ -n $lines[2] ]] && compset -P "${(b)lines[2]}"; _files -/; return ;;
        words) ;;
        *) return 1 ;;
    esac
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\t'*} shown=${line#*$'\t'}
        [[ -n $shown ]] && one_a_line=-l
        shown="$word${shown:+  -- $shown}"
        # more follows after the dot of a namespace
        if [[ $word == *. ]]; then
            unfinished+=("$word") unfinished_shown+=("$shown")
        else
            finished+=("$word") finished_shown+=("$shown")
        fi
    done
    local -i found=1
    (( $#finished )) && compadd $one_a_line -d finished_shown -a -- finished && found=0
    (( $#unfinished )) && compadd $one_a_line -S '' -d unfinished_shown -a -- unfinished && found=0
    return found
}

if [[ $funcstack[1] == _olympia ]]; then
    _olympia "$@"
else
    compdef _olympia olympia
fi
"""

FISH = r"""# fish completion for olympia

function __olympia_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l word $typed
    # a quote that is open yet is closed, so that fish takes quotes and escapes off; nothing is expanded
    for quote in '' "'" '"'
        if set -l plain (string unescape -- "$typed$quote" 2>/dev/null)
            set word $plain
            break
        end
    end
    # fish escapes what it inserts; the lines are neither expanded nor split
    set -l lines (command olympia __complete fish -- $before[2..-1] "$word" 2>/dev/null)
    switch "$lines[1]"
        case words
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
        case files folders
            set -l path (string sub -s (math (string length -- "$lines[2]") + 1) -- "$word")
            if test $lines[1] = files
                __fish_complete_path "$path"
            else
                __fish_complete_directories "$path" ''
            end | while read -l line
                printf '%s\n' "$lines[2]$line"
            end
    end
end

complete -c olympia -f -a '(__olympia_complete)'
"""

SCRIPTS = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}
