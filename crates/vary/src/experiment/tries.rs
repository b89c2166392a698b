//! What is to be tried: `KNOB[@DOMAIN]=A,B`, held against the settings that the domains have, before anything is run.

use std::{fmt, str::FromStr};

use xweave_record::DomainKnobs;
use xweave_text::{nearest, printable};
use xweave_wire::knob::{Knob, State};

use super::stored::{Held, NOW, SETTINGS, Setting};

/// What people look for that is no knob, and why.
const NONE: [(&str, &str); 3] = [
    (
        "vhost_busy_poll",
        "vhost's busy polling cannot be changed from outside of QEMU: the kernel takes VHOST_SET_VRING_BUSYLOOP_TIMEOUT of \
         the process that owns the device only, QEMU makes it when the device is started and has no command for it, and \
         the module vhost_net has no parameter. Start QEMU with -netdev tap,…,vhost=on,poll-us=50, record with and without, \
         and see xweave compare",
    ),
    (
        "poll_us",
        "it is an option with which QEMU is started (-netdev tap,…,vhost=on,poll-us=50), and cannot be changed while the \
         virtual machine runs: record with and without it, and see xweave compare",
    ),
    (
        "idle",
        "idle=poll is an option of the kernel's command line; while the kernel runs, idle_poll=off,on has its CPUs poll, \
         where there is a cpuidle driver",
    ),
];

/// A knob and the values that are to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// Which.
    pub knob: Knob,
    /// Where: a domain, and a virtual machine of it; none: where it is the only one.
    pub place: Option<(String, Option<String>)>,
    /// To what, in the order that they were given in; none: as it is now.
    pub values: Vec<Option<String>>,
}

/// What cannot be tried, with what could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryError {
    /// It has no values.
    #[error("`{0}` is nothing to try: write KNOB=A,B or KNOB@DOMAIN=A,B, for example halt_poll_ns=0,200000")]
    Syntax(String),
    /// There is no such knob.
    #[error("there is no knob {given}{near}; there are {}: see xweave vary --knobs", all())]
    Unknown {
        /// What was given.
        given: String,
        /// What was meant, as a question.
        near: String,
    },
    /// It is none, for a reason.
    #[error("{given} is no knob: {why}")]
    None {
        /// What was given.
        given: String,
        /// Why it is none.
        why: &'static str,
    },
    /// It does not take a value.
    #[error("{knob} {what}")]
    Value {
        /// Which.
        knob: Knob,
        /// What it takes.
        what: String,
    },
    /// There is no such domain, or virtual machine in it, that has it.
    #[error("{knob}@{place}: {why}; there {are}")]
    Place {
        /// Which.
        knob: Knob,
        /// Where it was wanted.
        place: String,
        /// What is wrong.
        why: String,
        /// Where it could be.
        are: String,
    },
    /// Several have it.
    #[error("{knob} is not in one place only: write {places}")]
    Ambiguous {
        /// Which.
        knob: Knob,
        /// How it could be written.
        places: String,
    },
    /// It cannot be set.
    #[error("{knob}@{place} cannot be set: {why}")]
    Unavailable {
        /// Which.
        knob: Knob,
        /// Where.
        place: String,
        /// Why.
        why: String,
    },
    /// It is to be tried twice.
    #[error("{0} is to be tried twice: give all its values to one --try")]
    Twice(String),
    /// There is nothing to compare.
    #[error("one setting has nothing to be compared with: give two values, for example {0}")]
    One(String),
    /// There is too much.
    #[error(
        "these are {0} settings, of which {SETTINGS} can be compared: several --try are combined, each value with each; \
         try fewer at a time"
    )]
    TooMany(usize),
}

fn all() -> String {
    Knob::NAMES.join(", ")
}

impl FromStr for Try {
    type Err = TryError;

    fn from_str(text: &str) -> Result<Self, TryError> {
        let syntax = || TryError::Syntax(printable(text).into_owned());
        let (what, values) = text.split_once('=').ok_or_else(syntax)?;
        let (name, place) = what.split_once('@').map_or((what, None), |(name, place)| (name, Some(place)));
        let knob = Knob::of(name).ok_or_else(|| unknown(name))?;
        if values.is_empty() || place.is_some_and(str::is_empty) {
            return Err(syntax());
        }
        let place = place.map(|place| match place.split_once(':') {
            Some((domain, vm)) => (domain.to_owned(), Some(vm.to_owned())),
            None => (place.to_owned(), None),
        });
        let mut read = Vec::new();
        for value in values.split(',') {
            let value = match value {
                NOW => None,
                value => {
                    let bad =
                        |bad: xweave_wire::knob::BadValue| TryError::Value { knob, what: bad.to_string() };
                    Some(knob.value(value).map_err(bad)?)
                }
            };
            if read.contains(&value) {
                let what = format!("is to be tried twice with {}", value.as_deref().unwrap_or(NOW));
                return Err(TryError::Value { knob, what });
            }
            read.push(value);
        }
        Ok(Self { knob, place, values: read })
    }
}

fn unknown(name: &str) -> TryError {
    let given = printable(name).into_owned();
    let plain = name.replace('-', "_").to_lowercase();
    if let Some((_, why)) = NONE.iter().find(|(none, _)| *none == plain) {
        return TryError::None { given, why };
    }
    let names = Knob::NAMES.iter().copied().chain(NONE.map(|(none, _)| none));
    let near = nearest(&plain, names, 3);
    let near =
        if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(" or ")) };
    TryError::Unknown { given, near }
}

/// What an experiment compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The knobs, with where each is and how it stands.
    pub knobs: Vec<Held>,
    /// Each value with each; the first has the first value of all, and the others are compared with it.
    pub settings: Vec<Setting>,
}

impl Plan {
    /// Finds the knobs among those that the domains have.
    ///
    /// # Errors
    /// One is not there or cannot be set, or there is too little or too much to compare.
    pub fn of(tries: &[Try], domains: &[DomainKnobs]) -> Result<Self, TryError> {
        let mut knobs: Vec<Held> = Vec::new();
        for one in tries {
            let held = held(one, domains)?;
            if knobs.iter().any(|other| other.is_same(&held)) {
                return Err(TryError::Twice(held.name()));
            }
            knobs.push(held);
        }
        let count = tries.iter().map(|one| one.values.len()).fold(1, usize::saturating_mul);
        if count > SETTINGS {
            return Err(TryError::TooMany(count));
        }
        if count < 2 {
            let example = tries.first().map(|one| {
                let value = one.values.first().cloned().flatten();
                format!("{}={NOW},{}", one.knob, value.as_deref().unwrap_or("…"))
            });
            return Err(TryError::One(example.unwrap_or_else(|| "halt_poll_ns=0,200000".to_owned())));
        }
        // The last knob changes fastest.
        let mut settings = vec![Setting { values: Vec::new() }];
        for one in tries {
            let with = |setting: &Setting| {
                one.values
                    .iter()
                    .map(|value| Setting {
                        values: setting.values.iter().cloned().chain([value.clone()]).collect(),
                    })
                    .collect::<Vec<_>>()
            };
            settings = settings.iter().flat_map(with).collect();
        }
        Ok(Self { knobs, settings })
    }
}

/// A knob of a domain.
struct Place<'a> {
    domain: &'a DomainKnobs,
    state: &'a State,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.domain.domain)?;
        self.state.vm.iter().try_for_each(|vm| write!(f, ":{vm}"))
    }
}

fn held(one: &Try, domains: &[DomainKnobs]) -> Result<Held, TryError> {
    let knob = one.knob;
    let places: Vec<Place<'_>> = domains
        .iter()
        .flat_map(|domain| domain.knobs.iter().map(move |state| Place { domain, state }))
        .filter(|place| place.state.knob == knob)
        .collect();
    let place = match &one.place {
        Some((domain, vm)) => named(knob, domain, vm.as_deref(), &places, domains)?,
        None => only(knob, &places)?,
    };
    // Where no virtual machine runs there is nobody's to be set.
    if let (Some(_), None, true) = (&place.state.unavailable, &place.state.vm, knob.is_of_vm()) {
        let why = "no virtual machine runs there".to_owned();
        return Err(TryError::Place { knob, place: place.to_string(), why, are: could_be(knob, &places) });
    }
    if let Some(why) = &place.state.unavailable {
        let (place, why) = (place.to_string(), why.clone());
        return Err(TryError::Unavailable { knob, place, why });
    }
    let choices = &place.state.choices;
    let other = one.values.iter().flatten().find(|value| !choices.is_empty() && !choices.contains(value));
    if let Some(other) = other {
        let near = nearest(other, choices.iter().map(String::as_str), 1);
        let near = near.first().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        let what = format!("takes {}, not {other}{near}", choices.join(", "));
        return Err(TryError::Value { knob, what });
    }
    Ok(Held {
        knob,
        domain: place.domain.domain.clone(),
        vm: place.state.vm.clone(),
        now: place.state.value.clone(),
    })
}

/// The one in that place.
fn named<'p, 'a>(
    knob: Knob,
    domain: &str,
    vm: Option<&str>,
    places: &'p [Place<'a>],
    domains: &[DomainKnobs],
) -> Result<&'p Place<'a>, TryError> {
    let there = |place: &&&Place<'_>| place.domain.domain == domain;
    let of_domain: Vec<_> = places.iter().filter(|place| there(&place)).collect();
    let found = of_domain.iter().find(|place| place.state.vm.as_deref() == vm);
    // What is the only one of its domain needs no name of a virtual machine.
    let only = || of_domain.first().filter(|_| vm.is_none() && of_domain.len() == 1);
    if let Some(place) = found.or_else(only) {
        return Ok(place);
    }
    let is_domain = domains.iter().any(|known| known.domain == domain);
    let given = format!("{domain}{}", vm.map(|vm| format!(":{vm}")).unwrap_or_default());
    let why = match (is_domain, vm) {
        (false, _) => {
            let hint = match places.iter().find(|place| place.state.vm.as_deref() == Some(domain)) {
                Some(place) => format!(" (it is a virtual machine of {place})"),
                None => String::new(),
            };
            format!("there is no domain {}{hint}", printable(domain))
        }
        (true, Some(vm)) if !knob.is_of_vm() => {
            format!("it is a setting of the whole domain, not of {}", printable(vm))
        }
        (true, Some(vm)) => format!("there is no virtual machine {} there", printable(vm)),
        (true, None) => "which virtual machine is meant is not said".to_owned(),
    };
    let are = could_be(knob, places);
    Err(TryError::Place { knob, place: printable(&given).into_owned(), why, are })
}

/// Where a knob can be set, in words.
fn could_be(knob: Knob, places: &[Place<'_>]) -> String {
    let can = places.iter().filter(|place| place.state.unavailable.is_none());
    let could: Vec<String> = can.map(|place| format!("{knob}@{place}")).collect();
    match &*could {
        [] => "is none that can be set".to_owned(),
        [one] => format!("is {one}"),
        several => format!("are {}", several.join(", ")),
    }
}

/// The only one that can be set: of KVM's, in a host; of others, in a guest, if there is one.
fn only<'p, 'a>(knob: Knob, places: &'p [Place<'a>]) -> Result<&'p Place<'a>, TryError> {
    let of_host = matches!(knob, Knob::HaltPollNs | Knob::PinVcpus | Knob::PinVhost);
    let of_its_side: Vec<_> = places.iter().filter(|place| place.domain.is_host == of_host).collect();
    let all: Vec<&Place<'_>> = if of_its_side.is_empty() { places.iter().collect() } else { of_its_side };
    let can: Vec<&Place<'_>> =
        all.iter().copied().filter(|place| place.state.unavailable.is_none()).collect();
    match (&*can, &*all) {
        ([one], _) | ([], [one, ..]) => Ok(one),
        _ => {
            let places: Vec<String> = can.iter().map(|place| format!("{knob}@{place}=…")).collect();
            Err(TryError::Ambiguous { knob, places: places.join(" or ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(knob: Knob, vm: Option<&str>, value: &str) -> State {
        State {
            knob,
            vm: vm.map(str::to_owned),
            value: value.to_owned(),
            choices: Vec::new(),
            unavailable: None,
        }
    }

    fn domains() -> Vec<DomainKnobs> {
        let without = |state, why: &str| State { unavailable: Some(why.to_owned()), ..state };
        let host = vec![
            state(Knob::HaltPollNs, None, "200000"),
            state(Knob::PinVcpus, Some("web1"), "0-3"),
            state(Knob::PinVcpus, Some("web2"), "0-3"),
            state(Knob::BusyPoll, None, "0"),
        ];
        let guest = vec![
            without(state(Knob::HaltPollNs, None, ""), "KVM is not loaded here"),
            without(state(Knob::PinVcpus, None, ""), "no virtual machine runs under this kernel's KVM"),
            without(state(Knob::IdlePoll, None, "off"), "this kernel has no cpuidle driver"),
            state(Knob::BusyPoll, None, "0"),
            State {
                choices: ["menu", "haltpoll"].map(str::to_owned).to_vec(),
                ..state(Knob::IdleGovernor, None, "menu")
            },
        ];
        let domain = |name: &str, knobs: &Vec<State>| DomainKnobs {
            domain: name.to_owned(),
            is_host: name == "host",
            vms: Vec::new(),
            knobs: knobs.clone(),
        };
        vec![domain("host", &host), domain("vm1", &guest)]
    }

    fn plan(tries: &[&str]) -> Result<Plan, TryError> {
        let tries: Result<Vec<Try>, _> = tries.iter().map(|text| text.parse()).collect();
        Plan::of(&tries?, &domains())
    }

    fn refused(tries: &[&str]) -> String {
        plan(tries).unwrap_err().to_string()
    }

    #[test]
    fn a_knob_is_where_it_is_said_to_be_or_where_it_is_the_only_one() {
        for (text, place) in [
            ("halt_poll_ns=0,200000", "halt_poll_ns@host"),
            ("busy_poll=0,50", "busy_poll@vm1"),
            ("busy_poll@host=0,50", "busy_poll@host"),
            ("idle_governor=now,haltpoll", "idle_governor@vm1"),
            ("pin_vcpus@host:web2=now,each:0-1", "pin_vcpus@host:web2"),
        ] {
            let plan = plan(&[text]).unwrap();
            assert_eq!(plan.knobs.iter().map(Held::name).collect::<Vec<_>>(), [place]);
            assert_eq!(plan.settings.len(), 2);
        }
    }

    #[test]
    fn several_are_combined_and_the_first_values_are_what_others_are_compared_with() {
        let plan = plan(&["halt_poll_ns=now,0", "busy_poll=0,50"]).unwrap();
        let names: Vec<_> = plan.settings.iter().map(|setting| setting.name(&plan.knobs)).collect();
        assert_eq!(
            names,
            [
                "halt_poll_ns@host=now (200000) busy_poll@vm1=0",
                "halt_poll_ns@host=now (200000) busy_poll@vm1=50",
                "halt_poll_ns@host=0 busy_poll@vm1=0",
                "halt_poll_ns@host=0 busy_poll@vm1=50",
            ]
        );
    }

    #[test]
    fn what_cannot_be_tried_is_told_with_what_could_be() {
        for (tries, told) in [
            (&["halt_pol_ns=0,1"][..], "there is no knob halt_pol_ns (did you mean halt_poll_ns"),
            (
                &["governor=a,b"],
                "there are halt_poll_ns, pin_vcpus, pin_vhost, busy_poll, busy_read, idle_governor",
            ),
            (
                &["vhost-busy-poll=0,50"],
                "vhost-busy-poll is no knob: vhost's busy polling cannot be changed from outside",
            ),
            (&["idle=poll"], "idle is no knob: idle=poll is an option of the kernel's command line"),
            (&["halt_poll_ns"], "`halt_poll_ns` is nothing to try: write KNOB=A,B"),
            (&["halt_poll_ns="], "is nothing to try"),
            (&["halt_poll_ns=0,lots"], "halt_poll_ns takes a number from 0 to 10000000, not `lots`"),
            (&["halt_poll_ns=0,00"], "halt_poll_ns is to be tried twice with 0"),
            (&["halt_poll_ns@vm1=0,1"], "halt_poll_ns@vm1 cannot be set: KVM is not loaded here"),
            (
                &["halt_poll_ns@vm7=0,1"],
                "halt_poll_ns@vm7: there is no domain vm7; there is halt_poll_ns@host",
            ),
            (&["halt_poll_ns@host:web1=0,1"], "it is a setting of the whole domain, not of web1"),
            (
                &["pin_vcpus=now,0"],
                "pin_vcpus is not in one place only: write pin_vcpus@host:web1=… or pin_vcpus@host:web2=…",
            ),
            (
                &["pin_vcpus@host=now,0"],
                "which virtual machine is meant is not said; there are pin_vcpus@host:web1, ",
            ),
            (
                &["pin_vcpus@web1=now,0"],
                "there is no domain web1 (it is a virtual machine of host:web1); there are",
            ),
            (
                &["pin_vcpus@vm1=now,0"],
                "pin_vcpus@vm1: no virtual machine runs there; there are pin_vcpus@host:web1, pin_vcpus@host:web2",
            ),
            (&["pin_vcpus@host:web3=now,0"], "there is no virtual machine web3 there"),
            (&["pin_vhost=now,0"], "pin_vhost is not in one place only"),
            (&["idle_poll=off,on"], "idle_poll@vm1 cannot be set: this kernel has no cpuidle driver"),
            (&["idle_governor=menu,haltpol"], "takes menu, haltpoll, not haltpol (did you mean haltpoll?)"),
            (
                &["halt_poll_ns=0"],
                "one setting has nothing to be compared with: give two values, for example halt_poll_ns=now,0",
            ),
            (&["busy_poll=0,50", "busy_poll@vm1=0,20"], "busy_poll@vm1 is to be tried twice"),
            (
                &["busy_poll=0,1,2,3,4", "halt_poll_ns=0,1,2,3"],
                "these are 20 settings, of which 16 can be compared",
            ),
        ] {
            let said = refused(tries);
            assert!(said.contains(told), "{tries:?}: {said}");
        }
    }
}
