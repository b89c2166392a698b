//! seccomp: which system calls a process may still make.
//!
//! A list of what computing on files and memory takes, and everything else is refused (EPERM): kernels get new calls
//! every year, and a list of dangerous ones would lack them. Refused rather than deadly, because libraries of other
//! distributions ask for this and that, and do without. What no reader, parser or compiler ever asks for ends the
//! process (SIGSYS): whoever asks has taken it over, and whoever waits for the job is to learn of it.
//!
//! Arguments are looked at where a call is harmless or not by them: mappings that no limit counts, code that is
//! made at run time, new processes and namespaces, files with the set-user-ID bit, input pushed into a terminal.

use std::collections::BTreeMap;

use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS,
    CLONE_THREAD, ENOSYS, EPERM, MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_SHARED, O_CREAT, O_TMPFILE, PROT_EXEC,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::Error;

/// Whatever the arguments are.
const ALLOWED: &[libc::c_long] = &[
    // Files that are open, or that Landlock lets be opened.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_umask,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_membarrier,
    // Threads, time, signals.
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_arch_prctl,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigpending,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_pause,
    // What it is, and where.
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_getrandom,
];

/// Where programs are started, besides: Landlock says which.
const OF_PROGRAMS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
];

/// Where nothing is opened by its name: what there is to read is open, or a [broker](crate::broker) opens it.
const BY_NAME: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_creat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

/// What nothing that is confined asks for, unless it was taken over.
const DEADLY: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_fanotify_init,
    libc::SYS_modify_ldt,
];

/// Set-user-ID and set-group-ID.
const SET_ID: u64 = 0o6000;

/// The kernel's own bit of [`O_TMPFILE`] (`__O_TMPFILE` in include/uapi/asm-generic/fcntl.h).
const TMPFILE: u64 = 0o20_000_000;

const NAMESPACES: i32 =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// What is done to a descriptor, and to the locks of its file. Not to whom signals about it are sent (F_SETOWN, F_SETSIG,
/// O_ASYNC): with root's user, that ends any process, on kernels before 6.12.
const DESCRIPTOR: [i32; 11] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// From now on no others. `programs` is whether it starts any, `by_name` whether it opens files itself, `broker` over which
/// descriptor it has files opened.
pub(super) fn restrict(programs: bool, by_name: bool, broker: Option<i32>) -> Result<(), Error> {
    // All of them decide, and the strictest counts: the first lets clone3 pass, which the second does not have.
    let refused = SeccompAction::Errno(errno(EPERM));
    let filters = [
        filter(deadly(), SeccompAction::Allow, SeccompAction::KillProcess),
        // Its flags lie in memory, where no filter looks; libraries go on with clone.
        filter(unknown(), SeccompAction::Allow, SeccompAction::Errno(errno(ENOSYS))),
        allowed(programs, by_name, broker).and_then(|rules| filter(rules, refused, SeccompAction::Allow)),
    ];
    for filter in filters {
        let filter = filter.map_err(|error| Error::new("seccomp", error))?;
        apply_filter(&filter).map_err(|error| Error::new("seccomp", error))?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn deadly() -> Rules {
    DEADLY.iter().map(|call| (*call, Vec::new())).collect()
}

fn unknown() -> Rules {
    [libc::SYS_clone3, libc::SYS_openat2].into_iter().map(|call| (call, Vec::new())).collect()
}

fn errno(number: i32) -> u32 {
    number.unsigned_abs()
}

fn filter(
    rules: Rules,
    otherwise: SeccompAction,
    then: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    SeccompFilter::new(rules, otherwise, then, TargetArch::x86_64)?.try_into()
}

fn allowed(programs: bool, by_name: bool, broker: Option<i32>) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // Another filter's.
    rules.extend(unknown());
    let mut when = |call: libc::c_long, either: Vec<Vec<SeccompCondition>>| {
        let either = either.into_iter().map(SeccompRule::new).collect::<Result<Vec<_>, _>>()?;
        rules.insert(call, either);
        Ok::<(), seccompiler::BackendError>(())
    };
    let bits = |flags: i32| u64::from(flags.unsigned_abs());
    let none_of = |argument, flags: u64| masked(argument, flags, 0);

    // Shared memory and stacks that grow are counted by no limit; files may be shared.
    let private = MAP_SHARED | MAP_GROWSDOWN;
    let of_file = MAP_ANONYMOUS | MAP_GROWSDOWN;
    let code = |argument| (!programs).then(|| none_of(argument, bits(PROT_EXEC))).into_iter();
    let mut mappings = Vec::new();
    for flags in [private, of_file] {
        let conditions = [none_of(3, bits(flags))].into_iter().chain(code(2));
        mappings.push(conditions.collect::<Result<Vec<_>, _>>()?);
    }
    when(libc::SYS_mmap, mappings)?;
    if programs {
        // The dynamic linker makes code executable.
        when(libc::SYS_mprotect, Vec::new())?;
    } else {
        when(libc::SYS_mprotect, vec![vec![none_of(2, bits(PROT_EXEC))?]])?;
    }

    // A mode means something only where a file is made.
    for (call, flags, mode) in [(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)] {
        let opened = none_of(flags, bits(O_CREAT) | TMPFILE)?;
        when(call, vec![vec![opened], vec![none_of(mode, SET_ID)?]])?;
    }
    debug_assert!(bits(O_TMPFILE) & TMPFILE != 0);
    // Not chmod: Landlock does not say which files' modes may be changed by name.
    for (call, mode) in [(libc::SYS_creat, 1), (libc::SYS_fchmod, 1)] {
        when(call, vec![vec![none_of(mode, SET_ID)?]])?;
    }
    let mut descriptor: Vec<_> =
        DESCRIPTOR.iter().map(|command| Ok(vec![equal(1, bits(*command))?])).collect::<Result<_, _>>()?;
    descriptor.push(vec![equal(1, bits(libc::F_SETFL))?, none_of(2, bits(libc::O_ASYNC))?]);
    when(libc::SYS_fcntl, descriptor)?;
    if let Some(broker) = broker {
        for call in [libc::SYS_sendmsg, libc::SYS_recvmsg] {
            when(call, vec![vec![equal(0, bits(broker))?]])?;
        }
    }

    let threads = vec![masked(0, bits(CLONE_THREAD), bits(CLONE_THREAD))?];
    let processes = vec![none_of(0, bits(NAMESPACES))?];
    when(libc::SYS_clone, vec![if programs { processes } else { threads }])?;
    // To end itself, as abort does. Not what it has started: before 6.12 Landlock keeps no process of its user from it.
    let itself = u64::from(std::process::id());
    when(libc::SYS_tgkill, vec![vec![equal(0, itself)?]])?;
    when(libc::SYS_kill, vec![vec![equal(0, itself)?]])?;
    // Its own limits, which it can lower.
    when(libc::SYS_prlimit64, vec![vec![equal(0, 0)?]])?;
    let harmless = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_PDEATHSIG, libc::PR_GET_DUMPABLE];
    let told = [libc::PR_GET_NO_NEW_PRIVS, libc::PR_GET_SECCOMP, libc::PR_CAPBSET_READ];
    let prctl = harmless.into_iter().chain(told).map(|option| Ok(vec![equal(0, bits(option))?]));
    when(libc::SYS_prctl, prctl.collect::<Result<_, seccompiler::BackendError>>()?)?;
    // Whether it is a terminal, and how wide; not to push input into it (TIOCSTI), which root's shell would read.
    let asked = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX, libc::FIONBIO];
    let ioctl = asked.into_iter().map(|request| Ok(vec![equal(1, request)?]));
    when(libc::SYS_ioctl, ioctl.collect::<Result<_, seccompiler::BackendError>>()?)?;
    if programs {
        // The standard library learns over such a pair that a program could not be started. It leads nowhere else.
        when(libc::SYS_socketpair, vec![vec![equal(0, bits(libc::AF_UNIX))?]])?;
        rules.extend(OF_PROGRAMS.iter().map(|call| (*call, Vec::new())));
    }
    if !by_name {
        BY_NAME.iter().for_each(|call| drop(rules.remove(call)));
    }
    Ok(rules)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_made_and_no_call_is_in_two_lists() {
        for programs in [false, true] {
            let rules = allowed(programs, programs, None).unwrap();
            for call in DEADLY {
                assert!(!rules.contains_key(call), "system call {call}");
            }
            assert_eq!(rules.contains_key(&libc::SYS_execve), programs);
            assert!(BY_NAME.iter().all(|call| rules.contains_key(call) == programs));
            let refused = [libc::SYS_socket, libc::SYS_sendmsg, libc::SYS_memfd_create, libc::SYS_shmget];
            for refused in refused.into_iter().chain([libc::SYS_setsid, libc::SYS_truncate]) {
                assert!(!rules.contains_key(&refused), "system call {refused}");
            }
            assert!(filter(rules, SeccompAction::Errno(1), SeccompAction::Allow).is_ok());
        }
    }
}
