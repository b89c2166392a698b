"""explain.py XWEAVE OUT: what is told of each request, step by step, as JSON in OUT/work/NAME.told"""
import json
import pathlib
import subprocess
import sys

XWEAVE, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
PORTS = {'go': 8445, 'h2': 50051, 'java': 8446, 'nginx': 8448, 'redis': 6379, 'commits': 5432, 'locks': 5432}


def explain(name, *options):
    command = [XWEAVE, 'explain', OUT / f'trace-{name}', '--transaction', f'request:{PORTS[name]}', '--json', *options]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


for name in PORTS:
    document = explain(name)
    document['transactions'] = [explain(name, '--id', str(one['id']))['transactions'][0] for one in document['transactions']]
    (OUT / 'work' / f'{name}.told').write_text(json.dumps(document))
    print(f'{name}: {len(document["transactions"])} requests')
