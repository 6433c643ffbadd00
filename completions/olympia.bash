# bash completion for olympia

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
