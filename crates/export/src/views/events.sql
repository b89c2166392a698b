
-- Events, as docs/trace-format.md describes them.
create or replace view events as select * from read_parquet({events}, hive_partitioning = false);

-- Threads of each domain, with the last name that each had.
create or replace view threads as
select domain, other as tid, arg_max(object, time_ns) as pid, arg_max(name, time_ns) as thread
from events where kind in ('thread', 'fork') group by all;

-- What each thread did, and until when: running, ready (it could have run), sleeping, blocked, stopped or throttled. Of CPUs
-- that lost events it is not known where a thread was: see the events of the kind lost.
create or replace view thread_states as
with moments as (
    select domain, tid, time_ns, cpu, 'off' as what, coalesce(code, 0) as code from events where kind = 'switch'
    union all
    select domain, coalesce(other, 0), time_ns, cpu, 'on', null from events where kind = 'switch'
    union all
    -- A wakeup tells the CPU that is waited for, plus 1.
    select domain, other, time_ns, case when kind = 'wake' and object > 0 then (object - 1)::integer end, 'woken', null
    from events where kind in ('wake', 'fork')
), placed as (
    select *, last_value(case when what <> 'woken' then what end ignore nulls) over line as last,
        last_value(case when what <> 'woken' then code end ignore nulls) over line as left_as
    from moments where tid <> 0 window line as (partition by domain, tid order by time_ns)
), stretches as (
    -- Whoever is woken while it runs goes on.
    select *, lead(time_ns) over (partition by domain, tid order by time_ns) as end_ns
    from placed where what <> 'woken' or last is distinct from 'on'
)
select domain, tid, thread,
    case
        when last = 'on' then 'running'
        when what = 'woken' then 'ready'
        else ['ready', 'sleeping', 'blocked', 'stopped', 'dead', 'throttled'][left_as + 1]
    end as state,
    cpu, time_ns as begin_ns, end_ns, end_ns - time_ns as ns
from stretches left join threads using (domain, tid)
where end_ns is not null and (last = 'on' or what = 'woken' or left_as <> 4);

-- The times in which threads did not run, for want of a CPU (ready) or of something else.
create or replace view waits as select * from thread_states where state <> 'running';

-- Each time that a vCPU was outside its guest; reason is the hardware's, as docs/trace-format.md says.
create or replace view vm_exits as
select outs.domain, coalesce(vms.domain, vms.name, 'VM ' || outs.pid) as vm, outs.pid, vcpu, reason,
    time_ns as begin_ns, time_ns + ns as end_ns, ns
from (
    select domain, other as pid, object as vcpu, kind, code as reason, time_ns,
        lead(time_ns) over line - time_ns as ns, lead(kind) over line as next
    from events where kind in ('vm_enter', 'vm_exit')
    window line as (partition by domain, tid order by time_ns)
) as outs left join vms on vms.host = outs.domain and vms.pid = outs.pid
where kind = 'vm_exit' and next = 'vm_enter';

-- Each time that a vCPU was halted, asleep or polling.
create or replace view vm_halts as
select events.domain, coalesce(vms.domain, vms.name, 'VM ' || other) as vm, other as pid, object as vcpu, code = 1 as polling,
    time_ns - try_cast(bytes as bigint) as begin_ns, time_ns as end_ns, try_cast(bytes as bigint) as ns
from events left join vms on vms.host = events.domain and vms.pid = events.other
where kind = 'vm_halt';
