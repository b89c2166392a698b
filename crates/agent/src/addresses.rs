//! Where a plan's sites lie in the running kernel.

use std::{collections::HashMap, fs};

use xweave_code::clone_of;
use xweave_system::kallsyms::parse_functions;
use xweave_wire::{
    message::{FunctionClone, SiteAddress},
    plan::{Hook, Plan, PlanProgram, PlanSite},
};

/// The addresses of functions that a plan names.
#[derive(Default)]
pub(crate) struct Addresses<'p> {
    /// By name and module. None if there is none, or several are called that.
    found: HashMap<(&'p str, Option<&'p str>), Option<u64>>,
    /// By name, in whatever module.
    named: HashMap<&'p str, Vec<u64>>,
    /// What the compiler made of them besides, by name and module.
    clones: HashMap<(&'p str, Option<&'p str>), Vec<String>>,
    /// Whether the kernel shows addresses of symbols.
    shown: bool,
}

impl<'p> Addresses<'p> {
    /// Those of the running kernel; none where kallsyms is hidden from us.
    pub(crate) fn of(plan: &'p Plan) -> Self {
        Self::among(plan, &fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    pub(crate) fn among(plan: &'p Plan, symbols: &str) -> Self {
        Self::wanted(sites(plan).filter_map(|(program, site)| symbol(program, site)).collect(), symbols)
    }

    /// Those of functions of the kernel's image.
    #[cfg(test)]
    pub(crate) fn named(names: impl IntoIterator<Item = &'p str>, symbols: &str) -> Self {
        Self::wanted(names.into_iter().map(|name| (name, None)).collect(), symbols)
    }

    fn wanted(wanted: Vec<(&'p str, Option<&'p str>)>, symbols: &str) -> Self {
        let mut named: HashMap<&str, Vec<u64>> = wanted.iter().map(|(name, _)| (*name, Vec::new())).collect();
        let places: HashMap<_, usize> = wanted.iter().copied().zip(0..).collect();
        let mut known = vec![Vec::new(); wanted.len()];
        let mut shown = false;
        let mut clones: HashMap<_, Vec<String>> = HashMap::new();
        for (address, name, module) in parse_functions(symbols) {
            shown |= address != 0;
            if let Some(&place) = clone_of(name).and_then(|of| places.get(&(of, module))) {
                clones.entry(wanted[place]).or_default().push(name.to_owned());
            }
            let Some(all) = named.get_mut(name) else { continue };
            all.extend(Some(address).filter(|address| *address != 0));
            if let Some(&place) = places.get(&(name, module)) {
                known[place].push(address);
            }
        }
        let alone = |symbol| match known[places[symbol]][..] {
            [address] => Some(address).filter(|address| *address != 0),
            _ => None,
        };
        Self { found: wanted.iter().map(|symbol| (*symbol, alone(symbol))).collect(), named, clones, shown }
    }

    /// Those of all functions with that name, in the kernel's image and in modules.
    pub(crate) fn all(&self, function: &str) -> &[u64] {
        self.named.get(function).map_or(&[], Vec::as_slice)
    }

    /// A site's address, if it is known.
    pub(crate) fn site(&self, program: &PlanProgram, site: &PlanSite) -> Option<u64> {
        let function = symbol(program, site).and_then(|symbol| self.found.get(&symbol).copied().flatten());
        function.map(|function| function + u64::from(site.offset))
    }

    /// Whether a site's function has no symbol at all.
    pub(crate) fn is_absent(&self, program: &PlanProgram, site: &PlanSite) -> bool {
        self.shown
            && symbol(program, site).is_some()
            && program.hook != Hook::Instruction
            && self.named.get(site.function.as_str()).is_some_and(Vec::is_empty)
    }

    /// What the compiler made of a site's function.
    pub(crate) fn clones_of<'a>(&'a self, program: &PlanProgram, site: &'a PlanSite) -> &'a [String] {
        symbol(program, site).and_then(|symbol| self.clones.get(&symbol)).map_or(&[], Vec::as_slice)
    }

    /// What the compiler made besides of the functions that the plan hooks: calls that go there are not seen.
    pub(crate) fn clones(&self, plan: &Plan) -> Vec<FunctionClone> {
        let functions = sites(plan).filter(|(program, _)| program.hook != Hook::Instruction);
        functions
            .filter_map(|(program, site)| Some((site.site, self.clones.get(&symbol(program, site)?)?)))
            .flat_map(|(site, names)| {
                names.iter().map(move |name| FunctionClone { site, name: name.clone() })
            })
            .collect()
    }

    /// Those of all sites of the plan; 0 for those that are not known.
    pub(crate) fn sites(&self, plan: &Plan) -> Vec<SiteAddress> {
        sites(plan)
            .flat_map(|(program, site)| {
                let address = self.site(program, site).unwrap_or(0);
                (site.site..site.site + site.clauses).map(move |site| SiteAddress { site, address })
            })
            .collect()
    }
}

fn sites(plan: &Plan) -> impl Iterator<Item = (&PlanProgram, &PlanSite)> {
    plan.programs.iter().flat_map(|program| program.sites.iter().map(move |site| (program, site)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_its_own_address_and_a_tracepoint_none() {
        let program = |hook, site, function: &str, offset| PlanProgram {
            object: 0,
            name: String::new(),
            hook,
            saver: None,
            tracepoint: 0,
            sites: vec![PlanSite {
                optional: false,
                site,
                clauses: 1,
                function: function.into(),
                module: None,
                btf_id: 0,
                offset,
                places: Vec::new(),
                arguments: 0,
            }],
            origin: String::new(),
        };
        let plan = Plan {
            domain: 1,
            objects: vec![Vec::new()],
            programs: vec![
                program(Hook::Entry, 1, "f", 0),
                program(Hook::Instruction, 2, "f", 5),
                program(Hook::Instruction, 3, "hidden", 5),
                program(Hook::Tracepoint, 4, "f", 0),
            ],
            buffer: 4096,
            flow_table: 1,
            serial_attach: false,
            events: None,
        };
        let symbols = "ffffffff81000000 t f\nffffffff81000010 t f\t[m]\n0000000000000000 t hidden\n";
        let told = |symbols: &str| -> Vec<_> {
            let sites = Addresses::among(&plan, symbols).sites(&plan);
            sites.iter().map(|site| (site.site, site.address)).collect()
        };
        assert_eq!(told(symbols), [(1, 0xffff_ffff_8100_0000), (2, 0xffff_ffff_8100_0005), (3, 0), (4, 0)]);
        let with_clones = format!("{symbols}ffffffff81000200 t f.part.0\nffffffff81000300 t f.isra.0\t[m]\n");
        let clones = Addresses::among(&plan, &with_clones).clones(&plan);
        assert_eq!(
            clones,
            [FunctionClone { site: 1, name: "f.part.0".into() }],
            "of entries, not of instructions"
        );
        let another = format!("{symbols}ffffffff81000090 t f\n");
        assert_eq!(told(&another), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    }
}
