# shellcheck shell=bash
# For cases that measure time. Sourced by their scripts, which set `case` and `out`, and `most_of_others`: of this machine's
# CPU time, in percent. What was measured while others took more is measured again; after the third time the case is too noisy
# to judge, which is a result of its own (exit status 3).

# alone FOLDER NAME COMMAND…: runs what is measured in the world that has that folder.
alone() {
    local folder=$1 name=$2 share
    shift 2
    for _ in 1 2 3; do
        python3 cases/machine.py begin "$out/machine.json" "$folder"
        "$@"
        if share=$(python3 cases/machine.py end "$out/machine.json" "$most_of_others"); then return; fi
        echo "$name: others had $share % of this machine's CPU time meanwhile: again"
    done
    too_noisy "$name: others had $share % of this machine's CPU time, in the third try"
}

# alone_command NAME COMMAND…: runs a program that is measured with all that it starts. It prints nothing.
alone_command() {
    local name=$1 share status
    shift
    for _ in 1 2 3; do
        status=0
        share=$(python3 cases/machine.py run "$most_of_others" "$@") || status=$?
        case $status in
            0) return ;;
            1) echo "$name: others had $share % of this machine's CPU time meanwhile: again" ;;
            *) exit "$status" ;;
        esac
    done
    too_noisy "$name: others had $share % of this machine's CPU time, in the third try"
}

too_noisy() {
    # shellcheck disable=SC2154 # the case's own
    python3 cases/machine.py too-noisy "$case" "$out" "$1"
}

# folder_of WORLD: its folder.
folder_of() {
    # shellcheck disable=SC2154 # the case's own
    "$xweave" lab list --json | python3 -c 'import json, sys
print(next(of["folder"] for of in json.load(sys.stdin)["worlds"] if of["name"] == sys.argv[1]))' "$1"
}
