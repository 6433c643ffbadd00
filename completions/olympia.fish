# fish completion for olympia

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
