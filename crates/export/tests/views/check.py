#!/usr/bin/env python3
"""check.py XWEAVE PACKETS WORK: whether the views in SQL say the same of an imported trace as xweave does, and of flows what
PACKETS has written

Tests are told as cargo's are. WORK is a folder that is there."""
import collections
import json
import pathlib
import subprocess
import sys
import traceback

import duckdb

XWEAVE, PACKETS, WORK = *sys.argv[1:3], pathlib.Path(sys.argv[3])
DATA = pathlib.Path(__file__).parent.parent.parent.parent / 'import/tests/data'


def xweave(*arguments):
    done = subprocess.run([XWEAVE, *arguments], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f'xweave {" ".join(map(str, arguments))}: {done.stderr}')
    return done.stdout


def views(trace):
    """A connection that has the views of a trace."""
    xweave('export', trace, '--to', 'duckdb', '-o', f'{trace}.sql')
    connection = duckdb.connect()
    connection.execute((WORK / f'{trace}.sql').read_text())
    return connection


def one(connection, query):
    return connection.sql(query).fetchone()


def imported():
    for name in ('host.dat', 'guest.dat'):
        unpacked = subprocess.run(['zstd', '-dqc', DATA / f'{name}.zst'], stdout=subprocess.PIPE, check=True).stdout
        (WORK / name).write_bytes(unpacked)
    # Quotes and what DuckDB takes for patterns are letters of a name.
    xweave('import', 'host.dat', 'guest.dat', '-o', "it's [imported]*")
    return views("it's [imported]*"), json.loads(xweave('compare', *2 * ["it's [imported]*"], '--json'))['objects']


def threads_run_and_wait_as_long(sql, objects):
    for domain in ('host', 'vm1'):
        told = [of for of in objects if of['kind'] == 'process' and of['domain'] == domain]
        ran, ready, runs = (sum(of[key][0] for of in told) for key in ('time_ns', 'wait_ns', 'count'))
        where = f"from thread_states where domain = '{domain}'"
        # What a CPU ran before its first switch and after its last one has no row.
        edges, unended = one(sql, f"""
            with of_cpu as (select min(time_ns) as begun, max(time_ns) as ended, arg_max(other, time_ns) as runs from events
                            where kind = 'switch' and domain = '{domain}' group by cpu),
                 of_all as (select min(time_ns) as begun, max(time_ns) as ended from events where domain = '{domain}')
            select sum(of_cpu.begun - of_all.begun + of_all.ended - of_cpu.ended),
                count(*) filter (coalesce(runs, 0) <> 0)
            from of_cpu, of_all""")
        rows, ns = one(sql, f"select count(*), sum(ns) {where} and state = 'running'")
        assert rows + unended == runs > 0, (domain, rows, unended, runs)
        assert ns <= ran <= ns + edges, (domain, ns, ran, edges)
        # Of who is seen for the first time as it is woken, xweave does not know how long it has waited.
        first, = one(sql, f"""select sum(ns) from (select *, row_number() over (partition by tid order by begin_ns) as nth {where})
                              where nth = 1 and state = 'ready'""")
        ns, = one(sql, f"select sum(ns) {where} and state = 'ready'")
        assert ns - first <= ready <= ns, (domain, ns, first, ready)
        assert one(sql, f"select count(*) from waits where domain = '{domain}' and state = 'running'") == (0,)


def vcpus_exit_as_often(sql, objects):
    told = {of['object']: of['count'][0] for of in objects if of['kind'] == 'vcpu'}
    assert len(told) == 2, told
    for name, exits in told.items():
        number = name.split()[1]
        rows, = one(sql, f"select count(*) from vm_exits where vm = 'vm1' and vcpu = {number}")
        # The last has no end.
        assert exits - 1 <= rows <= exits, (name, rows, exits)
    halted, = one(sql, 'select sum(end_ns - begin_ns) from vm_halts')
    assert halted == one(sql, "select sum(bytes) from events where kind = 'vm_halt'")[0] > 0


def machines_are_named(sql, _):
    assert one(sql, "select domain from vms where host = 'host'") == ('vm1',)
    assert sql.sql('select domain from domains order by number').fetchall() == [('host',), ('vm1',)]


def flows_take_as_long_as_their_records_say(*_):
    subprocess.run([PACKETS, '16000', WORK / 'packets'], stdout=subprocess.DEVNULL, check=True)
    sql = views('packets')
    times = collections.defaultdict(list)
    for flow, domain, time in sql.sql('select flow, domain, time_ns from records').fetchall():
        times[flow, domain].append(time)
    spans = collections.defaultdict(list)
    for (_, domain), of_flow in times.items():
        spans[domain].append(max(of_flow) - min(of_flow))
    told = {row[0]: row[1:] for row in sql.sql('from flow_times').fetchall()}
    assert len(told) == len(spans) == 3, told
    for domain, of_domain in spans.items():
        of_domain.sort()
        xflow, flows, p50, p99, most = told[domain]
        assert (xflow, flows, most) == ('packet', 1000, of_domain[-1]), told
        assert (p50, p99) == (of_domain[499], of_domain[989]), (told, of_domain[490:510], of_domain[980:])


def a_view_that_counts_otherwise_is_found(sql, objects):
    changed = (WORK / "it's [imported]*.sql").read_text().replace("when what = 'woken' then 'ready'", '')
    other = duckdb.connect()
    other.execute(changed)
    try:
        threads_run_and_wait_as_long(other, objects)
    except AssertionError:
        return
    raise AssertionError('waits that are not counted were not missed')


def main():
    tests = (threads_run_and_wait_as_long, vcpus_exit_as_often, machines_are_named, flows_take_as_long_as_their_records_say,
             a_view_that_counts_otherwise_is_found)
    made = imported()
    failed = 0
    for test in tests:
        try:
            test(*made)
            print(f'test views::{test.__name__} ... ok')
        except Exception:
            failed += 1
            print(f'test views::{test.__name__} ... FAILED\n{traceback.format_exc()}')
    print(f'test result: {"FAILED" if failed else "ok"}. {len(tests) - failed} passed; {failed} failed')
    return bool(failed)


if __name__ == '__main__':
    sys.exit(main())
