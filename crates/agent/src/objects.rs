//! A plan's objects, as libbpf loads them: of several, maps with the same name are one.

use std::{collections::HashMap, os::fd::AsFd};

use libbpf_rs::{Map, MapCore, Object, ObjectBuilder, OpenMapMut, OpenObject};
use xweave_wire::plan::{Hook, Plan};

use crate::{
    error::Error,
    guard,
    hook::{is_bound, name_in_module},
    libbpf_log::Log,
    rings,
};

/// The prelude's program that lists programs.
pub(crate) const LISTER: &str = "xw_programs";

/// The prelude's table in which programs at tracepoints find their cookies: each object's own.
pub(crate) const TRACEPOINTS: &str = "xw_tracepoints";

/// The objects of a plan, in its order: at least one.
pub(crate) struct Objects(Vec<Object>);

impl Objects {
    /// Opens the objects, and has libbpf load what the plan names of them.
    pub(crate) fn load(plan: &Plan, sites: usize) -> Result<Self, Error> {
        let log = Log::capture();
        let mut objects = Self(Vec::new());
        for number in (0..).zip(&plan.objects).map(|(number, _)| number) {
            let opened = objects.open(plan, number, sites).and_then(OpenObject::load);
            objects.0.push(opened.map_err(|error| Error::Load { error, log: log.take() })?);
        }
        if objects.0.is_empty() { Err(Error::Plan("no object".to_owned())) } else { Ok(objects) }
    }

    fn open(&self, plan: &Plan, number: u32, sites: usize) -> Result<OpenObject, libbpf_rs::Error> {
        let nth = usize::try_from(number).unwrap_or(usize::MAX);
        let bytes = plan.objects.get(nth).map_or(&[][..], Vec::as_slice);
        let mut object = ObjectBuilder::default().name("xweave")?.open_memory(bytes)?;
        rings::size_table(&mut object)?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match self.map(&name) {
                Ok(known) if is_shared(&name) => map.reuse_fd(known.as_fd())?,
                _ => prepare(&mut map, &name, plan, number, sites)?,
            }
        }
        let mut targets: HashMap<&str, Option<String>> = HashMap::new();
        for program in plan.programs.iter().filter(|program| program.object == number) {
            let first =
                program.sites.first().map(|site| name_in_module(site.module.as_deref(), &site.function));
            targets.insert(&program.name, first.filter(|_| is_bound(program.hook)));
            targets.extend(program.saver.as_deref().map(|saver| (saver, None)));
        }
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            match targets.get(name.as_str()) {
                Some(Some(target)) => program.set_attach_target(0, Some(target.clone()))?,
                Some(None) => {}
                None if name == LISTER && number == 0 => {}
                None => program.set_autoload(false),
            }
        }
        Ok(object)
    }

    /// The object with this number.
    pub(crate) fn get(&self, number: u32) -> Result<&Object, Error> {
        let object = usize::try_from(number).ok().and_then(|nth| self.0.get(nth));
        object.ok_or_else(|| Error::Plan(format!("no object {number}")))
    }

    /// A map that objects share, by its name.
    pub(crate) fn map(&self, name: &str) -> Result<Map<'_>, Error> {
        let mut found = self.0.iter().flat_map(Object::maps);
        found.find(|map| map.name() == name).ok_or_else(|| Error::Plan(format!("no map {name}")))
    }

    /// The map of that name, if any object has it.
    pub(crate) fn find_map(&self, name: &str) -> Option<Map<'_>> {
        self.map(name).ok()
    }
}

/// Sizes a map, or takes one that other recordings have.
fn prepare(
    map: &mut OpenMapMut<'_>,
    name: &str,
    plan: &Plan,
    number: u32,
    sites: usize,
) -> Result<(), libbpf_rs::Error> {
    let any_instruction = plan.programs.iter().any(|program| program.hook == Hook::Instruction);
    let any_saver = plan.programs.iter().any(|program| program.saver.is_some());
    let sites = u32::try_from(sites.max(1)).unwrap_or(u32::MAX);
    match name {
        guard::MAP => map.reuse_fd(guard::shared()?.as_fd()),
        // Its memory is taken at once, and hardly anybody needs it.
        "xw_calls" if !any_saver => map.set_max_entries(1),
        "xw_tallies" | "xw_running" => map.set_max_entries(sites),
        "xw_variables" if any_instruction => map.set_max_entries(sites),
        TRACEPOINTS => map.set_max_entries(tracepoints_of(plan, number).max(1)),
        name if name.starts_with("xw_flow_") => map.set_max_entries(buckets(plan)),
        _ => Ok(()),
    }
}

/// Reports maps that objects share: not the table of each object's own programs, nor sections of data.
fn is_shared(map: &str) -> bool {
    map != TRACEPOINTS && !map.contains('.')
}

/// Counts the entries that an object's table of tracepoints needs.
pub(crate) fn tracepoints_of(plan: &Plan, object: u32) -> u32 {
    let programs = plan.programs.iter();
    let at_tracepoints = programs.filter(|of| of.object == object && of.hook == Hook::Tracepoint);
    at_tracepoints.map(|program| program.tracepoint.saturating_add(1)).max().unwrap_or(0)
}

/// Buckets of each flow table: a power of two, with room for three and a half times the keys at
/// least. So each finds a slot within the prelude's reach, though they are not spread evenly.
pub(crate) fn buckets(plan: &Plan) -> u32 {
    plan.flow_table.div_ceil(2).next_power_of_two()
}

/// A map of one object, by its name.
pub(crate) fn map<'o>(object: &'o Object, name: &str) -> Result<Map<'o>, Error> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| Error::Plan(format!("no map {name}")))
}
