"""That each claim of a case can fail: what its figures come from is altered, one thing at a time, and judged again.

A case's mutations.py says what is altered. It is run after the case, on what that has left, which stays as it is."""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable


@dataclasses.dataclass
class Mutation:
    """ALTER takes the text of each file that FILES (a pattern within the case's folder) names and gives another one.
    CLAIMS are parts of the names of claims, each of which has to fail; what is WRONG is said in words."""
    wrong: str
    files: str
    alter: Callable[[str], str]
    claims: list[str]


def in_json(alter):
    """Of a function that alters a JSON document in its place, one that alters its text."""
    def text(before):
        document = json.loads(before)
        alter(document)
        return json.dumps(document)
    return text


def in_lines(alter):
    """Of a function that alters the list of lines, one that alters the text."""
    return lambda before: '\n'.join(alter(before.splitlines())) + '\n'


def judged(compare, folder):
    """The claims, by name: whether each holds. COMPARE gives the judging command of a folder."""
    (folder / 'result.json').unlink(missing_ok=True)
    done = subprocess.run([sys.executable, *map(str, compare(folder))], capture_output=True, text=True)
    try:
        claims = json.loads((folder / 'result.json').read_text())['claims']
    except FileNotFoundError:
        sys.exit(f'nothing was judged: {done.stderr}')
    if done.returncode != any(not one['ok'] for one in claims):
        sys.exit(f'exit status {done.returncode}, but {[one["name"] for one in claims if not one["ok"]]} failed: {done.stderr}')
    return {one['name']: one['ok'] for one in claims}


def falsify(out, compare, reads, mutations, judges_nothing=()):
    """Judges copies of what OUT has left: READS are patterns of the files that judging reads. Prints a table, and exits 1
    where a mutation leaves a claim standing that it has to fell, or a claim is felled by none.

    JUDGES_NOTHING are those of `mutations` that alter what this run has not got (the machine has no published figures,
    say); they are named as not judged."""
    out = pathlib.Path(out).resolve()
    files = sorted({path.relative_to(out) for pattern in reads for path in out.glob(pattern) if path.is_file()})
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / out.name
        for file in files:
            (folder / file.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(out / file, folder / file)
        names = judged(compare, folder)
        # What fails already shows that it can, and is not told again and again.
        fallen, standing = {name for name, ok in names.items() if not ok}, []
        print(f'{"What is made wrong":64} claims that fail')
        for mutation in mutations:
            if mutation in judges_nothing:
                print(f'{mutation.wrong:64} NOT JUDGED')
                continue
            matching = [file for file in files if (folder / file).match(mutation.files)]
            assert matching, f'no file is {mutation.files}'
            for file in matching:
                before = (folder / file).read_bytes().decode('utf-8', 'surrogateescape')
                (folder / file).write_bytes(mutation.alter(before).encode('utf-8', 'surrogateescape'))
            failed = [name for name, ok in judged(compare, folder).items() if not ok]
            for file in matching:
                shutil.copy(out / file, folder / file)
            failed = [name for name in failed if names.get(name, True) or any(claim in name for claim in mutation.claims)]
            fallen.update(failed)
            missed = [claim for claim in mutation.claims if not any(claim in name for name in failed)]
            standing += [f'"{claim}" holds though {mutation.wrong}' for claim in missed]
            for at, name in enumerate(failed or ['NONE']):
                print(f'{"" if at else mutation.wrong:64} {name}')
        never = [name for name in names if name not in fallen]
        print(f'{len(names) - len(never)} of {len(names)} claims fail where what they are about is wrong')
        standing += [f'"{name}" is felled by no mutation' for name in never]
    if standing:
        sys.exit('claims that do not fail: ' + '; '.join(standing))
