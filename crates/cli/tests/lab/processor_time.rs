//! What is told of who had no processor, held against what kernels count of it themselves.

use serde_json::Value;

use crate::world::{AGENT, World, for_each, longest};

/// Spins for two to three seconds, as long on each machine: a shell's own code, which starts no process.
const SPIN_FOR_SECONDS: &str = "read now _ </proc/uptime; end=$((${now%.*} + 3)); \
                                while [ ${now%.*} -lt $end ]; do read now _ </proc/uptime; done";

/// A group of processes of the host that may have so many microseconds of a processor in each tenth of a second; the quota goes
/// with this.
struct Quota<'w> {
    world: &'w World,
    group: String,
}

impl<'w> Quota<'w> {
    fn new(world: &'w World, name: &str, microseconds: u32) -> Self {
        let group = format!("/sys/fs/cgroup/xweave-{name}");
        world.run(
            "host",
            &format!(
                "[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 none /sys/fs/cgroup
                 echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
                 mkdir -p {group} && echo '{microseconds} 100000' >{group}/cpu.max"
            ),
        );
        Self { world, group }
    }

    /// For how long the kernel has kept what is in it from running, in nanoseconds; and how often.
    fn throttled(&self) -> (u64, u64) {
        let number = |of: &str| {
            let command = format!("grep {of} {}/cpu.stat | cut -d' ' -f2", self.group);
            self.world.run("host", &command).trim().parse::<u64>().unwrap()
        };
        (1000 * number("throttled_usec"), number("nr_throttled"))
    }
}

impl Drop for Quota<'_> {
    fn drop(&mut self) {
        let Self { world, group } = self;
        world.run(
            "host",
            &format!(
                "for one in $(cat {group}/cgroup.procs); do echo $one >/sys/fs/cgroup/cgroup.procs; done
                 rmdir {group}"
            ),
        );
    }
}

/// What the kernel itself counts (cpu.stat) and what is told of the process.
#[test]
fn what_a_quota_takes_is_told_as_throttled() {
    let Some(world) = World::find("quota") else { return };
    let quota = Quota::new(&world, "quota", 20_000);
    let recording = world.record("--events sched -o /tmp/events-quota");
    world.run("host", &format!("sh -c 'echo $$ >{}/cgroup.procs; {SPIN_FOR_SECONDS}'; true", quota.group));
    recording.finish_well();
    let (counted, _) = quota.throttled();
    let document = world.explain("/tmp/events-quota", "process:sh");
    let told = longest(&document, |part| part["state"] == "throttled");
    assert!(counted > 500_000_000, "the quota has to be used up: {counted} ns");
    assert!(told.abs_diff(counted) * 10 < counted, "{told} told, {counted} counted: {document}");
}

/// The same where the process is a guest's: it is its virtual machine that is kept from running.
#[test]
fn what_a_quota_of_a_virtual_machine_takes_is_told_of_its_vcpu() {
    let Some(world) = World::find("a virtual machine's quota") else { return };
    let quota = Quota::new(&world, "vm-quota", 40_000);
    let recording = world.record("--events sched,vm --domain vm1=vsock:3 -o /tmp/events-vm-quota");
    world.run("host", &format!("cat /run/lab/vm1/pid >{}/cgroup.procs", quota.group));
    let before = quota.throttled();
    world.run("vm1", &format!("sh -c '{SPIN_FOR_SECONDS}'"));
    let (counted, times) = quota.throttled();
    let (counted, times) = (counted - before.0, times - before.1);
    drop(quota);
    recording.finish_well();
    let document = world.explain("/tmp/events-vm-quota", "process:sh");
    let of_vcpu =
        |part: &Value| part["state"] == "throttled" && part["object"].as_str().unwrap().contains("vCPU");
    let told = longest(&document, of_vcpu);
    assert!(counted > 500_000_000, "the quota has to be used up: {counted} ns");
    // The kernel counts before the process begins and after its end, too: what it takes to begin and end it.
    // And each time, it counts until the CPU is told, which then has to come out of idling: milliseconds, where it is emulated.
    let more = counted / 20 + times * 5_000_000;
    assert!(told <= counted + more, "{told} told, {counted} counted, {times} times: {document}");
    // While it lives, no more than what the quota leaves of its time.
    let lives = document["lives"].as_array().unwrap();
    let life = lives.iter().find(|lives| lives["domain"] == "vm1").unwrap();
    let withheld = life["elapsed_ns"].as_u64().unwrap() / 10 * 6;
    assert!(told * 4 > counted.min(withheld) * 3, "{told} told, {counted} counted: {document}");
}

/// What each of two processes that want one processor says that the kernel counted of it (/proc/PID/schedstat), and what is
/// told.
#[test]
fn how_long_processes_were_ready_is_what_the_kernel_counts() {
    /// It says who it is, how long it had a processor, and how long it waited for one. Then it ends, which takes a processor
    /// for tens of milliseconds where that is emulated on a busy machine: a twentieth of the whole at most.
    const SAY: &str = "read ran ready slices </proc/$$/schedstat; echo $$ $ran $ready";
    let Some(world) = World::find("run delay") else { return };
    let recording = world.record("--events sched -o /tmp/events-delay");
    let spin = format!("taskset -c 0 sh -c '{SPIN_FOR_SECONDS}; {SAY}'");
    let said = world.run("host", &format!("{spin} & {spin}; wait"));
    recording.finish_well();
    let document = world.explain("/tmp/events-delay", "process:sh");
    let counted: Vec<(&str, u64, u64)> = said
        .lines()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            (words[0], words[1].parse().unwrap(), words[2].parse().unwrap())
        })
        .collect();
    assert_eq!(counted.len(), 2, "{said}");
    for (process, ran, ready) in counted {
        let name = format!("sh/{process}");
        let all = document["transactions"].as_array().unwrap();
        let life = all.iter().find(|life| life["name"] == name.as_str()).unwrap();
        let told = |states: &[&str]| -> u64 {
            let of = life["parts"].as_array().unwrap().iter().filter(|part| {
                part["object"] == name.as_str() && states.contains(&part["state"].as_str().unwrap())
            });
            of.map(|part| part["ns"].as_u64().unwrap()).sum()
        };
        println!("{name}: {ready} ns ready of {}", ran + ready);
        assert!(ready > 200_000_000, "they have to want it at the same time: {said}");
        assert!(told(&["ready", "waking"]).abs_diff(ready) * 20 < ready, "{ready} counted: {life}");
        assert!(told(&["running"]).abs_diff(ran) * 10 < ran, "{ran} counted: {life}");
    }
}

/// The policies by which threads of processes that begin so are scheduled (proc(5), field 41), each once.
fn policies(command: &str) -> String {
    let of_threads = r#"for thread in $process/task/*; do
        read -r stat <$thread/stat && set -- ${stat##*) } && echo "${39}"
    done"#;
    format!("{} | sort -u", for_each(command, of_threads))
}

/// How the autogroups of processes that begin so are ranked (sched(7)), each rank once.
fn nice_of_autogroups(command: &str) -> String {
    format!("{} | sort -u", for_each(command, "read -r group <$process/autogroup && echo ${group##* }"))
}

#[test]
fn in_the_background_are_all_threads_of_xweave_and_none_of_the_command() {
    const IDLE: i32 = 5;
    let Some(world) = World::find("background") else { return };
    let recording = world.record("--background --events sched --domain vm1=vsock:3 -o /tmp/background");
    for (domain, command) in [("host", "xweave record"), ("host", AGENT), ("vm1", AGENT)] {
        world.until(domain, &format!("test \"$({})\" = {IDLE}", policies(command)));
    }
    assert_eq!(world.run("host", &policies("cat ")).trim(), "0", "the command");
    // Those of the agents, which have sessions of their own; the recorder's is the command's as well.
    for (domain, command, nice) in [("host", AGENT, 19), ("vm1", AGENT, 19), ("host", "xweave record", 0)] {
        world.until(domain, &format!("test \"$({})\" = {nice}", nice_of_autogroups(command)));
    }
    recording.finish_well();
    world.run("host", "rm -r /tmp/background");
}
