//! Where a plan's sites lie in the running kernel.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use xweave_wire::{
    message::SiteAddress,
    plan::{Hook, Plan, PlanProgram, PlanSite},
};

/// The addresses of the plan's sites. Zeros where kallsyms is hidden from us.
pub(crate) fn addresses(plan: &Plan) -> Vec<SiteAddress> {
    addresses_in(plan, &fs::read_to_string("/proc/kallsyms").unwrap_or_default())
}

/// What a site's function is called in kallsyms; tracepoints and programs have nothing there.
fn symbol<'p>(program: &PlanProgram, site: &'p PlanSite) -> Option<(&'p str, Option<&'p str>)> {
    match program.hook {
        Hook::Entry | Hook::Return | Hook::Probe | Hook::ProbeReturn | Hook::Instruction => {
            Some((&site.function, site.module.as_deref()))
        }
        Hook::Tracepoint | Hook::User | Hook::UserReturn => None,
    }
}

fn addresses_in(plan: &Plan, symbols: &str) -> Vec<SiteAddress> {
    let sites =
        || plan.programs.iter().flat_map(|program| program.sites.iter().map(move |site| (program, site)));
    let wanted: HashSet<_> = sites().filter_map(|(program, site)| symbol(program, site)).collect();
    let mut found: HashMap<(&str, Option<&str>), u64> = HashMap::new();
    for line in symbols.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let module = words.next().map(|module| module.trim_matches(['[', ']']));
        if matches!(kind, "t" | "T" | "w" | "W") && wanted.contains(&(name, module)) {
            found.insert((name, module), u64::from_str_radix(address, 16).unwrap_or(0));
        }
    }
    sites()
        .flat_map(|(program, site)| {
            let function = symbol(program, site).and_then(|symbol| found.get(&symbol).copied());
            let address = match function {
                None | Some(0) => 0,
                Some(function) => function + u64::from(site.offset),
            };
            (site.site..site.site + site.clauses).map(move |site| SiteAddress { site, address })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_its_own_address_and_a_tracepoint_none() {
        let program = |hook, site, function: &str, offset| PlanProgram {
            name: String::new(),
            hook,
            saver: None,
            sites: vec![PlanSite {
                optional: false,
                site,
                clauses: 1,
                function: function.into(),
                module: None,
                btf_id: 0,
                offset,
                places: Vec::new(),
            }],
            origin: String::new(),
        };
        let plan = Plan {
            domain: 1,
            object: Vec::new(),
            programs: vec![
                program(Hook::Entry, 1, "f", 0),
                program(Hook::Instruction, 2, "f", 5),
                program(Hook::Instruction, 3, "hidden", 5),
                program(Hook::Tracepoint, 4, "f", 0),
            ],
            buffer: 4096,
            flow_table: 1,
            gently: false,
        };
        let symbols = "ffffffff81000000 t f\nffffffff81000010 t f\t[m]\n0000000000000000 t hidden\n";
        let told: Vec<_> =
            addresses_in(&plan, symbols).iter().map(|site| (site.site, site.address)).collect();
        assert_eq!(told, [(1, 0xffff_ffff_8100_0000), (2, 0xffff_ffff_8100_0005), (3, 0), (4, 0)]);
    }
}
