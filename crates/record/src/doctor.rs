//! What this machine can do, and what would mend what it cannot.

use std::{fs, path::Path};

use xweave_system::{StaleSetting, read_facts, restore_settings};

use xweave_text::printable;
use xweave_weave::Coverage;
use xweave_wire::message::Vm;

use crate::{back_ends, kernels};

/// So many virtual machines are named.
const NAMED: usize = 6;

/// One thing that recording needs, or is better with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether recording is impossible without it.
    pub needed: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if all is well.
    pub remedy: &'static str,
}

/// Looks at this machine.
pub fn doctor() -> Vec<Check> {
    let facts = read_facts();
    let check = |name, ok, needed, found: String, remedy| Check {
        name,
        ok,
        needed,
        found,
        remedy: if ok { "" } else { remedy },
    };
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let debugfs = fs::read_dir("/sys/kernel/debug").is_ok_and(|mut dir| dir.next().is_some());
    let kvm = Path::new("/sys/module/kvm").exists();
    let clang = xweave_weave::find_clang();
    let unfit = find_unfit();
    let clock = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default()
        .trim()
        .to_owned();
    let steady = matches!(clock.as_str(), "tsc" | "kvm-clock" | "xen" | "hyperv_clocksource_tsc_page");
    let confinement = xweave_guard::confine::layers();
    let unseen = back_ends::of_host(&facts.vms);
    let left = restore_settings();
    let not_put_back = left.iter().any(|left| left.failed.is_some());
    vec![
        check(
            "kernel",
            kernels::is_new_enough(&facts.kernel),
            true,
            facts.kernel.clone(),
            "boot a kernel of 6.1 or later",
        ),
        check(
            "type information (BTF)",
            facts.btf,
            true,
            if facts.btf {
                format!("vmlinux and {} modules", facts.modules.len())
            } else {
                "/sys/kernel/btf/vmlinux is missing".to_owned()
            },
            "boot a kernel with CONFIG_DEBUG_INFO_BTF, as distributions build it",
        ),
        check(
            "rights to trace",
            facts.privileged,
            true,
            yes_no(facts.privileged),
            "run as root: sudo xweave …",
        ),
        check(
            "entry and return hooks",
            has_config("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS").unwrap_or(true),
            true,
            match has_config("CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS") {
                Some(yes) => yes_no(yes),
                None => "unknown (no readable /proc/config.gz or /boot/config-RELEASE)".to_owned(),
            },
            "boot a kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, as distributions build it",
        ),
        check(
            "aspects and events",
            unfit.as_ref().is_ok_and(Vec::is_empty),
            false,
            match &unfit {
                Ok(unfit) if unfit.is_empty() => "all of the library fit this kernel".to_owned(),
                Ok(unfit) => format!("all fit this kernel, except: {}", unfit.join("; ")),
                Err(error) => error.clone(),
            },
            "record what fits; xweave check ASPECT --domain host=live says more of one",
        ),
        check(
            "compiler for aspects",
            clang.is_some(),
            false,
            clang.map_or_else(|| "no clang".to_owned(), |path| path.display().to_string()),
            "apt install clang, if you write aspects of your own: those of the library and events need none, except \
             where the line above says so",
        ),
        check(
            "confinement",
            confinement.as_ref().is_ok_and(|layers| layers.landlock.is_some()),
            confinement.is_err(),
            match &confinement {
                Ok(layers) => layers.to_string(),
                Err(error) => error.to_string(),
            },
            "what guests and files send is read by processes without rights, which Landlock keeps from files: boot a \
             kernel with CONFIG_SECURITY_LANDLOCK, and landlock in the list lsm= if there is one",
        ),
        check(
            "leftover settings",
            !not_put_back,
            false,
            if left.is_empty() { "none left over".to_owned() } else { told(&left) },
            "sudo xweave doctor, or write the value into the file",
        ),
        check(
            "debugfs",
            debugfs,
            false,
            yes_no(debugfs),
            "mount -t debugfs none /sys/kernel/debug (gives the exact clock offset of KVM guests)",
        ),
        check(
            "clock",
            steady,
            false,
            if clock.is_empty() { "unknown".to_owned() } else { clock },
            "a clock other than the TSC makes the common time line less exact; the trace says how much",
        ),
        check(
            "virtual machines",
            !kvm || !facts.vms.is_empty(),
            false,
            match (kvm, &*facts.vms) {
                (false, _) => "KVM is not loaded".to_owned(),
                (true, []) => "none seen".to_owned(),
                (true, vms) => format!("{} running under KVM: {}", vms.len(), named(vms)),
            },
            "start the guests first; as root, with debugfs mounted, they are seen in /sys/kernel/debug/kvm",
        ),
        check(
            "devices of guests",
            unseen.is_empty(),
            false,
            match facts.vms.iter().filter(|vm| !vm.back_ends.is_empty()).count() {
                0 => "none seen".to_owned(),
                n if unseen.is_empty() => format!("vhost or QEMU is visible for {n} of {n}"),
                _ => unseen.join("; "),
            },
            "record these guests all the same: their own side is followed",
        ),
        check(
            "vsock to guests",
            Path::new("/dev/vhost-vsock").exists(),
            false,
            yes_no(Path::new("/dev/vhost-vsock").exists()),
            "modprobe vhost_vsock, and give guests -device vhost-vsock-pci,guest-cid=N; or reach agents by ssh",
        ),
    ]
}

/// What of the library does not fit the running kernel, and why.
fn find_unfit() -> Result<Vec<String>, String> {
    let kernel = xweave_programs::live_with_modules().map_err(|error| error.to_string())?;
    let coverage = xweave_programs::coverage(&kernel).map_err(|error| error.to_string())?;
    let unfit = coverage.iter().filter(|of| !of.verdict.reasons().is_empty());
    let told = |of: &Coverage| {
        let reasons: Vec<_> = of.verdict.reasons().iter().map(|reason| printable(reason)).collect();
        format!("{} ({}: {})", of.part, of.verdict.word(), reasons.join(", "))
    };
    Ok(unfit.map(told).collect())
}

/// The first of some virtual machines, by the names that QEMU's `-name` gives them; others by the programs that run them.
fn named(vms: &[Vm]) -> String {
    let one = |vm: &Vm| match (&*vm.name, &*vm.comm) {
        ("", "") => format!("pid {}", vm.pid),
        ("", program) => format!("{} pid {}", printable(program), vm.pid),
        (name, _) => printable(name).into_owned(),
    };
    let mut names: Vec<String> = vms.iter().take(NAMED).map(one).collect();
    if let Some(more) = vms.len().checked_sub(NAMED + 1) {
        names.push(format!("{} more", more + 1));
    }
    names.join(", ")
}

/// What agents that were killed had left changed, and what has become of it.
fn told(left: &[StaleSetting]) -> String {
    let one = |left: &StaleSetting| match &left.failed {
        None => format!("{}, left by a killed agent, is {} again", left.path, left.value),
        Some(reason) => {
            format!("{}, left by a killed agent, cannot be set to {} again: {reason}", left.path, left.value)
        }
    };
    left.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Whether the running kernel was built with an option; none where its configuration is not shown.
fn has_config(option: &str) -> Option<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = Some(release.trim()).filter(|release| !release.contains('/'))?;
    let text = fs::read_to_string(format!("/boot/config-{release}")).ok()?;
    Some(text.lines().any(|line| line.strip_prefix(option) == Some("=y")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_machines_have_their_names_and_those_without_the_programs_that_run_them() {
        let vm =
            |pid, name: &str, comm: &str| Vm { pid, name: name.into(), comm: comm.into(), ..Vm::default() };
        let vms =
            [vm(239, "web1", "qemu-system-x86"), vm(189, "", "xweave"), vm(7, "", ""), vm(8, "a\x1b[2J", "")];
        let told = named(&vms);
        assert!(told.starts_with("web1, xweave pid 189, pid 7, ") && !told.contains('\x1b'), "{told}");
        let many: Vec<_> = (1..=9).map(|pid| vm(pid, "vm", "")).collect();
        assert!(named(&many).ends_with("vm, vm, 3 more"), "{}", named(&many));
    }
}
