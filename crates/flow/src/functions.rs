//! Functions of domains, numbered as flows come by them.

use std::{collections::HashMap, sync::Arc};

use xweave_trace::Row;

use crate::landmarks::{self, Landmark};

/// A function of a domain.
pub(crate) type Number = u32;

/// Functions that are told apart: as many as are woven, and more.
const MOST: usize = 1 << 20;

const LATELY: usize = 1024;

/// What is known of a function in which flows are met.
pub(crate) struct Function {
    /// `domain:function`.
    pub name: String,
    /// The domain's number.
    pub domain: u8,
    /// What a flow enters there.
    pub landmark: Option<Landmark>,
    /// The carrier that flows are put on or taken off there.
    pub carrier: Option<Arc<str>>,
}

impl Function {
    /// A function by its name and its domain's.
    pub(crate) fn new(domain: (u8, &str), function: &str, carrier: Option<&str>) -> Self {
        Self {
            name: format!("{}:{function}", domain.1),
            domain: domain.0,
            landmark: landmarks::of(function),
            carrier: carrier.map(Arc::from),
        }
    }
}

/// Those that were met.
pub(crate) struct Functions {
    all: Vec<Function>,
    by_name: HashMap<String, Number>,
    by_site: HashMap<(u8, u32), Number>,
    /// Those that were asked for lately, by what is left of the site's number.
    lately: Box<[Option<(u8, u32, Number)>; LATELY]>,
}

impl Default for Functions {
    fn default() -> Self {
        let (all, lately) = (Vec::new(), Box::new([None; LATELY]));
        Self { all, by_name: HashMap::new(), by_site: HashMap::new(), lately }
    }
}

impl Functions {
    /// The function in which a record was made; `tell` knows more of one that is met first.
    pub(crate) fn of(&mut self, row: &Row, tell: impl FnOnce(&Row) -> Function) -> Number {
        // Sites are few, and their numbers follow each other.
        let lately = &mut self.lately[row.site as usize % LATELY];
        match lately {
            Some((domain, site, number)) if (*domain, *site) == (row.domain, row.site) => return *number,
            _ => {}
        }
        if let Some(number) = self.by_site.get(&(row.domain, row.site)) {
            *lately = Some((row.domain, row.site, *number));
            return *number;
        }
        if self.by_site.len() >= MOST {
            return Number::MAX;
        }
        let function = tell(row);
        let next = Number::try_from(self.all.len()).unwrap_or(Number::MAX);
        let number = *self.by_name.entry(function.name.clone()).or_insert(next);
        if number == next {
            self.all.push(function);
        } else if let Some(known) = self.all.get_mut(number as usize) {
            // Several sites lie in one function, and not all have to do with a carrier.
            known.carrier = known.carrier.take().or(function.carrier);
        }
        self.by_site.insert((row.domain, row.site), number);
        number
    }

    /// What is known of one; nothing of those that were too many.
    pub(crate) fn get(&self, number: Number) -> Option<&Function> {
        self.all.get(number as usize)
    }

    /// `domain:function`.
    pub(crate) fn name(&self, number: Number) -> Option<&str> {
        self.get(number).map(|function| &*function.name)
    }
}
